"""Writes Redis' append-only file anew when little is going on, instead of when it has doubled.

While the file is written anew Redis forks, copies the pages that change and shares its disk: requests wait 45 to
150 ms. So that does not happen within a burst, but once it is over, if by then half of the file is of no use. A burst
that does not end puts it off until the disk, or the time that the next start takes to read the file, allows no more.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launcher.process import Child

MIB, GIB = 1 << 20, 1 << 30

#: The kernel's lowest share of a processor: what writes the file has time.
NICENESS = 19


@dataclass(frozen=True)
class Bounds:
    """When the file is written anew. Sizes are bytes."""

    look_seconds: float = 5.0
    """Between two looks."""
    quiet_looks: int = 6
    """Looks in a row that must find little going on."""
    quiet_rate: int = 256 * 1024
    """Bytes a second by which the file may grow while little is going on: some 200 messages of 1 KB."""
    least: int = 64 * MIB
    """A file up to this size is left as it is: it costs neither room nor time."""
    free_least: int = 2 * GIB
    """Room on the disk, beside what the new file takes, below which the file is written anew at once."""
    surplus_most: int = 16 * GIB
    """What of no use a start may have to read: about a minute. With more the file is written anew at once."""


@dataclass(frozen=True)
class Figures:
    """What a look found. Sizes are bytes."""

    size: int
    """Of the append-only file."""
    needed: int
    """What it would be if it were written anew, nearly: what the data takes in memory."""
    free: int
    """Room on the disk of the file."""
    busy: bool
    """It is being written anew now, or is read."""


def is_due(figures: Figures, growth: deque[int], bounds: Bounds) -> bool:
    """Whether the file is to be written anew now. `growth` are the bytes by which it grew between the last looks."""
    surplus = figures.size - figures.needed
    if figures.busy or figures.size < bounds.least or figures.free <= figures.needed:
        return False
    scarce = figures.free - figures.needed < bounds.free_least and surplus > figures.size // 4
    if scarce or surplus > bounds.surplus_most:
        return True
    quiet = len(growth) == bounds.quiet_looks and max(growth) <= bounds.quiet_rate * bounds.look_seconds
    return quiet and figures.size >= 2 * figures.needed


def when_quiet(socket: Path, folder: Path, bounds: Bounds) -> Callable[[Child], Coroutine[Any, Any, None]]:
    """Return what is to run beside the Redis that listens on `socket` and writes to `folder`."""

    async def watch(redis: Child) -> None:
        growth: deque[int] = deque(maxlen=bounds.quiet_looks)
        before: int | None = None
        while True:
            await asyncio.sleep(bounds.look_seconds)
            # A Redis that hangs or is on its way out is looked at again later.
            with contextlib.suppress(OSError, KeyError, ValueError, TimeoutError):
                async with asyncio.timeout(bounds.look_seconds):
                    figures = await _look(socket, folder)
                    if before is not None:
                        growth.append(max(0, figures.size - before))
                    before = figures.size
                    if is_due(figures, growth, bounds):
                        await _ask(socket, "BGREWRITEAOF")
                        growth.clear()
                        _step_back(redis.pid)

    return watch


async def _look(socket: Path, folder: Path) -> Figures:
    text = await _ask(socket, "INFO persistence", "INFO memory")
    fields = dict(line.partition(":")[::2] for line in text.split("\r\n"))
    flags = ("loading", "aof_rewrite_in_progress", "aof_rewrite_scheduled", "rdb_bgsave_in_progress")
    return Figures(
        size=int(fields["aof_current_size"]),
        needed=int(fields["used_memory_dataset"]),
        free=shutil.disk_usage(folder).free,
        busy=any(fields[flag] != "0" for flag in flags),
    )


async def _ask(socket: Path, *commands: str) -> str:
    """Send commands on a connection of its own; return all that is answered."""
    reader, writer = await asyncio.open_unix_connection(socket)
    try:
        writer.write("".join(f"{command}\r\n" for command in (*commands, "QUIT")).encode())
        return (await reader.read(-1)).decode(errors="replace")
    finally:
        writer.close()


def _step_back(redis: int) -> None:
    """Let the process that writes the file, Redis' child, have a processor when nobody else wants it."""
    with contextlib.suppress(OSError):
        for child in Path(f"/proc/{redis}/task/{redis}/children").read_text().split():
            os.setpriority(os.PRIO_PROCESS, int(child), NICENESS)
