"""One launcher a home, one Redis a store: locks that the system frees with the last process that holds them.

What is locked are the folders themselves. A folder is the same by every path that leads to it, and its lock is not
undone when somebody removes a file.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from launcher import leftovers
from launcher.config import LauncherError

#: Seconds to wait while the guard of a killed launcher still ends its processes (it takes 10 at most).
CLEANING = 15.0

#: Seconds between two tries.
PAUSE = 0.1

#: What a file system says that does not lock folders, as NFS.
NOT_LOCKED_HERE = (errno.EBADF, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL)


@dataclass(frozen=True)
class Held:
    """A locked home. Who inherits the descriptors holds it too."""

    descriptors: tuple[int, ...]

    def release(self) -> None:
        """Release it, as far as this process is concerned."""
        for descriptor in self.descriptors:
            os.close(descriptor)


def acquire(home: Path) -> Held:
    """Lock a home; raise LauncherError while another start has it.

    Locked are the folder and `run/launcher.lock`, which tells who has it and is all there is where folders cannot be
    locked.
    """
    file = home / "run" / "launcher.lock"
    held = Held((os.open(home, os.O_RDONLY | os.O_DIRECTORY), os.open(file, os.O_RDWR | os.O_CREAT, 0o600)))
    deadline = time.monotonic() + CLEANING
    while not all(_try(descriptor) for descriptor in held.descriptors):
        holder = file.read_text().strip()
        if _alive(holder) or time.monotonic() > deadline:
            held.release()
            raise LauncherError(
                f"Gantry already runs on {home} (process {holder or 'unknown'}): "
                "stop it first, or set GANTRY_HOME and the ports for a second installation."
            )
        time.sleep(PAUSE)
    os.ftruncate(held.descriptors[1], 0)
    os.pwrite(held.descriptors[1], f"{os.getpid()}\n".encode(), 0)
    return held


def acquire_if_free(home: Path) -> Held | None:
    """Lock a home that nobody runs on; None while somebody does."""
    held = Held((os.open(home, os.O_RDONLY | os.O_DIRECTORY),))
    if _try(held.descriptors[0]):
        return held
    held.release()
    return None


def acquire_store(folder: Path, given_up: Callable[[], bool] = lambda: False) -> int:
    """Return the descriptor of the locked `folder`, to be inherited by the one process that writes there.

    Waits for who has it, CLEANING seconds at the most, less if `given_up` says so. Raises LauncherError with its name.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    deadline = time.monotonic() + CLEANING
    while not _try(descriptor) or leftovers.writers(folder):
        if time.monotonic() > deadline or given_up():
            os.close(descriptor)
            who = leftovers.writers(folder)
            raise LauncherError(
                f"The store {folder} is held by {leftovers.name(who[0]) if who else 'another process'}: "
                + (f"end it (kill {who[0]})" if who else "end it")
                + ", then start again. Two that write to one store would destroy it."
            )
        time.sleep(PAUSE)
    return descriptor


def _try(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        return error.errno in NOT_LOCKED_HERE
    return True


def _alive(pid: str) -> bool:
    return pid.isdecimal() and Path("/proc", pid).exists()
