"""What a break with Redis leaves: offsets, tables, parked messages. A real Redis that really loses things."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from brokercore.names import SCHEDULE_TOPIC
from brokercore.protocol.bodies.config import TopicConfig
from brokercore.server.errors import NameInUse, RedisError, StoreUnavailable
from brokercore.server.pop.in_flight import FlightTable
from brokercore.server.settings import Settings
from brokercore.server.storage.keys import Keys
from brokercore.server.storage.offsets import OffsetTable
from brokercore.server.storage.parking import DISCARD, MOVE, Parking
from brokercore.server.storage.queue import Queue
from brokercore.server.storage.recovery import LEAP, mend_hash
from brokercore.server.storage.redis_connection import HANG_SECONDS
from brokercore.server.storage.store import MessageStore
from brokercore.server.storage.topics import TopicTable
from tests.brokercore.server.storage.test_store import bodies, put
from tests.brokercore.server.wire import fresh
from tests.support.redis_server import RedisServer, redis_server


@pytest.fixture
def own_redis() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


async def opened(redis: RedisServer, name: str = "broker-a") -> tuple[MessageStore, TopicTable]:
    store = MessageStore(Settings(redis.url, broker_name=name), bytes(8), Keys(name))
    store.scripts += [MOVE, DISCARD]
    await store.start()
    topics = TopicTable(store)
    await topics.load()
    store.mending = [topics.mend]
    return store, topics


@pytest.fixture
async def store_and_topics(own_redis: RedisServer) -> AsyncIterator[tuple[MessageStore, TopicTable]]:
    store, topics = await opened(own_redis)
    yield store, topics
    await store.close()


async def soon(condition: Callable[[], Any], seconds: float = 20) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 (what is waited for is told by nobody)
            await asyncio.sleep(0.01)


async def queue_of(topics: TopicTable) -> Queue:
    return (await topics.save(TopicConfig(fresh(), 1, 1))).queues[0]


async def back(store: MessageStore) -> None:
    """Wait until the store has noticed the break and is ready again."""
    await soon(lambda: not store.ready)
    await soon(lambda: store.ready and not store.reader.trouble)


async def test_offsets_do_not_go_back_when_redis_has_lost_messages(
    store_and_topics: tuple[MessageStore, TopicTable], own_redis: RedisServer
) -> None:
    store, topics = store_and_topics
    queue, emptied = await queue_of(topics), await queue_of(topics)
    for number in range(3):
        await put(store, queue, b"%d" % number)
    await put(store, emptied, b"gone")
    await store.writer.call("DEL", queue.key, emptied.key)
    await store.writer.call("XADD", queue.key, "0-1", "m", queue.tail[0])
    store.writer.reset("a test")
    await back(store)
    assert (queue.next_offset, queue.max_offset, emptied.next_offset) == (3, 3, 1)
    assert await put(store, queue, b"later") is None
    assert await bodies(store, queue) == [b"0", b"later"]
    await store.close()
    again, topics = await opened(own_redis)
    assert topics.get(emptied.topic).queues[0].next_offset == 1  # type: ignore[union-attr]
    await again.close()


async def test_tables_that_redis_has_lost_are_written_back(
    store_and_topics: tuple[MessageStore, TopicTable], own_redis: RedisServer
) -> None:
    store, topics = store_and_topics
    queue = await queue_of(topics)
    await store.writer.call("HDEL", store.keys.topics, queue.topic)
    await store.writer.call("HDEL", store.keys.queues, f"0@{queue.topic}")
    await store.writer.call("DECR", store.keys.last_queue)
    store.writer.reset("a test")
    await back(store)
    other = await queue_of(topics)
    assert other.number != queue.number
    await store.close()
    again, topics = await opened(own_redis)
    assert topics.get(queue.topic).queues[0].number == queue.number  # type: ignore[union-attr]
    await again.close()


async def test_a_topic_that_is_not_whole_is_dropped_at_the_start(own_redis: RedisServer) -> None:
    store, topics = await opened(own_redis)
    queue = await queue_of(topics)
    await put(store, queue, b"a")
    await store.writer.call("HDEL", store.keys.topics, queue.topic)  # as an end that was cut short
    await store.close()
    again, _ = await opened(own_redis)
    assert queue.number not in again.by_number
    assert await again.reader.call("EXISTS", queue.key) == 0
    assert await again.reader.call("HEXISTS", again.keys.queues, f"0@{queue.topic}") == 0
    await again.close()


async def test_a_topic_stays_when_its_deletion_fails(
    store_and_topics: tuple[MessageStore, TopicTable], own_redis: RedisServer
) -> None:
    store, topics = store_and_topics
    queue = await queue_of(topics)
    await put(store, queue, b"a")
    own_redis.kill()
    await soon(lambda: not store.writer.connected)
    with pytest.raises(StoreUnavailable):
        await topics.delete(queue.topic)
    own_redis.start()
    await soon(lambda: store.ready and not store.reader.trouble)
    assert topics.get(queue.topic) is not None
    assert await bodies(store, queue) == [b"a"]


async def test_offsets_leap_only_after_both_ended_out_of_order(own_redis: RedisServer) -> None:
    store, topics = await opened(own_redis)
    queue = await queue_of(topics)
    await put(store, queue, b"a")
    own_redis.stop()
    own_redis.start()
    await back(store)
    await store.close()
    own_redis.stop()  # in order, one after the other
    own_redis.start()
    store, topics = await opened(own_redis)
    assert topics.get(queue.topic).queues[0].next_offset == 1  # type: ignore[union-attr]
    store.ready = False  # so that its end is not in order
    await store.close()
    own_redis.kill()
    own_redis.start()
    store, topics = await opened(own_redis)
    queue = topics.get(queue.topic).queues[0]  # type: ignore[union-attr]
    assert (queue.max_offset, queue.next_offset) == (1, 1 + LEAP)
    assert await put(store, queue, b"b") is None
    assert await bodies(store, queue) == [b"a", b"b"]
    await store.close()


async def test_a_second_writer_steps_back_and_the_first_goes_on(
    store_and_topics: tuple[MessageStore, TopicTable], own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, topics = store_and_topics
    monkeypatch.setattr("brokercore.server.storage.sole_writer.PATIENCE_SECONDS", 0.1)
    with pytest.raises(NameInUse, match="another broker named broker-a"):
        await opened(own_redis)
    assert await put(store, await queue_of(topics), b"a") is None
    other, _ = await opened(own_redis, "broker-b")
    await other.close()


async def test_a_redis_that_hangs_is_told_and_refused_until_it_answers(
    store_and_topics: tuple[MessageStore, TopicTable], own_redis: RedisServer
) -> None:
    store, topics = store_and_topics
    queue = await queue_of(topics)
    own_redis.signal(signal.SIGSTOP)
    try:
        waiting: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        store.put(queue, b"a", b"", waiting.set_result)
        started = time.monotonic()
        await soon(lambda: "has not answered" in store.trouble)
        assert time.monotonic() - started > HANG_SECONDS / 2
        with pytest.raises(StoreUnavailable, match="does not answer"):
            store.put(queue, b"b", b"", lambda reason: None)
    finally:
        own_redis.signal(signal.SIGCONT)
    assert await waiting is None
    await soon(lambda: not store.trouble)
    assert await put(store, queue, b"c") is None
    assert await bodies(store, queue) == [b"a", b"c"]


async def test_a_silent_end_of_redis_is_noticed_though_nothing_is_asked(
    store_and_topics: tuple[MessageStore, TopicTable], own_redis: RedisServer
) -> None:
    store, _ = store_and_topics
    own_redis.signal(signal.SIGSTOP)
    try:
        await soon(lambda: store.writer.hangs and store.reader.hangs)
    finally:
        own_redis.signal(signal.SIGCONT)


async def test_a_parked_message_that_comes_behind_its_time_is_not_thrown_away(
    store_and_topics: tuple[MessageStore, TopicTable],
) -> None:
    store, topics = store_and_topics
    schedule = topics.get(SCHEDULE_TOPIC).queues[0]  # type: ignore[union-attr]
    parking = Parking(store, store.keys.timers)
    stored: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
    offset = parking.park(schedule, 1, b"late", b"", stored.set_result, topic="t")
    done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    parking.discard(schedule.base + offset, done.set_result)  # looked for before it was there
    assert await stored is None
    assert await done
    assert await parking.waits(schedule.base + offset)
    gone: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    await store.writer.call("XDEL", schedule.key, f"0-{offset + 1}")
    parking.discard(schedule.base + offset, gone.set_result)
    assert await gone
    assert not await parking.waits(schedule.base + offset)


async def test_offsets_behind_the_end_of_a_queue_are_taken_back(
    store_and_topics: tuple[MessageStore, TopicTable],
) -> None:
    store, topics = store_and_topics
    queue = await queue_of(topics)
    await put(store, queue, b"a")
    offsets = OffsetTable(store.writer, store.keys)
    offsets.commit("g", queue.topic, 0, 9)
    offsets.commit("g", "deleted", 0, 4)
    offsets.check(topics.end_of)
    assert offsets.get("g", queue.topic, 0) == 1
    assert offsets.get("g", "deleted", 0) is None
    await offsets.mend()
    again = OffsetTable(store.writer, store.keys)
    await again.load()
    assert (again.get("g", queue.topic, 0), again.get("g", "deleted", 0)) == (1, None)


async def test_a_transaction_that_redis_refuses_changes_nothing(
    store_and_topics: tuple[MessageStore, TopicTable],
) -> None:
    store, _ = store_and_topics
    await store.writer.call("CONFIG", "SET", "maxmemory", "1mb")
    with pytest.raises(RedisError, match="maxmemory"):
        await store.writer.call_all([("SET", "a", 1), ("SET", "b", 2)])
    await store.writer.call("CONFIG", "SET", "maxmemory", 0)
    assert await store.reader.call("EXISTS", "a", "b") == 0
    assert await store.writer.call("SET", "a", 1) == b"OK"  # and leaves none open


async def test_a_hash_is_made_equal_in_small_steps(store_and_topics: tuple[MessageStore, TopicTable]) -> None:
    store, _ = store_and_topics
    wanted = {b"%d" % number: b"new" for number in range(1200)}
    await store.writer.call("HSET", "h", "5", "old", "surplus", "x")
    await mend_hash(store.writer, "h", wanted)
    table = await store.reader.call("HGETALL", "h")
    assert dict(zip(table[::2], table[1::2], strict=True)) == wanted


async def test_a_topic_of_the_same_name_is_popped_from_its_beginning(
    store_and_topics: tuple[MessageStore, TopicTable],
) -> None:
    store, topics = store_and_topics
    queue = await queue_of(topics)
    for place in (f"0@{queue.topic}@g", "0@deleted@g"):
        await store.writer.call("HSET", store.keys.pop_next, place, 7)
        await store.writer.call("HSET", store.keys.pop_flights, f"6@{place}", "1:1:0")
    flights = FlightTable(store.writer, store.keys, OffsetTable(store.writer, store.keys))
    await flights.load()
    assert flights.check(topics.end_of)
    await flights.mend()
    assert await store.reader.call("HGETALL", store.keys.pop_next) == [f"0@{queue.topic}@g".encode(), b"0"]
    assert await store.reader.call("HLEN", store.keys.pop_flights) == 0
    assert not flights.check(topics.end_of)


async def test_a_redis_that_became_a_replica_is_waited_for(
    store_and_topics: tuple[MessageStore, TopicTable],
) -> None:
    store, topics = store_and_topics
    queue = await queue_of(topics)
    await put(store, queue, b"a")
    await store.reader.call("REPLICAOF", "127.0.0.1", 1)
    assert "READONLY" in str(await put(store, queue, b"b"))
    await soon(lambda: "Redis is a replica" in store.trouble)
    with pytest.raises(StoreUnavailable, match="Redis is a replica"):
        store.put(queue, b"c", b"", lambda reason: None)
    await store.reader.call("REPLICAOF", "NO", "ONE")
    await soon(lambda: not store.trouble)
    assert await put(store, queue, b"d") is None
    assert await bodies(store, queue) == [b"a", b"d"]


async def test_the_stream_of_a_stranger_is_read_back(store_and_topics: tuple[MessageStore, TopicTable]) -> None:
    store, topics = store_and_topics
    queue = await queue_of(topics)
    await put(store, queue, b"a")
    await store.reader.call("XADD", queue.key, "0-5", "m", queue.tail[0])
    assert "equal or smaller" in str(await put(store, queue, b"b"))
    await soon(lambda: not store.trouble)
    assert await put(store, queue, b"c") is None
    assert (await bodies(store, queue))[-1] == b"c"
