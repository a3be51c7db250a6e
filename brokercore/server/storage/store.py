"""The message store: queues as streams. Writes are grouped per loop turn; a write is done once Redis answered.

Several messages that are stored together lie in few entries of their stream, and are answered for once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import hiredis

from brokercore.protocol import properties as names
from brokercore.protocol.errors import ProtocolError
from brokercore.protocol.message import decode_stored, encode_stored
from brokercore.server.connections.write_batching import Turn
from brokercore.server.errors import RedisError, StoreFull, StoreNewer, StoreUnavailable, store_trouble
from brokercore.server.settings import Settings
from brokercore.server.statistics import StorageTimes
from brokercore.server.storage import recovery
from brokercore.server.storage.index import KeyIndex
from brokercore.server.storage.keys import KEY_VALUES, Keys
from brokercore.server.storage.parked_bytes import ParkedBytes
from brokercore.server.storage.queue import (
    OFFSET_MASK,
    READ_BYTES,
    Queue,
    add_command,
    find_command,
    messages_of,
    read_messages,
    split_physical,
)
from brokercore.server.storage.redis_connection import RedisConnection, Script
from brokercore.server.storage.sole_writer import SoleWriter

logger = logging.getLogger(__name__)

LAYOUT = 3
"""Raise it with every change after which an older broker would misread the store or this one an old store, and bring
the old one up to date below. A home of the last release before goes to tests/homes.

Below 2 the key index of an hour is a sorted set, not a string of records, and each broker has its own key-values of the
name server, not those that all share under `gantry:kv`. Below 3 all half messages wait in one sorted set, not in one of
their sender's account. A store that is not empty and names no layout has 1."""

_MEMBERS_AT_ONCE = 50_000
_HALVES_AT_ONCE = 200

Done = Callable[[str | None], None]
"""Called when a write ended: None when it is stored, else the reason why it is not."""

OVERHEAD_BYTES = 60
"""Estimated memory of a message in Redis beside its frame: its share of the listpack, and two records of the index."""

OVERHEAD_FACTOR = 1.1
"""Listpack nodes are allocated in size classes and are not filled to the last byte."""

_MOST_IN_PIECE = 500
"""Commands of one question to Redis."""

ENTRY_BYTES = 64 << 10
"""Most bytes of an entry with several messages: who reads one of them reads all."""


async def bring_up_to_date(redis: RedisConnection, keys: Keys) -> None:
    """Make the store one of this release's layout; what is cut off on the way is done again by the next start.

    Raises StoreNewer, RedisError and StoreUnavailable.
    """
    stored: bytes | None = await redis.call("GET", keys.layout)
    if stored is None:
        is_new = not await redis.call("EXISTS", keys.last_queue, keys.topics)
        found = LAYOUT if is_new else 1
    else:
        found = int(stored)
    if found > LAYOUT:
        raise StoreNewer(
            f"its messages were written by a newer release (layout {found}; this one knows up to {LAYOUT}): "
            "start that release, or restore a backup of this one's"
        )
    if found < 2:
        await _append_the_index(redis, keys)
        await _share_key_values(redis, keys)
    if found < 3:
        await _part_half_messages(redis, keys)
    if stored is None or found < LAYOUT:
        await redis.call("SET", keys.layout, str(LAYOUT))


async def _append_the_index(redis: RedisConnection, keys: Keys) -> None:
    members: list[bytes] = await redis.call("SMEMBERS", keys.index_hours)
    parts = [member.decode().partition(":") for member in members]
    types = await redis.call_many(("TYPE", keys.index(part, topic)) for part, _, topic in parts)
    old = [keys.index(part, topic) for (part, _, topic), kind in zip(parts, types, strict=True) if kind == b"zset"]
    if old:
        logger.info("the key index of an older release is written anew: %d hours of topics", len(old))
    for key in old:
        await _append_one(redis, key)


