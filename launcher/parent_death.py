"""Becomes a command that ends when the launcher does.

Called as `python -S -m launcher.parent_death <launcher's id> <turn> COMMAND …`.

The kernel sends SIGTERM to the command when the thread that started it ends, which is the launcher's main thread. That
holds however the launcher ends, and also for a program that writes over its environment, as Redis does with its title.
What the command starts itself is not bound; the guard ends that.

The turn says when it gets the processor beside others that want it. `soon` is for what answers everybody within a
millisecond, the broker and its Redis: they ask the kernel for short slices, which Linux from 6.12 on gives before
longer ones (sched_setattr(2), sched_runtime); over time they get no more than their share. `later` is for all others:
each gets a third of what one of those two gets while both want it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import signal
import struct
import sys

PR_SET_PDEATHSIG = 1

NICENESS = 5
"""Of what comes later."""

SHORT_SLICE_NS = 100_000
"""The shortest that Linux knows; the usual one is 1.4 to 3 ms."""

#: Numbers of the system call sched_setattr, by machine; the C library has no name for it.
_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}

#: The shell's exit status for a command that cannot be run.
CANNOT_RUN = 127


def main(launcher: int, turn: str, command: list[str]) -> int:
    """Become `command`; return an exit status when that cannot be."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    # A launcher that ended before the call above sends nothing any more.
    if os.getppid() != launcher:
        return CANNOT_RUN
    # Python ignores these two, and a program keeps what is ignored when it becomes another.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    if turn == "soon":
        _ask_for_short_slices()
    else:
        _give_way()
    try:
        os.execvp(command[0], command)  # noqa: S606 - commands come from plan.py
    except OSError as error:
        sys.stderr.write(f"{command[0]} cannot be run: {error.strerror}.\n")
    return CANNOT_RUN


def _ask_for_short_slices() -> None:
    """A kernel that does not know of it gives slices as usual, so what it answers changes nothing."""
    number = _SCHED_SETATTR.get(platform.machine())
    if number is not None:
        # size, policy, flags, nice, priority, runtime, deadline, period; an older kernel passes over the runtime.
        attributes = struct.pack("<IIQiIQQQ", 48, os.SCHED_OTHER, 0, os.nice(0), 0, SHORT_SLICE_NS, 0, 0)
        ctypes.CDLL(None).syscall(number, 0, attributes, 0)


def _give_way() -> None:
    os.nice(NICENESS)
    # Where Linux schedules by sessions (sched_autogroup, sched(7)) a process's own niceness counts in its session only.
    # Elsewhere there is no such file; and a user may change it ten times a second only, which is not worth a wait.
    with contextlib.suppress(OSError), open("/proc/self/autogroup", "w", encoding="ascii") as session:
        session.write(str(NICENESS))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2], sys.argv[3:]))
