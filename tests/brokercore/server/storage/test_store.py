"""The store against a real Redis: offsets, recovery, gaps, retention, index, memory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import hiredis
import pytest

from brokercore.names import SCHEDULE_TOPIC
from brokercore.protocol.bodies.config import TopicConfig
from brokercore.protocol.message import decode_stored
from brokercore.server.errors import RedisError, StoreFull, StoreUnavailable
from brokercore.server.settings import Settings
from brokercore.server.storage import index, retention
from brokercore.server.storage.keys import Keys
from brokercore.server.storage.parking import MOVE, Parking
from brokercore.server.storage.queue import Queue, split_physical
from brokercore.server.storage.retention import offset_at, trim
from brokercore.server.storage.store import MessageStore
from brokercore.server.storage.topics import TopicTable
from tests.brokercore.server.wire import fresh
from tests.support.redis_server import RedisServer


def settings_of(redis: RedisServer, **changes: Any) -> Settings:
    return replace(Settings(redis.url, broker_name=fresh("broker")), **changes)


async def opened(settings: Settings) -> tuple[MessageStore, TopicTable]:
    store = MessageStore(settings, bytes(8), Keys(settings.broker_name))
    store.scripts.append(MOVE)
    await store.start()
    topics = TopicTable(store)
    await topics.load()
    return store, topics


@pytest.fixture
async def store(redis: RedisServer) -> AsyncIterator[MessageStore]:
    store, _ = await opened(settings_of(redis))
    yield store
    await store.close()


async def queue_of(store: MessageStore) -> Queue:
    topics = TopicTable(store)
    await topics.load()
    return (await topics.save(TopicConfig(fresh(), 1, 1))).queues[0]


async def put(store: MessageStore, queue: Queue, body: bytes, **fields: object) -> str | None:
    stored: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
    store.put(queue, body, b"", stored.set_result, **fields)  # type: ignore[arg-type]
    return await stored


async def bodies(store: MessageStore, queue: Queue, offset: int = 0, count: int = 100) -> list[bytes]:
    return [decode_stored(frame)[0].body for _, frame in await store.read(queue, offset, count)]


async def test_a_message_is_readable_once_redis_has_it(store: MessageStore) -> None:
    queue = await queue_of(store)
    stored: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
    assert store.put(queue, b"a", b"", stored.set_result) == 0
    assert (queue.next_offset, queue.max_offset) == (1, 0)
    assert await stored is None
    assert (queue.next_offset, queue.max_offset) == (1, 1)
    assert await bodies(store, queue) == [b"a"]


async def test_the_stream_holds_the_frame_under_the_offset(store: MessageStore) -> None:
    queue = await queue_of(store)
    await put(store, queue, b"a")
    ((entry, fields),) = await store.reader.call("XRANGE", queue.key, "-", "+")
    assert entry == b"0-1"
    assert fields == [b"m", store.hot(queue, 0, 1)[0][1]]  # type: ignore[index]


async def test_everything_is_read_back_at_the_next_start(redis: RedisServer) -> None:
    settings = settings_of(redis)
    store, _ = await opened(settings)
    queue = await queue_of(store)
    for number in range(5):
        await put(store, queue, b"%d" % number)
    used = store.used_bytes
    await store.close()
    again, topics = await opened(settings)
    same = topics.get(queue.topic).queues[0]  # type: ignore[union-attr]
    assert (same.number, same.min_offset, same.max_offset, same.next_offset) == (queue.number, 0, 5, 5)
    assert await bodies(again, same) == [b"0", b"1", b"2", b"3", b"4"]
    assert 0 < again.used_bytes < 20 * used
    assert await put(again, same, b"5") is None
    assert await bodies(again, same, 4) == [b"4", b"5"]
    await again.close()


async def test_writes_in_flight_fail_when_the_connection_breaks_and_offsets_are_read_back(store: MessageStore) -> None:
    queue = await queue_of(store)
    await put(store, queue, b"a")
    recovered = asyncio.Event()
    recover = store.writer._on_connect
    assert recover is not None

    async def recover_and_tell() -> None:
        await recover()
        recovered.set()

    store.writer._on_connect = recover_and_tell
    lost: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
    store.put(queue, b"b", b"", lost.set_result)
    store.writer._transport.abort()  # type: ignore[union-attr]
    reason = await lost
    assert reason is not None
    assert "not available" in reason
    assert not store.ready
    async with asyncio.timeout(10):
        await recovered.wait()
    stored = int(await store.reader.call("XLEN", queue.key))
    assert queue.next_offset == queue.max_offset == stored
    assert await put(store, queue, b"c") is None
    assert (await bodies(store, queue))[-1] == b"c"


async def test_a_write_that_redis_refuses_gives_its_offset_back(store: MessageStore) -> None:
    queue = await queue_of(store)
    await put(store, queue, b"a")
    await store.writer.call("XADD", queue.key, "0-9", "m", "a stranger's entry")
    reason = await put(store, queue, b"b")
    assert reason is not None
    assert "equal or smaller" in reason
    assert queue.next_offset == queue.max_offset == 1


async def test_without_redis_nothing_is_taken(redis: RedisServer) -> None:
    store = MessageStore(settings_of(redis), bytes(8), Keys("x"))
    with pytest.raises(StoreUnavailable):
        store.put(Queue("t", 0, 1, b"k"), b"a", b"", lambda reason: None)


async def test_the_cap_refuses_what_is_more(redis: RedisServer) -> None:
    store, _ = await opened(settings_of(redis, store_max_bytes=20_000))
    queue = await queue_of(store)
    with pytest.raises(StoreFull):
        for _ in range(100):
            await put(store, queue, bytes(1000))
    assert 10 < queue.max_offset < 30
    await store.close()


async def test_the_hot_tail_is_bounded_and_redis_serves_the_rest(redis: RedisServer) -> None:
    store, topics = await opened(settings_of(redis, hot_bytes=10_000))
    queues = (await topics.save(TopicConfig(fresh(), 2, 2))).queues
    for number in range(40):
        await put(store, queues[number % 2], b"%04d" % number * 100)
    held = sum(len(frame) for queue in queues for frame in queue.tail.values())
    assert held <= 10_000
    assert store.hot(queues[0], 0, 1) is None
    assert store.hot(queues[0], 19, 1) is not None
    assert [body[:4] for body in await bodies(store, queues[0])] == [b"%04d" % n for n in range(0, 40, 2)]
    await store.close()


async def test_a_physical_offset_leads_to_its_message(store: MessageStore) -> None:
    queue = await queue_of(store)
    for body in (b"a", b"b"):
        await put(store, queue, body)
    frame = await store.message_at(queue.base + 1)
    assert frame is not None
    (message,) = decode_stored(frame)
    assert message.body == b"b"
    assert split_physical(message.physical_offset) == (queue.number, 1)
    assert await store.message_at(queue.base + 2) is None
    assert await store.message_at(1 << 60) is None


async def test_numbers_of_streams_are_never_used_again(store: MessageStore) -> None:
    topics = TopicTable(store)
    await topics.load()
    first = (await topics.save(TopicConfig("same", 1, 1))).queues[0]
    await put(store, first, b"a")
    await topics.delete("same")
    second = (await topics.save(TopicConfig("same", 1, 1))).queues[0]
    assert second.number > first.number
    assert await store.message_at(first.base) is None
    assert await store.reader.call("EXISTS", first.key) == 0


async def test_retention_drops_old_messages_and_moves_the_first_offset(store: MessageStore) -> None:
    queue = await queue_of(store)
    for number in range(5):
        await put(store, queue, b"%d" % number)
    await trim(store, queue, 3)
    assert (queue.min_offset, queue.max_offset) == (3, 5)
    assert await bodies(store, queue, queue.min_offset) == [b"3", b"4"]
    assert await store.reader.call("XLEN", queue.key) == 2
    await trim(store, queue, 5)
    assert (queue.min_offset, queue.first_ms) == (5, 0)
    await store._recover()
    assert (queue.min_offset, queue.max_offset, queue.next_offset) == (5, 5, 5)
    await put(store, queue, b"5")
    assert await bodies(store, queue, 5) == [b"5"]


async def test_a_gap_in_a_queue_is_stepped_over(store: MessageStore) -> None:
    queue = await queue_of(store)
    await put(store, queue, b"a")
    queue.next_offset = 3
    await put(store, queue, b"d")
    assert [offset for offset, _ in await store.read(queue, 0, 10)] == [0, 3]
    await store._recover()
    assert [offset for offset, _ in await store.read(queue, 0, 10)] == [0, 3]
    moment = queue.last_ms
    assert await offset_at(store, queue, moment + 1) == 4


async def found_by(store: MessageStore, queue: Queue, key: str, begin_ms: int, end_ms: int) -> list[int]:
    pieces = [piece async for piece in store.index.find(store.reader, queue.topic, key, begin_ms, end_ms)]
    return [place for piece in pieces for place in piece]


async def test_index_entries_are_dropped_with_their_hour(store: MessageStore) -> None:
    queue = await queue_of(store)
    await put(store, queue, b"a", keys=["k"])
    now = int(time.time() * 1000)
    assert await found_by(store, queue, "k", 0, now) == [queue.base]
    assert await found_by(store, queue, "k", 0, now - 7_200_000) == []
    await store.index.drop(before_ms=now + 7_200_000)
    assert await found_by(store, queue, "k", 0, now) == []
    await put(store, queue, b"b", keys=["k"])
    assert await found_by(store, queue, "k", 0, now + 1000) == [queue.base + 1]


async def test_a_key_is_found_newest_first_whatever_else_the_index_holds(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pieces and parts are made small, so that there are many of both."""
    monkeypatch.setattr(index, "_PIECE_BYTES", 7 * index._RECORD_BYTES)
    monkeypatch.setattr(index, "PART_BYTES", 40 * index._RECORD_BYTES)
    queue = await queue_of(store)
    for number in range(60):
        await put(store, queue, b"x", keys=[f"id-{number}", *(["often", "x", "often"] if number % 3 else ["seldom"])])
    now = int(time.time() * 1000)
    often = [queue.base + number for number in reversed(range(60)) if number % 3]
    assert await found_by(store, queue, "often", 0, now) == often
    assert await found_by(store, queue, "id-0", 0, now) == [queue.base]
    assert await found_by(store, queue, "nobody", 0, now) == []
    parts = [part for part, topic in await store.index._all(store.reader) if topic == queue.topic]
    assert len(parts) > 2
    store.index.forget_hours()  # as after a break with Redis
    await put(store, queue, b"x", keys=["after"])
    assert await found_by(store, queue, "after", 0, now + 60_000) == [queue.base + 60]
    await store.index.drop(topic=queue.topic)
    assert await found_by(store, queue, "often", 0, now) == []


