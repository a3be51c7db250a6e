"""Processes that read what a tenant wrote: how one is started, and how accounts share the few that there are.

Such a process may be ended at any moment, and it comes last for the processor. It has pipes and nothing else of its
parent: no environment, no folder, no terminal. It stands in a session of its own, so that signals for the parent do not
reach it.
"""

from __future__ import annotations

import errno
import os
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

#: Of 19, the last. At 10 a process that wants a processor gets a tenth of what one at 0 gets.
NICENESS = 10
#: Linux lets users change the niceness of a session ten times a second at most, all of them together.
_ATTEMPTS, _PAUSE_S = 4, 0.1


def start(program: Sequence[str], environ: Mapping[str, str], *, bufsize: int = -1) -> subprocess.Popen[bytes]:
    """Start it. Raises OSError."""
    process = subprocess.Popen(  # noqa: S603 - programs are ours
        program,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environ,
        cwd="/",
        start_new_session=True,
        bufsize=bufsize,
    )
    come_last(process.pid)
    return process


def come_last(session: int) -> None:
    """Let a session of which this process has just started the leader give way to all others.

    Where Linux schedules by sessions (sched_autogroup, sched(7)) a process's own niceness counts within its session
    only, so both are set.
    """
    try:
        os.setpriority(os.PRIO_PGRP, session, NICENESS)
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                Path(f"/proc/{session}/autogroup").write_text(str(NICENESS), encoding="ascii")
            except OSError as error:
                if error.errno != errno.EAGAIN or attempt == _ATTEMPTS:
                    raise
                time.sleep(_PAUSE_S)
            else:
                return
    except OSError:
        # No such file: Linux does not schedule by sessions here. No such process: it has ended, which its user notices.
        return


class Places:
    """So many places, of which one holder has all but one; for threads, which wait for a place.

    The web server's requests, which have no thread while they wait, have `console/web/fair_queue.py`.
    """

    def __init__(self, most: int, *, most_waiting: int | None = None) -> None:
        """Of one holder not more than `most_waiting` threads wait at a time; beyond it a place is free or refused."""
        self._most = most
        self._most_waiting = most_waiting
        self._changed = threading.Condition()
        self._busy: Counter[str] = Counter()
        self._waiting: Counter[str] = Counter()

    @property
    def are_free(self) -> bool:
        """Whether nobody has a place."""
        with self._changed:
            return not self._busy

    def acquire(self, holder: str, deadline: float) -> bool:
        """Wait for a place until `deadline`, of the monotonic clock; False without one."""
        with self._changed:
            self._waiting[holder] += 1
            try:
                while self._busy.total() >= self._most or self._busy[holder] >= self._most - 1:
                    if not self._changed.wait(self._may_wait_s(holder, deadline)):
                        return False
            finally:
                self._waiting[holder] -= 1
                self._waiting += Counter()  # forgets who has none
            self._busy[holder] += 1
        return True

    def release(self, holder: str) -> None:
        """A place of the holder is free."""
        with self._changed:
            self._busy[holder] -= 1
            self._busy += Counter()  # forgets who holds none
            self._changed.notify_all()

    def _may_wait_s(self, holder: str, deadline: float) -> float:
        if self._most_waiting is not None and self._waiting[holder] > self._most_waiting:
            return 0.0
        return max(0.0, deadline - time.monotonic())