async def _append_one(redis: RedisConnection, key: str) -> None:
    """Write a sorted set of records as a string, each queue's in the order of its messages, and put it in its place."""
    records: list[bytes] = []
    for start in range(0, int(await redis.call("ZCARD", key)), _MEMBERS_AT_ONCE):
        records += await redis.call("ZRANGE", key, start, start + _MEMBERS_AT_ONCE - 1)
    # The last eight bytes are a place: stream number and, in the lower 40 bits, the offset in it.
    records.sort(key=lambda record: int.from_bytes(record[-8:], "big") & OFFSET_MASK)
    written = f"{key}:new"
    await redis.call("UNLINK", written)
    for start in range(0, len(records), _MEMBERS_AT_ONCE):
        await redis.call("APPEND", written, b"".join(records[start : start + _MEMBERS_AT_ONCE]))
    await redis.call("RENAME", written, key)


async def _part_half_messages(redis: RedisConnection, keys: Keys) -> None:
    """Those of no account, or that cannot be read, stay where all were."""
    places: list[bytes] = await redis.call("ZRANGE", keys.half, 0, -1, "WITHSCORES")
    times = list(zip(places[::2], places[1::2], strict=True))
    for start in range(0, len(times), _HALVES_AT_ONCE):
        some = times[start : start + _HALVES_AT_ONCE]
        parked = [split_physical(int.from_bytes(member, "big")) for member, _ in some]
        entries = await redis.call_many(
            ("XRANGE", keys.stream(number), f"0-{offset + 1}", f"0-{offset + 1}") for number, offset in parked
        )
        for (member, due), found in zip(some, entries, strict=True):
            account = _sender(found[0][1][1]) if found else ""
            if account:
                await redis.call_all(
                    [
                        ("SADD", keys.half_senders, account),
                        ("ZADD", keys.half_of(account), due, member),
                        ("ZREM", keys.half, member),
                    ]
                )


def _sender(frame: bytes) -> str:
    try:
        return decode_stored(frame)[0].properties.get(names.SENDER_ACCOUNT, "")
    except ProtocolError:
        return ""


async def _share_key_values(redis: RedisConnection, keys: Keys) -> None:
    table: list[bytes] = await redis.call("HGETALL", keys.old_key_values)
    for name, value in zip(table[::2], table[1::2], strict=True):
        await redis.call("HSETNX", KEY_VALUES, name, value)
    await redis.call("UNLINK", keys.old_key_values)