async def test_what_only_looks_like_a_record_is_not_one(store: MessageStore) -> None:
    queue = await queue_of(store)
    store.index.add_all(
        queue.topic, [["k"]], int(time.time() * 1000), int.from_bytes(index.key_hash("other") + b"\0\0", "big")
    )
    await put(store, queue, b"x", keys=["k", "k"])
    now = int(time.time() * 1000)
    assert await found_by(store, queue, "other", 0, now) == []
    assert (await found_by(store, queue, "k", 0, now))[0] == queue.base


async def test_a_parked_message_moves_once(store: MessageStore) -> None:
    topics = TopicTable(store)
    await topics.load()
    target = (await topics.save(TopicConfig(fresh(), 1, 1))).queues[0]
    schedule = topics.get(SCHEDULE_TOPIC).queues[0]  # type: ignore[union-attr]
    parking = Parking(store, store.keys.timers)
    stored: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
    parking.park(schedule, 1, b"later", b"", stored.set_result, topic=target.topic)
    assert await stored is None
    (place,) = await parking.due(2, 10)
    (message,) = decode_stored(await store.message_at(place) or b"")
    outcomes = []
    for _ in range(2):
        moved: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        parking.move(message, target, moved.set_result)
        outcomes.append(await moved)
    assert outcomes == [True, True]
    assert await bodies(store, target) == [b"later"]
    assert target.max_offset == 1
    assert await parking.due(2, 10) == []
    assert await store.reader.call("XLEN", schedule.key) == 0
    assert await put(store, target, b"next") is None
    assert await bodies(store, target) == [b"later", b"next"]


