"""Starts a process that reads what a tenant wrote: it may be ended at any moment, and it comes last for the processor.

It has pipes and nothing else of its parent: no environment, no folder, no terminal. It stands in a session of its own,
so that signals for the parent do not reach it.
"""

from __future__ import annotations

import errno
import os
import subprocess
import time
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
