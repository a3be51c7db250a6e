"""One launcher a home: a lock that the system frees with the last process that holds it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from pathlib import Path

from launcher.errors import LauncherError

#: Seconds to wait while the guard of a killed launcher still ends its processes (it takes 10 at most).
CLEANING = 15.0


def take(home: Path) -> int:
    """Return the descriptor of the locked file `run/launcher.lock`; raise LauncherError while another start has it."""
    path = home / "run" / "launcher.lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + CLEANING
    while not _try(descriptor):
        holder = path.read_text().strip()
        if _alive(holder) or time.monotonic() > deadline:
            os.close(descriptor)
            raise LauncherError(
                f"Gantry already runs on {home} (process {holder or 'unknown'}): "
                "stop it first, or set GANTRY_HOME and the ports for a second copy."
            )
        time.sleep(0.1)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


def _try(descriptor: int) -> bool:
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _alive(pid: str) -> bool:
    return pid.isdecimal() and Path("/proc", pid).exists()
