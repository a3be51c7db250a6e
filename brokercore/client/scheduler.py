"""One thread that runs small pieces of work, now or later, one after the other."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable

log = logging.getLogger(__name__)

Work = Callable[[], None]


class Scheduler:
    """Work that raises is logged and does not end the thread."""

    def __init__(self, name: str) -> None:
        self._due: list[tuple[float, int, Work]] = []
        self._order = itertools.count()
        self._changed = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def call(self, work: Work, delay_s: float = 0.0) -> None:
        """Run `work` after `delay_s` seconds; after stop() it is dropped."""
        with self._changed:
            heapq.heappush(self._due, (time.monotonic() + delay_s, next(self._order), work))
            self._changed.notify()

    def stop(self, timeout_s: float = 5.0) -> None:
        """Drop what waits and wait for what runs, at most `timeout_s`. Can be called again."""
        with self._changed:
            self._stopped = True
            self._due.clear()
            self._changed.notify()
        if self._thread is not threading.current_thread():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while (work := self._next()) is not None:
            try:
                work()
            except Exception:
                log.exception("%s: work failed", self._thread.name)

    def _next(self) -> Work | None:
        with self._changed:
            while not self._stopped:
                now = time.monotonic()
                if self._due and self._due[0][0] <= now:
                    return heapq.heappop(self._due)[2]
                self._changed.wait(self._due[0][0] - now if self._due else None)
        return None
