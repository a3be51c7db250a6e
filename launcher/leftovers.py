"""Finds the processes of one start, wherever they moved to, through /proc.

Each child carries LAUNCHER_RUN=<run>:<name>; in its environment, and what it starts inherits that, also when it changes
its process group or its parent ends (Spark's Python daemons do both). A program that writes over its environment, as
Redis does with its title, or that is started with another one, is found by the session that its service began, or
by its parent. The name has no GANTRY_ in front, since the JVM gets none of our settings. Linux only, as is the product.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

MARK = "LAUNCHER_RUN"


class Place(NamedTuple):
    """Where a process stands among the others."""

    parent: int
    session: int


def of_home(home: Path) -> str:
    """Return what the marks of all starts on `home` begin with, by whatever path each was given it."""
    found = home.stat()
    return f"{found.st_dev:x}-{found.st_ino:x}-"


def find(mark: str, sessions: Collection[int] = ()) -> list[int]:
    """Return the ids of the live processes that began with `mark` or in `sessions`, and of all that descend from them.

    This process is left out.
    """
    places = dict(_places())
    found = _ours(places, mark, sessions)
    while more := {pid for pid, place in places.items() if place.parent in found and pid not in found}:
        found |= more
    return sorted(found)


def end(mark: str, sessions: Collection[int] = (), *, grace: float = 0.0) -> int:
    """Kill what `find` finds, after SIGTERM and `grace` seconds where some are given; return how many there were.

    SIGTERM is for those that began so; what they started beside themselves they end in their own way, or it is killed.
    """
    seen: set[int] = set()
    if grace and (first := find(mark, sessions)):
        seen.update(first)
        _send(sorted(_ours(dict(_places()), mark, sessions)), signal.SIGTERM)
        deadline = time.monotonic() + grace
        while find(mark, sessions) and time.monotonic() < deadline:
            time.sleep(0.05)
    # Again until none is found: a process can start another between the look and the kill.
    while live := find(mark, sessions):
        seen.update(live)
        _send(live, signal.SIGKILL)
        time.sleep(0.01)
    return len(seen)


def writers(folder: Path) -> list[int]:
    """Return the ids of the processes that have a file of `folder` open for writing, as far as /proc shows them.

    Files are told apart by what they are and not by path: a folder may be reached by several.
    """
    with contextlib.suppress(OSError):
        files = {
            (found.st_dev, found.st_ino) for found in (path.stat() for path in folder.rglob("*") if path.is_file())
        }
        return [int(entry.name) for entry in _processes() if any(_written(entry, files))]
    return []


def name(pid: int) -> str:
    """Return how a process is called in a sentence: `valkey-server (process 4711)`."""
    try:
        return f"{Path(f'/proc/{pid}/comm').read_text().strip()} (process {pid})"
    except OSError:
        return f"process {pid}"


def _ours(places: Mapping[int, Place], mark: str, sessions: Collection[int]) -> set[int]:
    needle = f"\0{MARK}={mark}".encode()
    found = {
        pid for pid, place in places.items() if place.session in sessions or needle in b"\0" + _environment_of(pid)
    }
    return found - {os.getpid()}


def _processes() -> Iterator[Path]:
    return (entry for entry in Path("/proc").iterdir() if entry.name.isdecimal())


def _places() -> Iterator[tuple[int, Place]]:
    """Every live process; one that has ended and waits to be collected is not."""
    for entry in _processes():
        # A process may end while it is looked at. Its name, in brackets, may hold anything.
        with contextlib.suppress(OSError, ValueError):
            state, parent, _, session, *_ = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
            if state not in "ZX":
                yield int(entry.name), Place(int(parent), int(session))


def _environment_of(pid: int) -> bytes:
    # Another user's cannot be read.
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_bytes()
    return b""


def _written(process: Path, files: Collection[tuple[int, int]]) -> Iterator[bool]:
    with contextlib.suppress(OSError):
        for link in (process / "fd").iterdir():
            with contextlib.suppress(OSError, StopIteration):
                found = link.stat()
                if (found.st_dev, found.st_ino) in files:
                    lines = (process / "fdinfo" / link.name).read_text().splitlines()
                    flags = next(line for line in lines if line.startswith("flags:")).split()[1]
                    yield int(flags, 8) & os.O_ACCMODE != os.O_RDONLY


def _send(pids: list[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