class MessageStore:
    """All queues of this broker. One writer: offsets are given out here and read back from Redis after a break."""

    def __init__(self, settings: Settings, store_host: bytes, keys: Keys, turn: Turn | None = None) -> None:
        self.settings, self.keys, self.store_host = settings, keys, store_host
        self.writer = RedisConnection(settings.redis_url, "writer", self._recover, self._lost, turn)
        self.reader = RedisConnection(settings.redis_url, "reader", turn=turn)
        self.index = KeyIndex(self.writer, keys)
        self.times = StorageTimes()
        self.by_number: dict[int, Queue] = {}
        self.used_bytes = 0
        self.parked = ParkedBytes()
        self.index_bytes: dict[str, int] = {}
        """Bytes of the key indexes of each topic, as they were measured last."""
        self.ready = False
        self.scripts: list[Script] = []
        self.mending: list[Callable[[], Awaitable[None]]] = []
        """What writes back to Redis, after a break, what it has forgotten of the tables in memory."""

        self.on_superseded: Callable[[], None] = lambda: None
        """Called when another broker of this name has written meanwhile: what is in memory holds no more."""

        self._sole_writer = SoleWriter(keys, settings.broker_name)
        self.on_stored: Callable[[Queue], None] = lambda queue: None
        self._hot: deque[Queue] = deque()
        self._hot_bytes = 0

    async def start(self) -> None:
        """Connect and read back what is stored. Raises StoreUnavailable."""
        await self.reader.start()
        await self.writer.start()

    @property
    def trouble(self) -> str:
        """Why messages cannot be stored or read now, empty while they can."""
        return (self.writer.trouble or self.reader.trouble) if self.ready else self._not_ready()

    async def close(self) -> None:
        """Close both connections."""
        if self.ready:
            with contextlib.suppress(StoreUnavailable, RedisError, TimeoutError):  # then the end was not in order
                await asyncio.wait_for(self._sole_writer.release(self.writer), 2)
        self.ready = False
        await self.writer.close()
        await self.reader.close()

    async def settle(self, seconds: float) -> None:
        """Wait until every write has its answer, at most so long."""
        try:
            async with asyncio.timeout(seconds):
                await self.writer.call("ECHO", "gantry")  # answered after everything that was written before it
        except (StoreUnavailable, RedisError, TimeoutError) as error:
            logger.error("the last writes have no answer: %s", error)

    # Writing

    def put(
        self,
        queue: Queue,
        body: bytes,
        properties: bytes,
        done: Done,
        *,
        keys: Collection[str] = (),
        flag: int = 0,
        sys_flag: int = 0,
        born_timestamp: int = 0,
        born_host: bytes = bytes(8),
        reconsume_times: int = 0,
        prepared_transaction_offset: int = 0,
    ) -> int:
        """Store a message and return its queue offset; `done` is called when it is safe or has failed.

        `keys` are what QUERY_MESSAGE finds it by. Raises StoreFull and StoreUnavailable before anything is written.
        """
        self.admit()
        now = max(int(time.time() * 1000), queue.last_ms)
        offset = queue.next_offset
        frame = encode_stored(
            queue.topic_bytes,
            body,
            properties,
            queue.queue_id,
            flag,
            offset,
            queue.base + offset,
            sys_flag,
            born_timestamp,
            born_host,
            now,
            self.store_host,
            reconsume_times,
            prepared_transaction_offset,
        )
        prefix, prefix_size = queue.command
        entry = b"0-%d" % (offset + 1)
        middle = b"$%d\r\n%b\r\n$1\r\nm\r\n$%d\r\n" % (len(entry), entry, len(frame))
        size = prefix_size + len(middle) + len(frame) + 2

        def stored(reply: Any) -> None:
            if type(reply) is bytes:
                self.stored(queue, offset, frame, now)
                done(None)
            else:
                done(self.not_stored(queue, reply))

        self.writer.submit((prefix, middle, frame, b"\r\n"), size, stored)
        if keys:
            self.index.add_all(queue.topic, (keys,), now, queue.base + offset)
        self.give_out(queue, now)
        return offset

    def admit(self, size: int = 0, messages: int = 0) -> None:
        """Raise StoreUnavailable or StoreFull when no message, or not so many of so many bytes, can be taken now."""
        if not self.ready:
            self.check_ready()
        most, more = self.settings.store_max_bytes, size * OVERHEAD_FACTOR + messages * OVERHEAD_BYTES if size else 0
        if self.used_bytes >= most or self.used_bytes + more > most:
            raise StoreFull(self.used_bytes, most)

    def check_ready(self) -> None:
        """Raise StoreUnavailable when nothing can be stored now."""
        if not self.ready:
            raise StoreUnavailable(self._not_ready())

    def give_out(self, queue: Queue, now: int, count: int = 1) -> None:
        """Count the next offsets of a queue as used by writes that are on their way."""
        queue.next_offset += count
        queue.in_flight += count
        queue.last_ms = now

    def stored(self, queue: Queue, offset: int, frame: bytes, now: int) -> None:
        """A write reached Redis: it can be read from now on. `now` is when it was begun, epoch ms."""
        self.times.put(int(time.time() * 1000) - now)
        queue.in_flight -= 1
        queue.keep(offset, frame)
        size = len(frame)
        queue.stored_bytes += size
        if size > queue.largest_bytes:  # noqa: PLR1730 (once a message: a call costs time here)
            queue.largest_bytes = size
        if not queue.first_ms:
            queue.first_ms = now
        self.used_bytes += int(size * OVERHEAD_FACTOR) + OVERHEAD_BYTES
        self._hot.append(queue)
        self._hot_bytes += size
        while self._hot_bytes > self.settings.hot_bytes:
            self._hot_bytes -= self._hot.popleft().forget_oldest()
        if queue.waiters:
            self.on_stored(queue)

    def removed(self, queue: Queue, offset: int) -> None:
        """A message left its stream: it was parked there and has been moved or thrown away."""
        frame = queue.tail.pop(offset, None)
        size = len(frame) if frame else queue.average_bytes
        self._hot_bytes -= len(frame) if frame else 0
        queue.stored_bytes = max(0, queue.stored_bytes - size)
        self.used_bytes = max(0, self.used_bytes - int(size * OVERHEAD_FACTOR) - OVERHEAD_BYTES)

    def forget(self, queues: Iterable[Queue]) -> None:
        """The topic of these queues is deleted."""
        for queue in queues:
            self.by_number.pop(queue.number, None)
            self._hot_bytes -= sum(map(len, queue.tail.values()))
            messages = queue.max_offset - queue.min_offset
            used = int(queue.stored_bytes * OVERHEAD_FACTOR) + messages * OVERHEAD_BYTES
            self.used_bytes = max(0, self.used_bytes - used)
            queue.tail.clear()
            if queue.waiters:
                self.on_stored(queue)

    def not_stored(self, queue: Queue, reply: Any, count: int = 1) -> str:
        """A write of so many messages failed: return the reason.

        Its offsets are given out again unless something later is on its way.
        """
        queue.in_flight -= count
        if not queue.in_flight:
            queue.next_offset = max(queue.max_offset, queue.least_next)
        if isinstance(reply, hiredis.ReplyError):
            self._refused(str(reply))
        return store_trouble(reply)

    async def measure(self, redis: RedisConnection) -> None:
        """Ask Redis how much memory messages and indexes take. Raises StoreUnavailable and RedisError."""
        self.used_bytes, self.index_bytes = await recovery.measure(redis, self.keys, list(self.by_number.values()))

    # Reading

    def hot(self, queue: Queue, offset: int, count: int) -> list[tuple[int, bytes]] | None:
        """Up to `count` frames from the hot tail with their offsets; None when `offset` is only in Redis."""
        if offset < queue.tail_start or not queue.tail:
            return None
        tail = queue.tail
        return [
            (number, tail[number]) for number in range(offset, min(offset + count, queue.max_offset)) if number in tail
        ]

    async def read(self, queue: Queue, offset: int, count: int, most_bytes: int = 0) -> list[tuple[int, bytes]]:
        """Up to `count` stored frames from `offset` on, with their offsets. Raises StoreUnavailable.

        With `most_bytes` Redis is asked for no more frames than make some twice as much, by their average. Whatever
        the average: frames are read some at a time, and no more of them once they make `most_bytes`, or READ_BYTES.
        """
        found = self.hot(queue, offset, count)
        if found is not None:
            return found
        if most_bytes:
            count = min(count, max(1, 2 * most_bytes // queue.average_bytes))
        began = time.monotonic()
        found = await read_messages(self.reader, queue, offset, min(count, queue.most_at_once))
        size = sum([len(frame) for _, frame in found])
        while found and len(found) < count and size < (most_bytes or READ_BYTES):
            following = found[-1][0] + 1
            if following >= queue.max_offset:
                break
            more = await read_messages(self.reader, queue, following, min(count - len(found), queue.most_at_once))
            if not more:
                break
            found += more
            size += sum([len(frame) for _, frame in more])
        self.times.read(round(1000 * (time.monotonic() - began)))
        return found

    async def message_at(self, physical_offset: int) -> bytes | None:
        """The frame at a physical offset, None when there is none (any more). Raises StoreUnavailable."""
        number, offset = split_physical(physical_offset)
        queue = self.by_number.get(number)
        if queue is None or offset >= queue.max_offset:
            return None
        found = await self.read(queue, offset, 1)
        return found[0][1] if found and found[0][0] == offset else None

    async def in_pieces(self, physical_offsets: Iterable[int]) -> AsyncGenerator[list[bytes]]:
        """The frames at physical offsets, as `messages_at` gives them, so many at a time as make READ_BYTES at most.

        Raises StoreUnavailable.
        """
        piece: list[int] = []
        size = 0
        for physical_offset in physical_offsets:
            queue = self.by_number.get(split_physical(physical_offset)[0])
            expected = queue.largest_bytes if queue else 0
            if piece and (size + expected > READ_BYTES or len(piece) >= _MOST_IN_PIECE):
                yield await self.messages_at(piece)
                piece, size = [], 0
            piece.append(physical_offset)
            size += expected
        if piece:
            yield await self.messages_at(piece)

    async def messages_at(self, physical_offsets: Iterable[int]) -> list[bytes]:
        """The frames at several physical offsets, those that are gone left out. Raises StoreUnavailable."""
        frames: list[bytes | None] = []
        cold: list[tuple[int, Queue, int]] = []
        for physical_offset in physical_offsets:
            number, offset = split_physical(physical_offset)
            queue = self.by_number.get(number)
            frame = queue.tail.get(offset) if queue else None
            if queue and frame is None:
                cold.append((len(frames), queue, offset))
            frames.append(frame)
        replies = await self.reader.call_many([find_command(queue, offset) for _, queue, offset in cold])
        for (place, _, offset), reply in zip(cold, replies, strict=True):
            frames[place] = dict(messages_of(reply)).get(offset)
        return [frame for frame in frames if frame is not None]

    def _lost(self) -> None:
        self.ready = False

    def _not_ready(self) -> str:
        return self.writer.refused or self.writer.trouble or "what is stored is being read back"

    def _refused(self, error: str) -> None:
        """Redis is another one than we think: read back what it holds, or wait until it may be written to."""
        if self.ready and ("equal or smaller" in error or error.startswith("READONLY")):
            self.ready = False
            self.writer.reset(error)

    async def _recover(self) -> None:
        self.ready = False
        await recovery.check_role(self.writer)
        await self._sole_writer.claim(self.writer)
        self.writer.commit_together(self._sole_writer.syncs_always)
        if self._sole_writer.is_superseded:
            logger.critical("another broker named %s has written to Redis: this one ends", self.settings.broker_name)
            self.on_superseded()
            raise StoreUnavailable("another broker of this name has written to it meanwhile; this one must start anew")
        await bring_up_to_date(self.writer, self.keys)
        self._hot.clear()
        self._hot_bytes = 0
        for script in self.scripts:
            await script.load(self.writer)
        await recovery.recover(self.writer, self.keys, self.by_number, leap=self._sole_writer.may_have_lost)
        for mend in self.mending:
            await mend()
        self.index.forget_hours()
        self.parked.begin(self.by_number.values())
        await self.measure(self.writer)
        self.ready = True


class Incoming(NamedTuple):
    """One of several messages that are stored together; `keys` are what QUERY_MESSAGE finds it by."""

    body: bytes
    properties: bytes
    keys: Sequence[str]
    flag: int = 0


def put_all(
    store: MessageStore,
    queue: Queue,
    messages: Sequence[Incoming],
    done: Done,
    *,
    sys_flag: int = 0,
    born_timestamp: int = 0,
    born_host: bytes = bytes(8),
    reconsume_times: int = 0,
) -> int:
    """Store several messages one behind the other and return the first one's offset.

    Whoever calls this has asked for room (`admit`). `done` is called once, when all are safe or any has failed. Raises
    StoreUnavailable, before anything is written.
    """
    store.check_ready()
    now, first = max(int(time.time() * 1000), queue.last_ms), queue.next_offset
    topic, base = queue.topic_bytes, queue.base
    entries: list[list[bytes]] = [[]]
    size = 0
    for offset, message in enumerate(messages, first):
        frame = encode_stored(
            topic,
            message.body,
            message.properties,
            queue.queue_id,
            message.flag,
            offset,
            base + offset,
            sys_flag,
            born_timestamp,
            born_host,
            now,
            store.store_host,
            reconsume_times,
        )
        size += len(frame)
        if size > ENTRY_BYTES and entries[-1]:
            entries.append([])
            size = len(frame)
        entries[-1].append(frame)
    _Writing(store, queue, entries, first, now, done).begin()
    store.index.add_all(queue.topic, [message.keys for message in messages], now, base + first)
    store.give_out(queue, now, len(messages))
    return first


@dataclass(slots=True)
class _Writing:
    """Entries on their way to Redis, which answers them in their order."""

    store: MessageStore
    queue: Queue
    entries: list[list[bytes]]
    next_offset: int
    stored_ms: int
    done: Done
    answered: int = 0
    failure: str | None = None

    def begin(self) -> None:
        parts: list[bytes] = []
        offset = self.next_offset
        for frames in self.entries:
            offset += len(frames)
            parts += add_command(self.queue, offset - 1, frames)
        self.store.writer.submit_all(parts, sum(map(len, parts)), self._answered, len(self.entries))

    def _answered(self, reply: Any) -> None:
        frames = self.entries[self.answered]
        if type(reply) is bytes:
            for offset, frame in enumerate(frames, self.next_offset):
                self.store.stored(self.queue, offset, frame, self.stored_ms)
        else:
            failure = self.store.not_stored(self.queue, reply, len(frames))
            self.failure = self.failure or failure
        self.next_offset += len(frames)
        self.answered += 1
        if self.answered == len(self.entries):
            self.done(self.failure)
