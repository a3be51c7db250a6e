"""What Redis refuses is not acknowledged, and what has to be written is tried again; what is parked stays."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from brokercore.names import CHECKED_TOO_OFTEN_TOPIC, HALF_TOPIC, SCHEDULE_TOPIC
from brokercore.protocol.bodies.config import TopicConfig
from brokercore.protocol.message import decode_stored
from brokercore.protocol.properties import SENDER_ACCOUNT, encode_properties
from brokercore.server.connections.clients import ClientTable
from brokercore.server.connections.fairness import Pace, Reads
from brokercore.server.delivery.delayed_delivery import Timers
from brokercore.server.delivery.traces import Traces
from brokercore.server.delivery.transactions import Transactions
from brokercore.server.delivery.waiting import WaitingPulls
from brokercore.server.errors import RedisError, StoreUnavailable
from brokercore.server.pop.in_flight import FlightTable
from brokercore.server.pop.request import Popped, PopRequest
from brokercore.server.rights.limits import TenantLimits
from brokercore.server.settings import Settings
from brokercore.server.storage.keys import Keys
from brokercore.server.storage.offsets import OffsetTable
from brokercore.server.storage.parking import DISCARD, MOVE, Parking
from brokercore.server.storage.queue import Queue
from brokercore.server.storage.retention import expire_messages
from brokercore.server.storage.store import MessageStore
from brokercore.server.storage.topics import TopicTable
from tests.brokercore.server.wire import fresh
from tests.support.redis_server import RedisServer

EVERYTHING_IS_OLD = -1.0
"""Hours of retention that make what was stored a moment ago too old."""


@pytest.fixture
async def store(redis: RedisServer) -> AsyncIterator[MessageStore]:
    settings = replace(Settings(redis.url, broker_name=fresh("broker")), retention_hours=EVERYTHING_IS_OLD)
    store = MessageStore(settings, bytes(8), Keys(settings.broker_name))
    store.scripts += [MOVE, DISCARD]
    await store.start()
    yield store
    await store.close()


@pytest.fixture
async def topics(store: MessageStore) -> TopicTable:
    topics = TopicTable(store)
    await topics.load()
    return topics


async def put(store: MessageStore, queue: Queue) -> str | None:
    stored: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
    store.put(queue, b"body", b"", stored.set_result)
    return await stored


async def park(store: MessageStore, queue: Queue, key: str, until_ms: int, **more: str) -> str | None:
    stored: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
    properties = encode_properties({"REAL_TOPIC": "orders", "PGROUP": "PG"} | more)
    Parking(store, key).park(queue, until_ms, b"body", properties, stored.set_result, topic="orders")
    return await stored


async def until(condition: Any, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not await condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


async def test_a_parked_message_whose_time_redis_refuses_is_not_acknowledged(
    store: MessageStore, topics: TopicTable
) -> None:
    queue = topics.get(SCHEDULE_TOPIC).queues[0]  # type: ignore[union-attr]
    await store.writer.call("SET", store.keys.timers, "no sorted set")
    reason = await park(store, queue, store.keys.timers, 1)
    assert reason is not None
    assert "WRONGTYPE" in reason
    assert await store.reader.call("XLEN", queue.key) == 0, "nothing would ever find it"


async def test_offsets_that_redis_refused_are_written_again(store: MessageStore) -> None:
    offsets = OffsetTable(store.writer, store.keys)
    await store.writer.call("SET", store.keys.offsets, "no hash")
    offsets.commit("GID_a", "orders", 0, 7)
    with pytest.raises(RedisError):
        await offsets.flush()
    await store.writer.call("DEL", store.keys.offsets)

    async def written() -> bool:
        return bool(await store.reader.call("HGET", store.keys.offsets, "0@orders@GID_a") == b"7")

    await until(written)


async def test_retention_keeps_what_waits_for_its_time_or_its_producer(store: MessageStore, topics: TopicTable) -> None:
    plain = (await topics.save(TopicConfig(fresh(), 1, 1))).queues[0]
    kept = [topics.get(name).queues[0] for name in (HALF_TOPIC, SCHEDULE_TOPIC)]  # type: ignore[union-attr]
    for queue in (plain, *kept):
        assert await put(store, queue) is None
    traces = Traces(store, topics, TenantLimits())
    await expire_messages(store, topics, traces.most_bytes)
    assert plain.min_offset == plain.max_offset
    assert [queue.max_offset - queue.min_offset for queue in kept] == [1, 1]


async def test_an_old_half_message_is_given_up_though_no_producer_was_ever_asked(
    store: MessageStore, topics: TopicTable
) -> None:
    transactions = Transactions(store, topics, ClientTable(), None, None)  # type: ignore[arg-type]
    half = topics.get(HALF_TOPIC).queues[0]  # type: ignore[union-attr]
    given_up = topics.get(CHECKED_TOO_OFTEN_TOPIC).queues[0]  # type: ignore[union-attr]
    assert await park(store, half, store.keys.half, 1) is None
    checking = asyncio.create_task(transactions.run())

    async def moved() -> bool:
        return given_up.max_offset == 1

    try:
        await until(moved)
    finally:
        checking.cancel()
    assert await store.reader.call("ZCARD", store.keys.half) == 0


async def test_a_committed_message_whose_delay_redis_refuses_stays_a_half_message(
    store: MessageStore, topics: TopicTable
) -> None:
    await topics.save(TopicConfig("orders", 1, 1))
    transactions = Transactions(store, topics, ClientTable(), None, Timers(store, topics))  # type: ignore[arg-type]
    queue = topics.get(HALF_TOPIC).queues[0]  # type: ignore[union-attr]
    assert await park(store, queue, store.keys.half, 1, TIMER_DELAY_MS="60000") is None
    half = decode_stored((await store.read(queue, 0, 1))[0][1])[0]
    await store.writer.call("SET", store.keys.timers, "no sorted set")
    with pytest.raises(StoreUnavailable):
        await transactions.commit(half)
    assert await transactions.waits(half), "it is nowhere else"
    await store.writer.call("DEL", store.keys.timers)
    await transactions.commit(half)
    assert not await transactions.waits(half)
    assert await store.reader.call("ZCARD", store.keys.timers) == 1


PLACE = ("GID_a", "orders", 0)


async def test_what_was_acknowledged_is_not_given_out_again_when_the_committed_offset_is_behind(
    store: MessageStore,
) -> None:
    offsets = OffsetTable(store.writer, store.keys)
    flights = FlightTable(store.writer, store.keys, offsets)
    state = flights.begin(PLACE, 0)
    await offsets.flush()  # 0: later ones are written some time afterwards, and the broker ends before
    await flights.claim(PLACE, state, [(0, 0), (1, 0)], next_offset=2, now_ms=10, visible_ms=10**15)
    assert await flights.acknowledge(PLACE, 0, 10)
    stored = OffsetTable(store.writer, store.keys)
    stored.commit(*PLACE, 0)
    after = FlightTable(store.writer, store.keys, stored)
    await after.load()
    found = after.current(PLACE, 0)
    assert found is not None
    assert (found.next_offset, list(found.flights)) == (2, [1])


async def test_an_answer_that_nobody_took_gives_back_its_own_deliveries_alone(
    store: MessageStore, topics: TopicTable
) -> None:
    topic = await topics.save(TopicConfig("orders", 1, 1))
    flights = FlightTable(store.writer, store.keys, OffsetTable(store.writer, store.keys))
    broker = SimpleNamespace(flights=flights, waiting=WaitingPulls(), pace=Pace())
    request = PopRequest(
        broker, Reads(), "GID_a", topic, topic.queues, 32, 60_000, None, False, False, lambda: None, popped_ms=10  # type: ignore[arg-type]
    )  # fmt: skip
    state = flights.begin(PLACE, 0)
    await flights.claim(PLACE, state, [(0, 0)], next_offset=1, now_ms=10, visible_ms=10**15)
    await flights.claim(PLACE, state, [(1, 0)], next_offset=2, now_ms=11, visible_ms=10**15)
    request.put_back([Popped(0, 0, b""), Popped(0, 1, b"")])
    assert state.due(20, 10) == [0], "the other message was given to somebody else meanwhile"


@pytest.fixture
async def flights(store: MessageStore) -> FlightTable:
    """A table of flights with one delivery at PLACE: offset 0, popped at 10."""
    flights = FlightTable(store.writer, store.keys, OffsetTable(store.writer, store.keys))
    state = flights.begin(PLACE, 0)
    await flights.claim(PLACE, state, [(0, 0)], next_offset=1, now_ms=10, visible_ms=20)
    await store.writer.call("RENAME", store.keys.pop_flights, f"{store.keys.pop_flights}:aside")
    await store.writer.call("SET", store.keys.pop_flights, "no hash")
    return flights


async def test_an_acknowledgement_that_redis_refuses_leaves_the_message_in_flight(
    store: MessageStore, flights: FlightTable
) -> None:
    with pytest.raises(RedisError):
        await flights.acknowledge(PLACE, 0, 10)
    state = flights.find(PLACE)
    assert state is not None
    assert (state.due(20, 10), state.done_before) == ([0], 0), "nobody would ever get it again"
    await store.writer.call("RENAME", f"{store.keys.pop_flights}:aside", store.keys.pop_flights)
    assert await flights.acknowledge(PLACE, 0, 10)
    assert (list(state.flights), state.done_before) == ([], 1)


async def test_a_change_of_a_delivery_that_redis_refuses_leaves_its_handle_as_it_was(
    store: MessageStore, flights: FlightTable
) -> None:
    with pytest.raises(RedisError):
        await flights.change(PLACE, 0, 10, visible_ms=900, now_ms=11)
    state = flights.find(PLACE)
    assert state is not None
    assert state.due(20, 10) == [0], "it is visible again when it would have been"
    await store.writer.call("RENAME", f"{store.keys.pop_flights}:aside", store.keys.pop_flights)
    assert await flights.change(PLACE, 0, 10, visible_ms=900, now_ms=12), "the handle holds"


async def test_an_offset_is_not_given_out_again_while_a_later_one_is_on_its_way(
    store: MessageStore, topics: TopicTable
) -> None:
    queue = (await topics.save(TopicConfig(fresh(), 1, 1))).queues[0]
    last: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
    said: list[str | None] = []

    def refused(reason: str | None) -> None:
        said.append(reason)
        store.put(queue, b"c", b"", last.set_result)

    store.writer.send("SET", queue.key, "no stream")
    store.put(queue, b"a", b"", refused)
    store.writer.send("DEL", queue.key)
    store.put(queue, b"b", b"", said.append)
    assert await last is None
    assert len(said) == 2
    assert "WRONGTYPE" in str(said[0])
    assert said[1] is None
    assert [offset for offset, _ in await store.read(queue, 0, 10)] == [1, 2]


async def test_a_pop_gives_out_only_what_redis_has_as_in_flight(store: MessageStore, topics: TopicTable) -> None:
    class Trouble(FlightTable):
        """Redis takes the deliveries of the first queue, and refuses those of the next."""

        async def claim(self, *given: Any, **fields: Any) -> None:
            await super().claim(*given, **fields)
            await store.writer.call("RENAME", store.keys.pop_flights, f"{store.keys.pop_flights}:aside")
            await store.writer.call("SET", store.keys.pop_flights, "no hash")

    topic = await topics.save(TopicConfig("orders", 2, 2))
    for queue in topic.queues:
        assert await put(store, queue) is None
    offsets = OffsetTable(store.writer, store.keys)
    flights = Trouble(store.writer, store.keys, offsets)
    broker = SimpleNamespace(
        flights=flights, offsets=offsets, limits=TenantLimits(), store=store, waiting=WaitingPulls(), pace=Pace()
    )
    request = PopRequest(
        broker, Reads(), "GID_a", topic, topic.queues, 32, 60_000, None, False, False, lambda: None, None  # type: ignore[arg-type]
    )  # fmt: skip
    (given,) = await request.collect()
    states = {queue.queue_id: flights.find(("GID_a", "orders", queue.queue_id)) for queue in topic.queues}
    in_flight = {queue_id: list(state.flights) for queue_id, state in states.items() if state is not None}
    assert in_flight == {given.queue_id: [0]}


async def test_a_committed_message_leaves_nothing_counted_for_its_sender(
    store: MessageStore, topics: TopicTable
) -> None:
    target = (await topics.save(TopicConfig("orders", 1, 1))).queues[0]
    transactions = Transactions(store, topics, ClientTable(), None, Timers(store, topics))  # type: ignore[arg-type]
    queue = topics.get(HALF_TOPIC).queues[0]  # type: ignore[union-attr]
    sender = {SENDER_ACCOUNT: "1234567890123456"}
    assert await park(store, queue, store.keys.half_of("1234567890123456"), 1, **sender) is None
    half = decode_stored((await store.read(queue, 0, 1))[0][1])[0]
    await transactions.commit(half)
    assert not await transactions.waits(half)
    assert not store.parked.waiting
    assert SENDER_ACCOUNT not in decode_stored((await store.read(target, 0, 1))[0][1])[0].properties
