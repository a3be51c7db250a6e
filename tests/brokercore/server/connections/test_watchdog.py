"""How long the loop was held, as the broker measures it itself."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from brokercore.server.connections.write_batching import LONG_SECONDS, SHOWN_SECONDS, Turn, Watchdog


@pytest.fixture
async def watchdog() -> Watchdog:
    return Watchdog(Turn(asyncio.get_running_loop()))


async def test_the_longest_turn_of_the_last_minute_is_shown(watchdog: Watchdog) -> None:
    assert watchdog.longest(0.0) == 0.0
    for moment, seconds in ((10.0, 0.01), (20.0, 0.5), (30.0, 0.1), (40.0, 0.2)):
        watchdog.took(seconds, moment)
    assert watchdog.longest(41.0) == 0.5
    assert watchdog.longest(20.1 + SHOWN_SECONDS) == 0.2, "the longest one is too old, the next counts"
    assert watchdog.longest(40.1 + SHOWN_SECONDS) == 0.0


async def test_turns_above_the_bound_are_counted(watchdog: Watchdog) -> None:
    for seconds in (LONG_SECONDS, LONG_SECONDS / 2, LONG_SECONDS * 1.01, LONG_SECONDS * 3):
        watchdog.took(seconds, 1.0)
    assert watchdog.long_turns == 2


async def test_a_turn_counts_with_the_processor_time_that_it_took(watchdog: Watchdog) -> None:
    looking = asyncio.ensure_future(watchdog.run())
    await asyncio.sleep(0)
    threading.Event().wait(0.3)  # waiting takes no processor: another process had it
    await asyncio.sleep(0.02)
    waited = watchdog.longest(time.monotonic())
    watchdog.stir()
    end = time.thread_time() + 0.3
    while time.thread_time() < end:
        pass
    await asyncio.sleep(0.02)
    looking.cancel()
    assert waited < 0.15
    assert watchdog.longest(time.monotonic()) >= 0.25
    assert watchdog.long_turns >= 1


async def test_what_comes_after_a_rest_is_measured_from_its_beginning(watchdog: Watchdog) -> None:
    looking = asyncio.ensure_future(watchdog.run())
    await asyncio.sleep(0.2)  # nothing comes: it rests
    before = time.thread_time()
    await asyncio.sleep(0.3)
    rested = time.thread_time() - before
    watchdog.stir()
    end = time.thread_time() + 0.1
    while time.thread_time() < end:
        pass
    await asyncio.sleep(0.02)
    looking.cancel()
    assert 0.08 <= watchdog.longest(time.monotonic()) < 0.2
    assert watchdog.long_turns == 1
    assert rested < 0.005, "a rest takes no processor time"


async def test_what_comes_after_the_last_look_harms_nobody(watchdog: Watchdog) -> None:
    looking = asyncio.ensure_future(watchdog.run())
    await asyncio.sleep(0.1)
    looking.cancel()
    await asyncio.gather(looking, return_exceptions=True)
    watchdog.stir()
