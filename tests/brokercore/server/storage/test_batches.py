"""Batches in the store: few entries of a stream, and every message where its offset says."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator

import pytest

from brokercore.protocol.message import decode_stored
from brokercore.server.storage.queue import Queue
from brokercore.server.storage.retention import offset_at, trim
from brokercore.server.storage.store import ENTRY_BYTES, Incoming, MessageStore, put_all
from tests.brokercore.server.storage.test_store import bodies, opened, put, queue_of, settings_of
from tests.support.redis_server import RedisServer


@pytest.fixture
async def store(redis: RedisServer) -> AsyncIterator[MessageStore]:
    """A store that keeps hardly anything in memory: what is read comes from Redis."""
    store, _ = await opened(settings_of(redis, hot_bytes=1))
    yield store
    await store.close()


async def put_batch(store: MessageStore, queue: Queue, *texts: bytes, keys: tuple[str, ...] = ()) -> str | None:
    stored: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
    put_all(store, queue, [Incoming(text, b"", keys) for text in texts], stored.set_result)
    return await stored


async def entries(store: MessageStore, queue: Queue) -> list[bytes]:
    return [entry for entry, _ in await store.reader.call("XRANGE", queue.key, "-", "+")]


async def mixed(store: MessageStore) -> Queue:
    """0, then 1 to 4 as a batch, then 5, then 6 and 7 as a batch."""
    queue = await queue_of(store)
    assert await put(store, queue, b"0") is None
    assert await put_batch(store, queue, b"1", b"2", b"3", b"4") is None
    assert await put(store, queue, b"5") is None
    assert await put_batch(store, queue, b"6", b"7") is None
    return queue


async def test_a_batch_is_one_entry_under_the_id_of_its_last_message(store: MessageStore) -> None:
    assert await entries(store, await mixed(store)) == [b"0-1", b"0-5", b"0-6", b"0-8"]


async def test_a_large_batch_takes_entries_of_bounded_size(store: MessageStore) -> None:
    queue = await queue_of(store)
    texts = [b"%d" % number + bytes(ENTRY_BYTES // 3) for number in range(5)] + [bytes(2 * ENTRY_BYTES), b"last"]
    assert await put_batch(store, queue, *texts) is None
    assert await entries(store, queue) == [b"0-2", b"0-4", b"0-5", b"0-6", b"0-7"]
    assert [body async for body in _walk(store, queue, 1)] == texts


@pytest.mark.parametrize(("offset", "count"), list(itertools.product(range(8), (1, 2, 3, 100))))
async def test_reading_from_any_message_begins_with_it(store: MessageStore, offset: int, count: int) -> None:
    queue = await mixed(store)
    for density in (1, 4):  # of what was read before: it only says how many entries are asked for
        queue.messages_an_entry = density
        found = await store.read(queue, offset, count)
        assert 1 <= len(found) <= count
        numbers = [number for number, _ in found]
        assert numbers == list(range(offset, offset + len(found)))
        assert [decode_stored(frame)[0].body for _, frame in found] == [b"%d" % number for number in numbers]
        assert [decode_stored(frame)[0].queue_offset for _, frame in found] == numbers


@pytest.mark.parametrize("count", [1, 3, 32])
async def test_walking_on_passes_over_nothing(store: MessageStore, count: int) -> None:
    queue = await mixed(store)
    assert [body async for body in _walk(store, queue, count)] == [b"%d" % number for number in range(8)]


async def test_what_is_read_last_says_how_many_entries_are_asked_for(store: MessageStore) -> None:
    queue = await queue_of(store)
    for start in range(0, 320, 32):
        await put_batch(store, queue, *(b"%d" % number for number in range(start, start + 32)))
    await store.read(queue, 0, 32)
    assert queue.messages_an_entry == 32
    assert len(await store.read(queue, 32, 32)) == 32
    await put(store, queue, b"single")
    assert len(await store.read(queue, 320, 32)) == 1
    assert queue.messages_an_entry == 1


async def test_messages_are_found_by_their_place(store: MessageStore) -> None:
    queue = await mixed(store)
    places = [queue.base + offset for offset in (7, 0, 3, 5, 8, 99)]
    assert [decode_stored(frame)[0].body for frame in await store.messages_at(places)] == [b"7", b"0", b"3", b"5"]
    frame = await store.message_at(queue.base + 2)
    assert frame is not None
    assert decode_stored(frame)[0].body == b"2"


async def test_every_message_of_a_batch_has_its_keys(store: MessageStore) -> None:
    queue = await queue_of(store)
    await put_batch(store, queue, b"a", b"b", keys=("same",))
    found = [
        place async for places in store.index.find(store.reader, queue.topic, "same", 0, 1 << 50) for place in places
    ]
    assert found == [queue.base + 1, queue.base]


async def test_all_is_read_back_at_the_next_start_and_offsets_go_on(redis: RedisServer) -> None:
    settings = settings_of(redis, hot_bytes=1)
    store, _ = await opened(settings)
    queue = await mixed(store)
    await store.close()
    again, topics = await opened(settings)
    same = topics.get(queue.topic).queues[0]  # type: ignore[union-attr]
    assert (same.min_offset, same.max_offset, same.next_offset) == (0, 8, 8)
    assert await bodies(again, same, 3, 1) == [b"3"]
    assert await put(again, same, b"8") is None
    assert [body async for body in _walk(again, same, 100)] == [b"%d" % number for number in range(9)]
    await again.close()


async def test_a_queue_is_trimmed_within_a_batch(redis: RedisServer) -> None:
    settings = settings_of(redis, hot_bytes=1)
    store, _ = await opened(settings)
    queue = await mixed(store)
    await trim(store, queue, 3)
    assert (queue.min_offset, await bodies(store, queue, 3, 2)) == (3, [b"3", b"4"])
    await store.close()
    again, topics = await opened(settings)
    same = topics.get(queue.topic).queues[0]  # type: ignore[union-attr]
    assert same.min_offset == 1, "what is left of the entry can be read"
    assert await bodies(again, same, 1, 1) == [b"1"]
    await trim(again, same, 5)
    assert await entries(again, same) == [b"0-6", b"0-8"]
    await again.close()


async def test_a_time_leads_to_the_first_message_of_a_batch(store: MessageStore) -> None:
    queue = await queue_of(store)
    await put_batch(store, queue, b"0", b"1", b"2")
    await asyncio.sleep(0.005)
    await put_batch(store, queue, b"3", b"4", b"5")
    assert await offset_at(store, queue, queue.last_ms) == 3
    assert await offset_at(store, queue, queue.first_ms) == 0


async def test_a_batch_that_redis_refuses_leaves_nothing_and_gives_its_offsets_back(store: MessageStore) -> None:
    queue = await queue_of(store)
    await put(store, queue, b"0")
    await store.writer.call("CONFIG", "SET", "maxmemory", "1")
    try:
        reason = await put_batch(store, queue, b"1", b"2")
    finally:
        await store.writer.call("CONFIG", "SET", "maxmemory", "0")
    assert reason is not None
    assert "not available" in reason
    assert (queue.next_offset, queue.max_offset, queue.in_flight) == (1, 1, 0)
    assert await put_batch(store, queue, b"1", b"2") is None
    assert [body async for body in _walk(store, queue, 100)] == [b"0", b"1", b"2"]


async def _walk(store: MessageStore, queue: Queue, count: int) -> AsyncIterator[bytes]:
    offset = queue.min_offset
    while offset < queue.max_offset:
        found = await store.read(queue, offset, count)
        for number, frame in found:
            yield decode_stored(frame)[0].body
            offset = number + 1
