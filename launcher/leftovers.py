"""Finds the processes of one start, wherever they moved to, through /proc.

Each child carries LAUNCHER_RUN=<run>:<name>; in its environment, and what it starts inherits that, also when it changes
its process group or its parent ends (Spark's Python daemons do both). The name has no GANTRY_ in front, since the JVM
gets none of our settings. Linux only, as is the product.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

MARK = "LAUNCHER_RUN"


def find(mark: str) -> list[int]:
    """Return the ids of live processes whose LAUNCHER_RUN begins with `mark`, this process left out."""
    needle = f"\0{MARK}={mark}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        # A process may end while it is looked at, and another user's cannot be read.
        with contextlib.suppress(OSError):
            if needle in b"\0" + (entry / "environ").read_bytes():
                found.append(int(entry.name))
    return found


def end(mark: str, *, grace: float = 0.0) -> int:
    """Kill what `find` finds, after SIGTERM and `grace` seconds where some are given; return how many there were."""
    seen: set[int] = set()
    if grace and (first := find(mark)):
        seen.update(first)
        _send(first, signal.SIGTERM)
        deadline = time.monotonic() + grace
        while find(mark) and time.monotonic() < deadline:
            time.sleep(0.05)
    # Again until none is found: a process can start another between the look and the kill.
    while live := find(mark):
        seen.update(live)
        _send(live, signal.SIGKILL)
        time.sleep(0.01)
    return len(seen)


def _send(pids: list[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
