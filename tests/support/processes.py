"""CPU time and resident memory of processes, read from /proc; and how a process is ended."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterable
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_GRACE_SECONDS = 20


def cpu_seconds(pids: Iterable[int]) -> float:
    """User and system time that the processes have used since their start."""
    return sum(_cpu_ticks(pid) for pid in pids) / _TICKS_PER_SECOND


def loop_seconds(pid: int) -> float:
    """User and system time that the first thread of a process has used, in which its event loop runs."""
    return _ticks_of(Path(f"/proc/{pid}/task/{pid}/stat")) / _TICKS_PER_SECOND


def resident_bytes(pids: Iterable[int]) -> int:
    """Resident memory of the processes together; pages that two of them share count twice."""
    return sum(_resident_kib(pid) for pid in pids) * 1024


def proportional_bytes(pids: Iterable[int]) -> int:
    """Resident memory of the processes together, pages that are shared divided among those that share them."""
    return sum(_proportional_kib(pid) for pid in pids) * 1024


def children(pid: int) -> list[int]:
    """Process ids of all descendants of `pid`."""
    direct = [int(child) for task in Path(f"/proc/{pid}/task").glob("*/children") for child in _read(task).split()]
    return direct + [grandchild for child in direct for grandchild in children(child)]


def end(process: subprocess.Popen[bytes]) -> None:
    """Ask a process to end, and kill it when it does not."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _cpu_ticks(pid: int) -> int:
    return _ticks_of(Path(f"/proc/{pid}/stat"))


def _ticks_of(stat: Path) -> int:
    # The name in field 2 may hold blanks: count from the closing parenthesis. utime and stime are fields 14 and 15.
    after_name = stat.read_text().rpartition(")")[2].split()
    return int(after_name[11]) + int(after_name[12])


def _resident_kib(pid: int) -> int:
    return _kib_in(Path(f"/proc/{pid}/status"), "VmRSS:")


def _proportional_kib(pid: int) -> int:
    return _kib_in(Path(f"/proc/{pid}/smaps_rollup"), "Pss:")


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except (FileNotFoundError, ProcessLookupError):  # it has ended: nothing is left of it
        return ""


def _kib_in(file: Path, name: str) -> int:
    for line in _read(file).splitlines():
        if line.startswith(name):
            return int(line.split()[1])
    return 0
