"""Keeps the tasks that this worker process runs: heartbeats out, cancel requests in."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.db import close_old_connections

from console.sql import lifecycle
from console.sql.models import QueryTask

log = logging.getLogger(__name__)

#: How often a worker shows that it lives, seconds.
HEARTBEAT_S = 2.0
#: How often it looks for cancel requests, seconds: cancelling is to take less than 2 s.
LOOK_S = 0.5


def worker_name() -> str:
    """Host, process and a random part: two workers never share it, not even over a restart with the same pid."""
    return f"{socket.gethostname()[:40]}:{os.getpid()}:{secrets.token_hex(4)}"


class Keeper:
    """One thread for all running tasks of the process; it lives as long as there are any."""

    def __init__(self, cancel: Callable[[str], object]) -> None:
        self.name = worker_name()
        self._cancel = cancel
        self._running: dict[str, QueryTask] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    @property
    def running(self) -> list[str]:
        """Ids of the tasks that run now."""
        with self._lock:
            return list(self._running)

    @contextmanager
    def holding(self, task: QueryTask) -> Iterator[None]:
        """Keep `task` for as long as the block runs."""
        with self._lock:
            self._running[task.pk] = task
            if self._thread is None:
                self._thread = threading.Thread(target=self._keep, name="keeper", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                del self._running[task.pk]

    def _keep(self) -> None:
        last_beat = 0.0
        while True:
            time.sleep(LOOK_S)
            with self._lock:
                if not self._running:
                    self._thread = None
                    return
            try:
                close_old_connections()
                for task_id in lifecycle.cancel_requested(self.running):
                    self._cancel(task_id)
                if time.monotonic() - last_beat >= HEARTBEAT_S:
                    lifecycle.beat(self.running, self.name)
                    last_beat = time.monotonic()
            except Exception:
                # The border of the thread: without it a task would lose its heartbeat, and run twice.
                log.exception("the heartbeat failed; trying again")
