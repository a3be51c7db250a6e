"""How long the loop was held: measured all the time, since whoever holds it keeps everybody waiting."""

from __future__ import annotations

import asyncio
import time
from collections import deque

LOOK_SECONDS = 0.005
"""Between two looks: what holds the loop for longer is seen."""

LONG_SECONDS = 0.02
"""No request shall hold the loop for longer."""

SHOWN_SECONDS = 60.0
"""The longest turn is that of so long."""


class Watchdog:
    """Looks at the clock every few milliseconds; by how much a look is late is how long the loop was held.

    A turn counts with the processor time that it took: when the machine is busy with other processes, nobody here has
    held anything.
    """

    def __init__(self) -> None:
        self.long_turns = 0
        """Turns longer than LONG_SECONDS since the start."""
        self._longest: deque[tuple[float, float]] = deque()
        """The moment and length of turns, each shorter than the one before it."""

    async def run(self) -> None:
        """Look on until cancelled."""
        seen, spent = time.monotonic(), time.thread_time()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            now, total = time.monotonic(), time.thread_time()
            self.took(min(now - seen - LOOK_SECONDS, total - spent), now)
            seen, spent = now, total

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