async def test_all_commands_of_a_turn_leave_in_one_write(store: MessageStore) -> None:
    writes = 0
    real = store.writer._transport
    assert real is not None

    class Counting:
        def write(self, data: bytes) -> None:
            nonlocal writes
            assert real is not None
            writes += 1
            real.write(data)

        def __getattr__(self, name: str) -> object:
            return getattr(real, name)

    store.writer._transport = Counting()  # type: ignore[assignment]
    queue = await queue_of(store)
    writes = 0
    futures = []
    for _ in range(50):
        stored: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        store.put(queue, b"x", b"", stored.set_result, keys=["k"])
        futures.append(stored)
    assert set(await asyncio.gather(*futures)) == {None}
    assert writes == 1
    store.writer._transport = real


async def test_an_error_of_one_command_is_the_callers_alone(store: MessageStore) -> None:
    good, bad = store.writer.call("PING"), store.writer.call("NO-SUCH-COMMAND")
    assert await good in (b"PONG", hiredis.ReplyError)
    with pytest.raises(RedisError):
        await bad


async def test_much_leaves_in_small_steps_between_which_others_are_served(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = await queue_of(store)
    for number in range(40):
        await put(store, queue, b"%d" % number)
    monkeypatch.setattr(retention, "STEP_BYTES", 10 * queue.average_bytes)
    trimming = asyncio.create_task(trim(store, queue, 35))
    seen = set()
    while not trimming.done():
        seen.add(queue.min_offset)
        assert await put(store, queue, b"meanwhile") is None
    await trimming
    assert len(seen) >= 3
    assert queue.min_offset == 35
    assert (await bodies(store, queue, 35))[:5] == [b"35", b"36", b"37", b"38", b"39"]
