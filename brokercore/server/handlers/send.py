"""Sends: 310, 10 and 320. The hot path of the broker: one message is decoded once and encoded once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from random import randrange
from time import perf_counter
from typing import Any

from brokercore.names import RETRY_PREFIX, TRACE_TOPIC, dead_letter_topic, group_of
from brokercore.protocol import properties as names
from brokercore.protocol.codes import RequestCode, ResponseCode
from brokercore.protocol.command import Command
from brokercore.protocol.message import iterate_batch
from brokercore.protocol.properties import decode_properties, decode_text
from brokercore.server.broker import Broker
from brokercore.server.connections.connection import Connection, respond
from brokercore.server.connections.fairness import LARGE_BYTES
from brokercore.server.connections.headers import SEND_FIELDS, integer, send_answer, text
from brokercore.server.delivery.delayed_delivery import TIMED, deliver_at, is_delayed
from brokercore.server.delivery.drafts import Draft
from brokercore.server.delivery.incoming import (
    answer,
    check_body,
    check_kind,
    count_put,
    park,
    prepare,
    put,
    stored_properties,
)
from brokercore.server.errors import Refusal
from brokercore.server.rights.account import Account
from brokercore.server.rights.authentication import Caller
from brokercore.server.storage.index import message_keys
from brokercore.server.storage.queue import Queue
from brokercore.server.storage.store import Done, Incoming, put_all
from brokercore.server.storage.topics import Topic

AT_ONCE_MESSAGES, AT_ONCE_KEYS = 1000, 8000
"""A batch of at most so many messages, and keys that they are found by, is stored in one step: no other message of its
queue lies between its own."""

_PART = 250
"""Messages of a larger batch that are stored in one slice."""

_AT_ONCE_SECONDS = 0.005
"""Time that reading a batch takes at once; the rest is read in slices."""

_NOT_IN_BATCHES = TIMED | {names.TRANSACTION_PREPARED}

MAX_TOPIC = 127
PREPARED = 0x4
_TRANSACTION_BITS = 0xC
_MAX_RECONSUME_TIMES = 16


class _Batch:
    """The messages in a draft's body, read as far as time allows."""

    def __init__(self, broker: Broker, draft: Draft) -> None:
        self._broker, self._draft = broker, draft
        self._left = iterate_batch(draft.body)
        self._ordered = 0
        self._keys = 0
        self.messages: list[Incoming] = []

    def read(self, until: float) -> bool:
        """Read on; False when that moment of the performance counter came first. Raises Refusal."""
        for flag, body, given in self._left:
            if not body:
                check_body(body)
            text = decode_text(given)
            properties = decode_properties(text)
            if not _NOT_IN_BATCHES.isdisjoint(properties):
                raise _not_in_batches()
            if names.SHARDING_KEY in properties:
                self._ordered += 1
            encoded = stored_properties(self._broker, properties, text)
            keys = message_keys(properties)
            self._keys += len(keys)
            self.messages.append(Incoming(body, encoded, keys, flag))
            if perf_counter() >= until:
                return False
        if self._ordered:
            check_kind(self._broker, self._draft.topic, "FIFO", self._draft.connection)
        if self._ordered < len(self.messages):
            check_kind(self._broker, self._draft.topic, "NORMAL", self._draft.connection)
        return True

    @property
    def is_ordinary(self) -> bool:
        """Whether it is stored in one step."""
        return len(self.messages) <= AT_ONCE_MESSAGES and self._keys <= AT_ONCE_KEYS

    def admit(self, account: Account | None) -> None:
        """Ask for room for all of it. Raises StoreFull and StoreUnavailable."""
        size = sum([len(message.body) + len(message.properties) for message in self.messages])
        self._broker.store.admit(size, len(self.messages))
        self._broker.limits.more_messages(account, self._draft.queue.topic, len(self.messages) - 1)


def send_batch(broker: Broker, draft: Draft, account: Account | None) -> Coroutine[Any, Any, None] | None:
    """Store the messages in the draft's body; each keeps its own unique id.

    An ordinary batch is stored in one step. An enormous one is read in slices, and stored some messages at a time once
    there is room for all of it: other messages of the queue may come to lie between them. The batch is answered once,
    when its last message is safe. Raises Refusal before anything is stored.
    """
    check_body(draft.body)
    if group_of(draft.queue.topic):
        raise _not_in_batches()
    batch = _Batch(broker, draft)
    if not batch.read(perf_counter() + _AT_ONCE_SECONDS) or not batch.is_ordinary:
        return _go_on(broker, draft, batch, account)
    _store(broker, draft, batch, account)
    return None


def _store(broker: Broker, draft: Draft, batch: _Batch, account: Account | None) -> None:
    messages = batch.messages

    def done(reason: str | None) -> None:
        if reason is not None:
            respond(draft.connection, draft.command, ResponseCode.SYSTEM_BUSY, reason)
        elif not draft.command.flag & 2:
            _answer(broker, draft, first, _ids(broker, draft, messages, range(first, first + len(messages))))

    batch.admit(account)
    first = _put(broker, draft, messages, done)


