"""Keeps the tasks that this worker process runs: signs of life and progress out, cancel requests in."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.db import connection

from analytics.specs import Progress
from console.sql import lifecycle
from console.sql.models import QueryTask

log = logging.getLogger(__name__)

#: How often a worker shows that it lives, and how far its tasks are, seconds.
HEARTBEAT_S = 1.0
#: How often it looks for cancel requests, seconds: cancelling is to take less than 2 s.
LOOK_S = 0.25
#: A cancelled task whose statement is not out after this time ends all the same, seconds: the engine may be busy with
#: what it cannot break off, such as a plan. Its jobs are stopped by then.
PATIENCE_S = 1.0


def worker_name() -> str:
    """Host, process and a random part: two workers never share it, not even over a restart with the same pid."""
    return f"{socket.gethostname()[:40]}:{os.getpid()}:{secrets.token_hex(4)}"


class Keeper:
    """Two threads for all running tasks of the process.

    One for the signs of life and one for what the engine is asked: an engine may answer late, or never.
    """

    def __init__(self, cancel: Callable[[str], object], progress: Callable[[str], Progress | None]) -> None:
        self.name = worker_name()
        self._cancel = cancel
        self._progress = progress
        self._running: dict[str, QueryTask] = {}
        #: When a task's last sign of life was given, and since when it is to be cancelled; both by the monotonic clock.
        self._beaten: dict[str, float] = {}
        self._cancelled: dict[str, float] = {}
        self._told: dict[str, Progress] = {}
        self._lock = threading.Lock()
        self._busy = threading.Event()
        self._started = False

    @property
    def running(self) -> list[str]:
        """Ids of the tasks that run now."""
        return [task.pk for task in self.tasks()]

    @contextmanager
    def holding(self, task: QueryTask) -> Iterator[None]:
        """Keep `task` for as long as the block runs."""
        with self._lock:
            self._running[task.pk] = task
            self._busy.set()
            if not self._started:
                self._started = True
                for name, step, pause_s in (("keeper", self._keep, LOOK_S), ("progress", self._observe, HEARTBEAT_S)):
                    threading.Thread(target=self._repeat, args=(step, pause_s), name=name, daemon=True).start()
        try:
            yield
        finally:
            with self._lock:
                del self._running[task.pk]
                for notes in (self._beaten, self._cancelled, self._told):
                    notes.pop(task.pk, None)
                if not self._running:
                    self._busy.clear()

    def tasks(self) -> list[QueryTask]:
        """The tasks that run now, as they were claimed."""
        with self._lock:
            return list(self._running.values())

    def _repeat(self, step: Callable[[list[QueryTask]], None], pause_s: float) -> None:
        """A thread: `step` again and again, whenever tasks run."""
        while True:
            self._busy.wait()
            time.sleep(pause_s)
            try:
                step(self.tasks())
            except Exception:
                # The border of the thread: without it a task would lose its heartbeat, and run twice.
                log.exception("a look at the running tasks failed; trying again")
                connection.close()
            if not self._busy.is_set():
                connection.close()

    def _keep(self, tasks: list[QueryTask]) -> None:
        """Pass cancel requests on, and show that the tasks are alive."""
        now = time.monotonic()
        wanted = set(lifecycle.cancel_requested(task.pk for task in tasks))
        for task in tasks:
            if task.pk in wanted:
                self._stop(task, now)
            if now - self._beaten.get(task.pk, 0.0) >= HEARTBEAT_S:
                lifecycle.beat(task)
                self._beaten[task.pk] = now

    def _stop(self, task: QueryTask, now: float) -> None:
        since = self._cancelled.setdefault(task.pk, now)
        self._cancel(task.pk)  # with each look: one that waits for its engine has begun nothing yet
        if now - since >= PATIENCE_S:
            lifecycle.end(task, lifecycle.CANCELLED)

    def _observe(self, tasks: list[QueryTask]) -> None:
        """Ask the engine how far the tasks are, and write down what has changed."""
        for task in tasks:
            progress = self._progress(task.pk)
            if progress is not None and progress != self._told.get(task.pk):
                lifecycle.report(task, progress)
                self._told[task.pk] = progress
