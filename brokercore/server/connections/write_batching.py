"""When gathered writes leave: at the end of a turn of work, in as few system calls as that allows."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable

logger = logging.getLogger(__name__)

LOOK_SECONDS = 0.005
"""Between two looks: what holds the loop for longer is seen."""

LONG_SECONDS = 0.02
"""No request shall hold the loop for longer."""

SHOWN_SECONDS = 60.0
"""The longest turn is that of so long."""


class Turn:
    """Runs the flushes that a turn of work asked for.

    What Redis' replies cause leaves as soon as all of them are processed. What a client's bytes cause leaves at once
    while only this client is busy, which saves a round of the event loop; while several are, it waits until all
    of them have been read in this round, so that their commands share one write.
    """

    __slots__ = ("_depth", "_flushes", "_last", "_loop", "_scheduled", "on_begin")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.on_begin: Callable[[], None] | None = None
        """Called when work begins, until it sets itself to None: to call it for every message would cost time."""
        self._flushes: list[Callable[[], None]] = []
        self._depth = 0
        self._scheduled = False
        self._last: object = None

    def later(self, flush: Callable[[], None]) -> None:
        """Call `flush` at the end of this turn."""
        self._flushes.append(flush)
        if not self._depth:
            self._schedule()

    def begin(self) -> None:
        """Work begins that may ask for flushes."""
        self._depth += 1
        if self.on_begin is not None:
            self.on_begin()

    def end(self, source: object = None) -> None:
        """The work is done; `source` is the client whose bytes it was, None for Redis."""
        self._depth -= 1
        if not self._flushes or self._depth:
            return
        if source is None or source is self._last:
            self._run()
        else:
            self._last = source
            self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._run_scheduled)

    def _run_scheduled(self) -> None:
        self._scheduled = False
        self._run()

    def _run(self) -> None:
        flushes, self._flushes = self._flushes, []
        for flush in flushes:
            try:
                flush()
            except Exception:  # one peer's trouble must not keep the others' bytes back
                logger.exception("a write failed")


class Watchdog:
    """Looks at the clock every few milliseconds; by how much a look is late is how long the loop was held.

    A turn counts with the processor time that it took: when the machine is busy with other processes, nobody here has
    held anything. While nothing comes in there is nothing to look at, and no processor time is taken.
    """

    def __init__(self, turn: Turn) -> None:
        """What begins a turn of `turn` is looked at."""
        self._turn = turn
        self.long_turns = 0
        """Turns longer than LONG_SECONDS since the start."""
        self._longest: deque[tuple[float, float]] = deque()
        """The moment and length of turns, each shorter than the one before it."""
        self._resting: asyncio.Future[None] | None = None
        self._seen = self._spent = 0.0

    def stir(self) -> None:
        """Something came in: what it causes begins now."""
        self._turn.on_begin = None
        if self._resting is not None:
            self._seen, self._spent = time.monotonic(), time.thread_time()
            if not self._resting.done():  # or nobody looks any more
                self._resting.set_result(None)
            self._resting = None

    async def run(self) -> None:
        """Look on until cancelled."""
        loop = asyncio.get_running_loop()
        self._seen, self._spent = time.monotonic(), time.thread_time()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            now, total = time.monotonic(), time.thread_time()
            self.took(min(now - self._seen - LOOK_SECONDS, total - self._spent), now)
            self._seen, self._spent = now, total
            if self._turn.on_begin is not None:  # nothing has begun since the last look
                self._resting = resting = loop.create_future()
                await resting
            self._turn.on_begin = self.stir

    def took(self, seconds: float, now: float) -> None:
        """A turn that ended at `now` (monotonic) has held the loop for so long."""
        if seconds > LONG_SECONDS:
            self.long_turns += 1
        while self._longest and self._longest[-1][1] <= seconds:
            self._longest.pop()
        self._longest.append((now, seconds))

    def longest(self, now: float) -> float:
        """Seconds of the longest turn of the last minute."""
        while self._longest and self._longest[0][0] < now - SHOWN_SECONDS:
            self._longest.popleft()
        return max(0.0, self._longest[0][1]) if self._longest else 0.0
