"""Turns of one connection's reads: few at a time, none while the client reads nothing, none lost."""

from __future__ import annotations

import asyncio

import pytest

from brokercore.server.connections.fairness import MOST_READS, Reads


async def _read(reads: Reads, done: list[int], number: int, end: asyncio.Event) -> None:
    async with reads:
        done.append(number)
        await end.wait()


async def _settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_few_read_at_a_time_and_the_others_follow_in_their_order() -> None:
    reads, began, end = Reads(), list[int](), asyncio.Event()
    tasks = [asyncio.create_task(_read(reads, began, number, end)) for number in range(MOST_READS + 3)]
    await _settle()
    assert began == list(range(MOST_READS))
    assert not reads.is_free
    end.set()
    await asyncio.gather(*tasks)
    assert began == list(range(MOST_READS + 3))
    assert reads.is_free


async def test_nobody_begins_while_the_client_reads_nothing() -> None:
    reads, began, end = Reads(), list[int](), asyncio.Event()
    reads.stop()
    end.set()
    tasks = [asyncio.create_task(_read(reads, began, number, end)) for number in range(2 * MOST_READS)]
    await _settle()
    assert began == []
    reads.go_on()
    await asyncio.gather(*tasks)
    assert began == list(range(2 * MOST_READS))
    assert reads.is_free


@pytest.mark.parametrize("after_its_turn_came", [False, True])
async def test_who_is_cancelled_while_waiting_keeps_no_turn(after_its_turn_came: bool) -> None:
    reads, began, end = Reads(), list[int](), asyncio.Event()
    end.set()
    reads.stop()
    waiting = asyncio.create_task(_read(reads, began, 0, end))
    await _settle()
    if after_its_turn_came:
        reads.go_on()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    reads.go_on()
    tasks = [asyncio.create_task(_read(reads, began, number, asyncio.Event())) for number in range(MOST_READS)]
    await _settle()
    assert len(began) == MOST_READS
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert reads.is_free
