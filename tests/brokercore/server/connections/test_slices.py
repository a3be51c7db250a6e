"""Slices of the loop: who has much to do leaves it to others, and accounts have their turns one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from time import perf_counter

import pytest

from brokercore.server.connections.fairness import SLICE_SECONDS, Pace, at_once


def busy(seconds: float) -> None:
    """Hold the loop."""
    end = perf_counter() + seconds
    while perf_counter() < end:
        pass


async def worked(pace: Pace, account: str, done: list[str], slices: int) -> None:
    work = pace.work(account)
    for _ in range(slices):
        await work.rest()
        done.append(account)
        busy(SLICE_SECONDS)
    work.end()


async def test_the_first_slice_is_there_at_once_and_ends() -> None:
    work = Pace().work("a")
    assert work.deadline > perf_counter()
    busy(2 * SLICE_SECONDS)
    assert work.is_over


async def test_after_a_slice_the_loop_is_left_for_as_long_as_it_took() -> None:
    pace = Pace()
    work = pace.work("a")
    busy(0.02)
    left = perf_counter()
    work.end()
    again = pace.work("a")
    assert again.is_over, "there is no second first slice right behind"
    await again.rest()
    assert perf_counter() - left >= 0.02


async def test_accounts_have_slices_by_turns_however_many_requests_one_has() -> None:
    pace, done = Pace(), list[str]()
    many = [worked(pace, "many", done, 3) for _ in range(5)]
    await asyncio.gather(*many, worked(pace, "few", done, 3))
    assert done.count("many") == 15
    assert done[:7].count("few") == 3, "its slices are not behind all those of the other"


async def test_others_are_served_between_slices() -> None:
    pace, over, others = Pace(), asyncio.Event(), 0
    held: list[float] = []

    async def other() -> None:
        nonlocal others
        while not over.is_set():
            others += 1
            await asyncio.sleep(0)

    def steps() -> Generator[None, None, str]:
        for _ in range(50):
            began = perf_counter()
            busy(SLICE_SECONDS / 2)
            held.append(others)
            yield
            assert perf_counter() >= began
        return "end"

    task = asyncio.ensure_future(other())
    assert await pace.work("a").through(steps()) == "end"
    over.set()
    await task
    assert len(set(held)) > 10, "others ran again and again while it worked"


async def test_a_request_that_is_cancelled_while_it_waits_takes_nobodys_slice() -> None:
    pace, done = Pace(), list[str]()
    pace.spent(0.01)
    gone = asyncio.ensure_future(worked(pace, "gone", done, 1))
    await asyncio.sleep(0)
    stays = asyncio.ensure_future(worked(pace, "stays", done, 1))
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.wait_for(stays, 10)
    assert done == ["stays"]


async def test_items_come_in_their_order_and_all_of_them() -> None:
    pace = Pace()
    pace.spent(0.001)
    found = []
    async for item in pace.work("a").over(range(20)):
        found.append(item)
        busy(SLICE_SECONDS / 3)
    assert found == list(range(20))


async def test_a_step_that_refuses_ends_the_work() -> None:
    def steps() -> Generator[None]:
        yield
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await Pace().work("a").through(steps())
    with pytest.raises(ValueError, match="no"):
        at_once(steps())


def test_small_work_is_done_at_once() -> None:
    def steps() -> Generator[None, None, int]:
        for _ in range(3):
            yield
        return 3

    assert at_once(steps()) == 3
