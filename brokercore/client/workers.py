"""A few threads that run pieces of work in the order in which they came.

Daemons, unlike those of ThreadPoolExecutor: an application that forgets to close a client, or whose handler never
returns, can still exit.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable

log = logging.getLogger(__name__)

Work = Callable[[], None]


class Workers:
    """At most `count` threads, each started when there is work for it. Work that raises is logged."""

    def __init__(self, count: int, name: str) -> None:
        self._count = count
        self._name = name
        self._changed = threading.Condition()
        self._waiting: deque[Work] = deque()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._stopped = False

    def submit(self, work: Work) -> bool:
        """Put work in line; False after stop(), when it will not be done."""
        with self._changed:
            if self._stopped:
                return False
            self._waiting.append(work)
            if self._idle >= len(self._waiting):
                self._changed.notify()
            elif len(self._threads) < self._count:
                name = f"{self._name} {len(self._threads)}"
                self._threads.append(threading.Thread(target=self._run, name=name, daemon=True))
                self._threads[-1].start()
            return True

    def is_current(self) -> bool:
        """True in one of these threads."""
        return threading.current_thread() in self._threads

    def stop(self, timeout_s: float, *, finish: bool = False) -> bool:
        """Begin no more work, or with `finish` what is in line and no more; wait for what runs.

        False when some still runs after `timeout_s`. Can be called again, also from the work itself.
        """
        with self._changed:
            self._stopped = True
            if not finish:
                self._waiting.clear()
            self._changed.notify_all()
            threads = [thread for thread in self._threads if thread is not threading.current_thread()]
        deadline = time.monotonic() + timeout_s
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in threads)

    def _run(self) -> None:
        while (work := self._next()) is not None:
            try:
                work()
            except Exception:
                log.exception("%s: work failed", self._name)

    def _next(self) -> Work | None:
        with self._changed:
            self._idle += 1
            self._changed.wait_for(lambda: self._waiting or self._stopped)
            self._idle -= 1
            return self._waiting.popleft() if self._waiting else None
