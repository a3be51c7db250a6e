"""A scratch folder for each Spark process under GANTRY_HOME: several share a home, and what dead ones left is swept.

The process holds a lock on a file of its folder. It goes with the process, however that ends.
"""

import contextlib
import fcntl
import os
import shutil
import uuid
from pathlib import Path

_TOP, _LOCK = "spark", "lock"
_PREFIX = "process-"


class Scratch:
    """A folder that is this process's until `remove`."""

    def __init__(self, home: Path) -> None:
        """Make it, and sweep those of processes that are gone. Raises OSError when nothing can be written there."""
        top = home / _TOP
        top.mkdir(parents=True, exist_ok=True)
        _sweep(top)
        name = f"{_PREFIX}{os.getpid()}-{uuid.uuid4().hex[:8]}"
        draft = top / f".{name}"  # nobody sweeps it before it is locked
        draft.mkdir()
        self._lock = os.open(draft / _LOCK, os.O_CREAT | os.O_RDWR)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self.path = draft.rename(top / name)

    def remove(self) -> None:
        """Remove the folder with all in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def _sweep(top: Path) -> None:
    for folder in top.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):  # another process sweeps it too, or lives in it
            lock = os.open(folder / _LOCK, os.O_RDWR)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)
