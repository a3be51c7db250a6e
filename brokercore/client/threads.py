"""The client's threads: work at its time, work again and again, work shared by a few; and a fork, which ends them."""

from __future__ import annotations

import heapq
import itertools
import logging
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Protocol

from brokercore.client.errors import ClientError

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


class Periodic:
    """Runs `work` every `interval_s` seconds until stopped; what it raises is logged and does not end it.

    `work` may return the seconds to wait this time. After a ClientError the wait is `retry_s`.
    """

    def __init__(
        self, name: str, interval_s: float, work: Callable[[], float | None], *, retry_s: float | None = None
    ) -> None:
        self._name = name
        self._interval_s = interval_s
        self._work = work
        self._retry_s = interval_s if retry_s is None else retry_s
        self._wake = threading.Event()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start; the first run is after one interval, or when woken."""
        self._thread.start()

    def wake(self) -> None:
        """Run now."""
        self._wake.set()

    def signal(self) -> None:
        """Let it stop, without waiting for a run that is under way."""
        self._stopped = True
        self._wake.set()

    def stop(self, timeout_s: float = 5.0) -> None:
        """Stop and wait for a run that is under way, at most `timeout_s`. Can be called again."""
        self.signal()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        wait_s = self._interval_s
        while True:
            self._wake.wait(wait_s)
            self._wake.clear()
            if self._stopped:
                return
            wait_s = self._run_once()

    def _run_once(self) -> float:
        try:
            return self._work() or self._interval_s
        except ClientError as error:
            log.warning("%s: %s", self._name, error)
            return self._retry_s
        except Exception:
            log.exception("%s failed", self._name)
        return self._interval_s


class Workers:
    """At most `count` threads, each started when there is work for it. Work that raises is logged.

    Work is begun in the order in which it came. The threads are daemons, unlike those of ThreadPoolExecutor: an
    application that forgets to close a client, or whose handler never returns, can still exit.
    """

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


class Restartable(Protocol):
    """Something with connections, threads or locks that a child must not share with its parent."""

    def start_anew(self) -> None:
        """Drop what belongs to the parent. Runs in the child before any of its threads."""


_registered: weakref.WeakSet[Restartable] = weakref.WeakSet()


def restart_after_fork(thing: Restartable) -> None:
    """Call `thing.start_anew()` in every child forked from now on, as long as it lives."""
    _registered.add(thing)


def _after_fork() -> None:
    for thing in list(_registered):
        thing.start_anew()


os.register_at_fork(after_in_child=_after_fork)
