"""Messages that are stored but not yet in their queue: timers, and half messages of transactions.

A parked message lies in a system topic; a sorted set says until when. It is moved to its queue, or thrown away,
by one script, so that neither a crash nor a repeated attempt delivers it twice or loses it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from typing import Any

from brokercore.protocol.errors import ProtocolError
from brokercore.protocol.message import StoredMessage, decode_stored, encode_stored
from brokercore.protocol.properties import encode_properties
from brokercore.server.errors import StoreUnavailable, store_trouble
from brokercore.server.storage.index import index_record
from brokercore.server.storage.queue import Queue, split_physical
from brokercore.server.storage.redis_connection import Argument, Script, is_error
from brokercore.server.storage.store import Done, MessageStore

logger = logging.getLogger(__name__)

MOVE, DISCARD = Script("move"), Script("discard")

_PHYSICAL_OFFSET_AT = 28
"""Where a stored frame has its physical offset, as eight bytes."""

Moved = Callable[[bool], None]
"""Called with True when the message is in its queue (or gone), False when Redis did not take it."""


class Parking:
    """One sorted set of parked messages, ordered by a time in epoch ms."""

    def __init__(self, store: MessageStore, key: str) -> None:
        self._store, self._key = store, key

    def park(
        self, queue: Queue, until_ms: int, body: bytes, properties: bytes, done: Done, *, topic: str, **fields: Any
    ) -> int:
        """Store a message for `topic` in a parking queue until `until_ms`; returns its offset there.

        Raises StoreFull and StoreUnavailable.
        """
        failed: list[Any] = []

        def stored(reason: str | None) -> None:
            if reason is None and not failed:
                self._store.parked.came(topic, len(body) + len(properties))
            if reason is None and failed:  # nothing would ever find it
                self._store.writer.send("XDEL", queue.key, f"0-{offset + 1}")
            done(reason or (store_trouble(failed[0]) if failed else None))

        offset = self._store.put(queue, body, properties, stored, **fields)
        self._store.writer.submit_first(
            "ZADD",
            self._key,
            until_ms,
            _member(queue.base + offset),
            callback=lambda reply: failed.append(reply) if is_error(reply) else None,
        )
        return offset

    async def due(self, now_ms: int, count: int) -> list[int]:
        """Physical offsets of up to `count` messages whose time has come. Raises StoreUnavailable."""
        members = await self._store.reader.call("ZRANGEBYSCORE", self._key, "-inf", now_ms, "LIMIT", 0, count)
        return [int.from_bytes(member, "big") for member in members]

    async def waiting_until(self, until_ms: int) -> list[int]:
        """Physical offsets of the messages that wait for exactly this time. Raises StoreUnavailable."""
        members = await self._store.reader.call("ZRANGEBYSCORE", self._key, until_ms, until_ms)
        return [int.from_bytes(member, "big") for member in members]

    async def next_ms(self) -> int | None:
        """The earliest time in the set, None when it is empty. Raises StoreUnavailable."""
        reply = await self._store.reader.call("ZRANGE", self._key, 0, 0, "WITHSCORES")
        return int(float(reply[1])) if reply else None

    async def postpone(self, physical_offset: int, until_ms: int) -> None:
        """Give a message that still waits another time. Raises StoreUnavailable."""
        await self._store.writer.call("ZADD", self._key, "XX", until_ms, _member(physical_offset))

    async def waits(self, physical_offset: int) -> bool:
        """True while the message is neither moved nor thrown away. Raises StoreUnavailable."""
        return await self._store.writer.call("ZSCORE", self._key, _member(physical_offset)) is not None

    def move(
        self,
        message: StoredMessage,
        target: Queue,
        moved: Moved,
        *,
        keys: Iterable[str] = (),
        properties: dict[str, str] | None = None,
        **fields: int,
    ) -> None:
        """Put a parked message into `target`, with other `properties` if there are any.

        `fields` replace sys_flag or prepared_transaction_offset.

        Raises StoreUnavailable.
        """
        store = self._store
        if not store.ready:  # offsets are being read back
            raise StoreUnavailable(store.trouble)
        now = max(int(time.time() * 1000), target.last_ms)
        offset = target.next_offset
        shown = message if properties is None else message.copy(properties=properties)
        frame = _frame_at(store, shown, target, offset, now, **fields)
        names, records = [], []
        for key in keys:
            names.append(store.index.key_of(target.topic, now))
            records.append(index_record(key, target.base + offset))
        parked = self._parked(message.physical_offset)
        arguments: list[Argument] = [_member(message.physical_offset), parked[1], f"0-{offset + 1}", frame, *records]

        def answered(reply: Any) -> None:
            if reply == 1:
                store.stored(target, offset, frame, now)
                self._forget(message.physical_offset, message, target)
                moved(True)
            else:
                store.not_stored(target, reply)
                moved(not is_error(reply))

        MOVE.run(store.writer, [self._key, parked[0], target.key, *names], arguments, answered)
        store.give_out(target, now)

    def discard(
        self, physical_offset: int, moved: Moved | None = None, *, message: StoredMessage | None = None
    ) -> None:
        """Throw a parked message away; None is one that was not found, or cannot be read. Raises StoreUnavailable.

        One that was not found may be on its way: its time is written before it, and may have come meanwhile. It
        stays when it is there after all.
        """

        def answered(reply: Any) -> None:
            if moved:
                moved(not is_error(reply))

        self._discard(physical_offset, message, answered)

    async def cancel(self, message: StoredMessage) -> bool:
        """Throw a parked message away; False when it does not wait any more. Raises StoreUnavailable."""
        answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._discard(message.physical_offset, message, answered.set_result)
        reply = await answered
        if is_error(reply):
            raise StoreUnavailable(str(reply))
        return bool(reply)

    def _discard(self, physical_offset: int, message: StoredMessage | None, answered: Callable[[Any], None]) -> None:
        def gone(reply: Any) -> None:
            if reply == 1:
                self._forget(physical_offset, message)
            answered(reply)

        parked = self._parked(physical_offset)
        arguments: list[Argument] = [_member(physical_offset), parked[1], "missing" if message is None else "any"]
        DISCARD.run(self._store.writer, [self._key, parked[0]], arguments, gone)

    def _parked(self, physical_offset: int) -> tuple[bytes, str]:
        number, offset = split_physical(physical_offset)
        queue = self._store.by_number.get(number)
        return (queue.key if queue else self._store.keys.stream(number).encode()), f"0-{offset + 1}"

    def _forget(self, physical_offset: int, message: StoredMessage | None, target: Queue | None = None) -> None:
        if message is not None:
            self._store.parked.left(message, target)
        number, offset = split_physical(physical_offset)
        queue = self._store.by_number.get(number)
        if queue is not None:
            self._store.removed(queue, offset)


def _frame_at(
    store: MessageStore, message: StoredMessage, target: Queue, offset: int, now: int, **fields: int
) -> bytes:
    return encode_stored(
        target.topic_bytes,
        message.body,
        encode_properties(message.properties),
        queue_id=target.queue_id,
        flag=message.flag,
        queue_offset=offset,
        physical_offset=target.base + offset,
        sys_flag=fields.get("sys_flag", message.sys_flag),
        born_timestamp=message.born_timestamp,
        born_host=host_bytes(message.born_host),
        store_timestamp=now,
        store_host=store.store_host,
        reconsume_times=message.reconsume_times,
        prepared_transaction_offset=fields.get("prepared_transaction_offset", message.prepared_transaction_offset),
    )


def readable(frames: Iterable[bytes]) -> tuple[list[StoredMessage], list[int]]:
    """Parked messages, and the physical offsets of those that cannot be read."""
    messages, broken = [], []
    for frame in frames:
        try:
            messages.append(decode_stored(frame)[0])
        except ProtocolError as error:
            broken.append(int.from_bytes(frame[_PHYSICAL_OFFSET_AT : _PHYSICAL_OFFSET_AT + 8], "big"))
            logger.error("parked message %d cannot be read: %s", broken[-1], error)
    return messages, broken


def host_bytes(host: tuple[str, int]) -> bytes:
    """The 8 bytes of an IPv4 host as stored."""
    return bytes(map(int, host[0].split("."))) + host[1].to_bytes(4, "big")


def _member(physical_offset: int) -> bytes:
    return physical_offset.to_bytes(8, "big")