async def _go_on(broker: Broker, draft: Draft, batch: _Batch, account: Account | None) -> None:
    """Read the rest of a batch in slices, and store it."""
    work = broker.pace.work(account)
    while not batch.read(work.deadline):
        await work.rest()
    _check_topic(broker, draft)
    if batch.is_ordinary:
        _store(broker, draft, batch, account)
        work.end()
        return
    batch.admit(account)
    stored: list[tuple[list[Incoming], int, asyncio.Future[str | None]]] = []
    for start in range(0, len(batch.messages), _PART):
        if work.is_over:
            await work.rest()
            _check_topic(broker, draft)
        part = batch.messages[start : start + _PART]
        done: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        stored.append((part, _put(broker, draft, part, done.set_result), done))
    work.end()
    reasons = [await done for _, _, done in stored]
    reason = next(filter(None, reasons), None)
    if reason is not None:
        respond(draft.connection, draft.command, ResponseCode.SYSTEM_BUSY, reason)
    elif not draft.command.flag & 2:
        ids: list[bytes] = []
        unique_ids: list[str] = []
        async for part, first, _ in work.over(stored):
            more, more_unique = _ids(broker, draft, part, range(first, first + len(part)))
            ids.append(more)
            unique_ids.append(more_unique)
        _answer(broker, draft, stored[0][1], (b",".join(ids), ",".join(unique_ids)))


def _check_topic(broker: Broker, draft: Draft) -> None:
    """Raise Refusal when the topic was deleted meanwhile: a stream that nobody knows would be left behind."""
    name = draft.queue.topic
    if broker.topics.get(name) is not draft.topic:
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"the topic {name} was deleted meanwhile")


def _put(broker: Broker, draft: Draft, messages: list[Incoming], done: Done) -> int:
    """Store messages for which there is room, and return the first one's offset. Raises StoreUnavailable."""
    fields = {name: value for name, value in draft.fields.items() if name != "flag"}
    size = sum([len(message.body) for message in messages])
    share = draft.share
    if share is None:
        ended = done
    else:

        def ended(reason: str | None) -> None:
            broker.rounds.stored(share, size)
            done(reason)

    first = put_all(broker.store, draft.queue, messages, ended, **fields)  # type: ignore[arg-type]
    if share is not None:
        share.unstored += size
    count_put(broker, draft.topic, len(messages), size)
    return first


def _not_in_batches() -> Refusal:
    return Refusal(ResponseCode.MESSAGE_ILLEGAL, "a batch takes no delayed, transactional or retry messages")


def _ids(broker: Broker, draft: Draft, messages: list[Incoming], offsets: range) -> tuple[bytes, str]:
    """The message ids and the unique ids of messages at these offsets, as they are answered."""
    base, prefix = draft.queue.base, broker.message_id_prefix
    ids = b",".join([prefix + b"%016X" % (base + offset) for offset in offsets])
    return ids, ",".join([message.keys[0] for message in messages])


def _answer(broker: Broker, draft: Draft, first: int, ids: tuple[bytes, str]) -> None:
    opaque, queue_id = draft.command.opaque, draft.queue.queue_id
    draft.connection.write(send_answer(opaque, broker.region, ids[0], queue_id, first, ids[1]))


def send(broker: Broker, connection: Connection, command: Command, caller: Caller) -> Coroutine[Any, Any, None] | None:
    """SEND_MESSAGE_V2 (310), SEND_MESSAGE (10) and SEND_BATCH_MESSAGE (320)."""
    ext = command.ext if command.code != RequestCode.SEND_MESSAGE else _short(command.ext)
    try:
        name, given, sys_flag = ext["b"], ext.get("i") or "", int(ext["f"])
        topic = broker.topics.get(name) or _missing(name)
        queue = _queue(topic, int(ext["e"]))
        fields: dict[str, int | bytes] = {
            "flag": int(ext["h"]),
            "sys_flag": sys_flag & ~_TRANSACTION_BITS,
            "born_timestamp": int(ext["g"]),
            "born_host": connection.host_bytes,
            "reconsume_times": int(ext.get("j") or 0),
        }
    except (KeyError, ValueError):
        raise _malformed(ext) from None
    share = caller.account.share if len(command.body) >= LARGE_BYTES and caller.account is not None else None
    if name == TRACE_TOPIC:
        draft = Draft(connection, command, topic, queue, command.body, {}, b"", fields, share)
        return _send_traces(broker, draft, ext, caller)
    broker.limits.admit(caller.account, name, 1, len(command.body) + len(given))
    if ext.get("m") == "true" or command.code == RequestCode.SEND_BATCH_MESSAGE:
        draft = Draft(connection, command, topic, queue, command.body, {}, b"", fields, share)
        return send_batch(broker, draft, caller.account)
    check_body(command.body)
    properties = decode_properties(given)
    if names.CORRELATION_ID in properties:
        broker.replies.expect(properties, name, connection)
    encoded = stored_properties(broker, properties, given)
    draft = Draft(connection, command, topic, queue, command.body, properties, encoded, fields, share)
    if sys_flag & _TRANSACTION_BITS == PREPARED or properties.get(names.TRANSACTION_PREPARED) == "true":
        check_kind(broker, topic, "TRANSACTION", connection)
        prepare(broker, draft)
        return None
    if name[0] == "%" and name.startswith(RETRY_PREFIX) and _spent(broker, draft, ext):
        broker.spawn(_send_dead_letter(broker, draft))
        return None
    if is_delayed(properties):
        _send_delayed(broker, draft)
        return None
    check_kind(broker, topic, "FIFO" if names.SHARDING_KEY in properties else "NORMAL", connection)
    put(broker, draft)
    return None


