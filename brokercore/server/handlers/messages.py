"""Finding messages: by key or unique id (12), by offset id (33), and the entries of a queue (321)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

import orjson

from brokercore.protocol.codes import RequestCode, ResponseCode
from brokercore.protocol.command import Command
from brokercore.protocol.filters import tag_code
from brokercore.protocol.message import decode_stored
from brokercore.server.broker import Broker
from brokercore.server.connections.connection import Connection
from brokercore.server.connections.headers import boolean, integer, text
from brokercore.server.delivery.filtering import tag_of
from brokercore.server.errors import Refusal
from brokercore.server.handlers.offsets import existing_queue, existing_topic
from brokercore.server.rights import permissions
from brokercore.server.rights.authentication import Caller

MAX_FOUND = 64
"""Messages one query answers with at most (maxMsgsNumBatch)."""

_MAX_ENTRIES = 1000
_MAX_ANSWER = 8 << 20
_AT_ONCE = 32


async def query(broker: Broker, connection: Connection, command: Command, caller: Caller) -> Command:
    """QUERY_MESSAGE, newest first."""
    ext = command.ext
    name, key = text(ext, "topic"), text(ext, "key")
    existing_topic(broker, name)
    begin, end = integer(ext, "beginTimestamp", 0), integer(ext, "endTimestamp", 1 << 62)
    unique, wanted = boolean(ext, "_UNIQUE_KEY_QUERY"), max(1, min(integer(ext, "maxNum", MAX_FOUND), MAX_FOUND))
    work = broker.pace.work(caller.account)
    frames: list[bytes] = []
    size = 0
    pieces = _in_pieces(broker, broker.store.index.find(broker.store.reader, name, key, begin, end))
    async with connection.reads, aclosing(pieces) as found:
        async for some in found:
            async for frame in work.over(some):
                if _matches(frame, name, key, unique, range(begin, end + 1)) and size + len(frame) <= _MAX_ANSWER:
                    frames.append(frame)
                    size += len(frame)
            if len(frames) >= wanted:
                break
    if not frames:
        raise Refusal(ResponseCode.QUERY_NOT_FOUND, f"no message of topic {name} has the key {key[:64]}")
    topic = existing_topic(broker, name)
    last = max(topic.queues, key=lambda queue: queue.last_ms)
    header = {
        "indexLastUpdatePhyoffset": str(last.base + last.max_offset),
        "indexLastUpdateTimestamp": str(last.last_ms),
    }
    return command.response(ResponseCode.SUCCESS, ext=header, body=b"".join(frames[:wanted]))


async def view(broker: Broker, connection: Connection, command: Command, caller: Caller) -> Command:
    """VIEW_MESSAGE_BY_ID."""
    offset = integer(command.ext, "offset")
    async with connection.reads:
        frame = await broker.store.message_at(offset)
    topic = decode_stored(frame)[0].topic if frame is not None else ""
    seen = any(permissions.may(caller, connection, action, topic) for action in permissions.READS_MESSAGE)
    if frame is None or not seen:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {offset}")
    return command.response(ResponseCode.SUCCESS, body=frame)


async def entries(broker: Broker, connection: Connection, command: Command, caller: Caller) -> Command:
    """QUERY_CONSUME_QUEUE: where the messages of a queue lie, and their tag codes."""
    ext = command.ext
    queue = existing_queue(broker, ext)
    count = max(0, min(integer(ext, "count", _AT_ONCE), _MAX_ENTRIES))
    first = max(integer(ext, "index", 0), queue.min_offset)
    async with connection.reads:
        found = await broker.store.read(queue, first, count, _MAX_ANSWER) if count else []
    data = []
    async for offset, frame in broker.pace.work(caller.account).over(found):
        code = tag_code(tag_of(frame).decode("utf-8", "replace"))
        row = {"eval": False, "physicOffset": queue.base + offset, "physicSize": len(frame), "tagsCode": code}
        data.append(row)
    body = {"maxQueueIndex": queue.max_offset, "minQueueIndex": queue.min_offset, "queueData": data}
    return command.response(ResponseCode.SUCCESS, body=orjson.dumps(body))


async def _in_pieces(broker: Broker, found: AsyncIterator[list[int]]) -> AsyncGenerator[list[bytes]]:
    """The frames at these places, few at a time: a message can have 4 MiB."""
    async for places in found:
        for start in range(0, len(places), _AT_ONCE):
            async with aclosing(broker.store.in_pieces(places[start : start + _AT_ONCE])) as pieces:
                async for frames in pieces:
                    yield frames


def _matches(frame: bytes, topic: str, key: str, unique: bool, period: range) -> bool:
    """The index knows only hashes: look at the message itself."""
    message = decode_stored(frame)[0]
    if message.topic != topic or message.store_timestamp not in period:
        return False
    return message.unique_id == key or (not unique and key in message.keys.split())


HANDLERS = {
    RequestCode.QUERY_MESSAGE: query,
    RequestCode.VIEW_MESSAGE_BY_ID: view,
    RequestCode.QUERY_CONSUME_QUEUE: entries,
}
