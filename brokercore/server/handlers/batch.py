"""Batches: many messages of one topic and queue in one request."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from time import perf_counter
from typing import Any

from brokercore.protocol import properties as names
from brokercore.protocol.batch import iterate_batch
from brokercore.protocol.codes import ResponseCode
from brokercore.protocol.properties import decode_properties, decode_text
from brokercore.server import answers
from brokercore.server.account import Account
from brokercore.server.broker import Broker
from brokercore.server.connection import respond
from brokercore.server.delays import TIMED
from brokercore.server.drafts import Draft
from brokercore.server.errors import Refusal
from brokercore.server.incoming import check_body, check_kind, count_put, stored_properties
from brokercore.server.message_keys import message_keys
from brokercore.server.storage.batches import Incoming, put_all
from brokercore.server.storage.store import Done
from brokercore.server.storage.topics import group_of

AT_ONCE_MESSAGES, AT_ONCE_KEYS = 1000, 8000
"""A batch of at most so many messages, and keys that they are found by, is stored in one step: no other message of its
queue lies between its own."""

_PART = 250
"""Messages of a larger batch that are stored in one slice."""

_AT_ONCE_SECONDS = 0.005
"""Time that reading a batch takes at once; the rest is read in slices."""

_NOT_IN_BATCHES = TIMED | {names.TRANSACTION_PREPARED}


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
            check_kind(self._broker, self._draft.topic, "FIFO")
        if self._ordered < len(self.messages):
            check_kind(self._broker, self._draft.topic, "NORMAL")
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
    draft.connection.write(answers.send_answer(opaque, broker.region, ids[0], queue_id, first, ids[1]))