def _send_traces(broker: Broker, draft: Draft, ext: dict[str, str], caller: Caller) -> Coroutine[Any, Any, None] | None:
    """Store message traces in the queue of the sender's account."""
    if ext.get("m") == "true" or draft.command.code == RequestCode.SEND_BATCH_MESSAGE:
        raise Refusal(ResponseCode.MESSAGE_ILLEGAL, "message traces are not sent in batches")
    given = ext.get("i") or ""
    check_body(draft.body)
    properties = decode_properties(given)
    draft = draft._replace(properties=properties, encoded=stored_properties(broker, properties, given))
    queue = broker.traces.queue(caller.account)
    if queue is None and caller.account is not None:
        return _open_traces(broker, draft, caller.account)
    _put_traces(broker, draft, caller.account, queue or draft.queue)
    return None


async def _open_traces(broker: Broker, draft: Draft, account: Account) -> None:
    _put_traces(broker, draft, account, await broker.traces.open(account))


def _put_traces(broker: Broker, draft: Draft, account: Account | None, queue: Queue) -> None:
    def stored(reason: str | None) -> None:
        answer(broker, draft, queue.base, offset, reason)

    done = broker.traces.admit(account, queue, len(draft.body) + len(draft.encoded), stored)
    keys = message_keys(draft.properties)
    offset = broker.store.put(queue, draft.body, draft.encoded, done, keys=keys, **draft.fields)  # type: ignore[arg-type]
    draft.leaves()
    count_put(broker, draft.topic, 1, len(draft.body))


def _short(ext: dict[str, str]) -> dict[str, str]:
    return {short: ext[long] for short, long in SEND_FIELDS.items() if ext.get(long) is not None}


def _malformed(ext: dict[str, str]) -> Refusal:
    """Which required field is missing or no number."""
    text(ext, "b")
    for name in "efgh":
        integer(ext, name)
    return Refusal(ResponseCode.SYSTEM_ERROR, f"the header field j is not a whole number: {ext.get('j')!r}")


def _missing(name: str) -> Topic:
    if len(name) > MAX_TOPIC and not group_of(name):
        raise Refusal(ResponseCode.MESSAGE_ILLEGAL, f"the topic has {len(name)} characters; allowed are {MAX_TOPIC}")
    raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"the topic {name} does not exist; topics are not made by sending")


def _queue(topic: Topic, queue_id: int) -> Queue:
    config = topic.config
    if not topic.writable:
        raise Refusal(ResponseCode.NO_PERMISSION, f"the broker's topic {config.topic} cannot be written to")
    if queue_id < 0:
        return topic.queues[randrange(config.write_queues)]
    if queue_id >= config.write_queues and queue_id >= config.read_queues:
        raise Refusal(
            ResponseCode.INVALID_PARAMETER,
            f"queue {queue_id} does not exist: topic {config.topic} has {config.write_queues} queues",
        )
    return topic.queues[queue_id]


def _send_delayed(broker: Broker, draft: Draft) -> None:
    until_ms, level = deliver_at(draft.properties, int(time.time() * 1000))
    if not until_ms:
        put(broker, draft)
        return
    check_kind(broker, draft.topic, "DELAY", draft.connection)
    park(broker, draft, until_ms, level)


def _spent(broker: Broker, draft: Draft, ext: dict[str, str]) -> bool:
    """True when a client's own retry is beyond the group's limit."""
    group = broker.groups.get(group_of(draft.topic.config.topic))
    usual = group.retry_max_times if group else _MAX_RECONSUME_TIMES
    limit = integer(ext, "l", usual)
    return int(draft.fields["reconsume_times"]) > limit


async def _send_dead_letter(broker: Broker, draft: Draft) -> None:
    topic = await broker.topics.ensure(dead_letter_topic(group_of(draft.topic.config.topic)), 1)
    try:
        put(broker, draft._replace(topic=topic, queue=topic.queues[0]))
    except Refusal as refusal:
        respond(draft.connection, draft.command, refusal.code, refusal.remark)


HANDLERS = {
    RequestCode.SEND_MESSAGE: send,
    RequestCode.SEND_MESSAGE_V2: send,
    RequestCode.SEND_BATCH_MESSAGE: send,
}
