"""A second process with an engine of its own, for tasks that must run alone; started when one waits.

A task that lost an engine may be what killed it, or only have been near. Alone, one at a time, a killer costs nobody
else anything, while all others go on in the worker's own engine (docs/sql.md).
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import threading
import time

from django.conf import settings
from django.db import connection

from console.sql import scheduling

log = logging.getLogger(__name__)

#: Between the end of the process and the next one, while tasks wait for it, seconds.
_PAUSE_S = 1.0
#: How long it may take to give its task back when the worker ends, seconds.
_END_S = 4.0
#: What only the worker's own process may have: its readiness, its warm start, the launcher's mark by which everything
#: of a dead worker is killed, which would cost the task a second engine.
_NOT_FOR_IT = ("GANTRY_READY_FILE", "GANTRY_WARM_SPARK", "LAUNCHER_RUN")


class Alone:
    """The worker's side: at most one such process at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._may_start = False
        self._released = False

    def may_start(self) -> None:
        """From now on: two engines that start at a time would take each other the processors."""
        self._may_start = True
        self.look()

    def look(self) -> None:
        """Start the process if a task waits for it and it does not run."""
        with self._lock:
            if not self._may_start or self._released or self._process is not None or not scheduling.suspects_wait():
                return
            self._process = _start()
        threading.Thread(target=self._follow, args=(self._process,), name="alone", daemon=True).start()

    def release(self) -> None:
        """Tell the process to give its task back and end; it is told the same by the death of this one."""
        with self._lock:
            self._released = True
            if self._process is not None and self._process.stdin is not None:
                with contextlib.suppress(OSError):
                    self._process.stdin.close()

    def wait(self) -> None:
        """Wait for its end, and kill it when it takes too long."""
        process = self._process
        if process is not None:
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()

    def _follow(self, process: subprocess.Popen[bytes]) -> None:
        status = process.wait()
        if status:
            log.warning("the process for statements that run alone ended with exit status %s", status)
        time.sleep(_PAUSE_S)
        with self._lock:
            self._process = None
        try:
            self.look()
        finally:
            connection.close()


def _start() -> subprocess.Popen[bytes]:
    environ = {name: value for name, value in os.environ.items() if name not in _NOT_FOR_IT}
    command = (sys.executable, str(settings.BASE_DIR / "manage.py"), "sqlalone", "--skip-checks")
    # A session of its own: the signals of a terminal and of the launcher are for the worker, which passes them on.
    return subprocess.Popen(command, stdin=subprocess.PIPE, env=environ, start_new_session=True)  # noqa: S603
