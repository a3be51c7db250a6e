"""Groups of large messages to a Redis that syncs every write: one MULTI, and every message its own answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import hiredis
import pytest

from brokercore.server.storage.queue import Queue
from brokercore.server.storage.redis_connection import grouped
from brokercore.server.storage.store import MessageStore
from tests.brokercore.server.storage.test_store import bodies, opened, queue_of, settings_of
from tests.support.redis_server import RedisServer, redis_server

LARGE = 24_000


@pytest.fixture(scope="module")
def always() -> Iterator[RedisServer]:
    with redis_server("--appendfsync", "always") as server:
        yield server


@pytest.fixture
async def store(always: RedisServer) -> AsyncIterator[MessageStore]:
    store, _ = await opened(settings_of(always))
    yield store
    await store.close()


async def put_many(store: MessageStore, queue: Queue, count: int, size: int = LARGE) -> list[str | None]:
    """What becomes of messages that are put in one turn, `0`, `1`… padded."""
    futures = []
    for number in range(count):
        future: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        store.put(queue, (b"%d" % number).ljust(size), b"", future.set_result, keys=(f"key{number}",))
        futures.append(future)
    return await asyncio.gather(*futures)


async def executed(store: MessageStore) -> int:
    """How many groups Redis has carried out."""
    lines = (await store.reader.call("INFO", "commandstats")).decode().splitlines()
    return next((int(line.partition("calls=")[2].partition(",")[0]) for line in lines if "cmdstat_exec:" in line), 0)


@pytest.mark.parametrize(
    ("count", "size", "groups"), [(12, LARGE, True), (1, 64_000, True), (1, 10, False), (12, 10, False)]
)
async def test_large_messages_of_one_turn_are_one_group(
    store: MessageStore, count: int, size: int, groups: bool
) -> None:
    queue = await queue_of(store)
    before = await executed(store)
    assert await put_many(store, queue, count, size) == [None] * count
    assert (await executed(store) > before) is groups
    queue.tail.clear()
    assert [body.strip() for body in await bodies(store, queue)] == [b"%d" % number for number in range(count)]
    found = [places async for places in store.index.find(store.reader, queue.topic, "key0", 0, 1 << 50)]
    assert found == [[queue.base]]


async def test_a_redis_that_syncs_now_and_then_gets_no_groups() -> None:
    with redis_server() as redis:
        store, _ = await opened(settings_of(redis))
        queue = await queue_of(store)
        before = await executed(store)
        assert await put_many(store, queue, 12) == [None] * 12
        assert await executed(store) == before
        await store.close()


async def test_what_redis_refuses_every_message_of_the_group_is_told(store: MessageStore) -> None:
    queue = await queue_of(store)
    await store.writer.call("CONFIG", "SET", "maxmemory", "1")
    try:
        reasons = await put_many(store, queue, 12)
    finally:
        await store.writer.call("CONFIG", "SET", "maxmemory", "0")
    assert all(reason is not None and "OOM" in reason for reason in reasons)
    assert (queue.next_offset, queue.max_offset, queue.in_flight) == (0, 0, 0)
    assert await put_many(store, queue, 12) == [None] * 12


async def test_a_message_that_redis_does_not_take_leaves_the_others_in_place(store: MessageStore) -> None:
    queue = await queue_of(store)
    other = await queue_of(store)
    await store.reader.call("XADD", other.key, "0-9", "m", "a stranger's entry")
    results = await asyncio.gather(put_many(store, queue, 6), put_many(store, other, 6))
    assert results[0] == [None] * 6
    assert all(reason is not None and "equal or smaller" in reason for reason in results[1])


async def test_every_message_of_a_broken_group_fails_once(store: MessageStore) -> None:
    queue = await queue_of(store)
    writing = asyncio.create_task(put_many(store, queue, 12))
    await asyncio.sleep(0)
    store.writer.reset("the test")
    reasons = await writing
    assert all(reason is not None and "not available" in reason for reason in reasons)
    async with asyncio.timeout(10):
        while not store.ready or store.trouble:  # noqa: ASYNC110 (told by nobody)
            await asyncio.sleep(0.01)
    assert queue.next_offset == queue.max_offset
    assert await put_many(store, queue, 12) == [None] * 12


def test_one_callback_that_fails_keeps_no_answer_back() -> None:
    answers: list[Any] = []

    def fails(_reply: Any) -> None:
        raise ValueError("the test")

    parts, callbacks, size = grouped([b"one", b"two"], [fails, answers.append], 6)
    assert len(b"".join(parts)) == size
    for callback, reply in zip(callbacks, [b"OK", b"QUEUED", b"QUEUED", [b"0-1", b"0-2"]], strict=True):
        if callback:
            callback(reply)
    assert answers == [b"0-2"]


def test_who_was_not_refused_is_told_of_the_group() -> None:
    answers: list[Any] = []
    refusal, of_the_group = hiredis.ReplyError("OOM"), hiredis.ReplyError("EXECABORT")
    _, callbacks, _ = grouped([b"one", b"two"], [answers.append, answers.append], 6)
    for callback, reply in zip(callbacks, [b"OK", refusal, b"QUEUED", of_the_group], strict=True):
        if callback:
            callback(reply)
    assert answers == [refusal, of_the_group]
