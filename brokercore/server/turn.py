"""When gathered writes leave: at the end of a turn of work, in as few system calls as that allows."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

logger = logging.getLogger(__name__)


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
