"""Becomes a command that ends when the launcher does: `python -S -m launcher.bound <launcher's id> COMMAND …`.

The kernel sends SIGTERM to the command when the thread that started it ends, which is the launcher's main thread. That
holds however the launcher ends, and also for a program that writes over its environment, as Redis does with its title.
What the command starts itself is not bound; the guard ends that.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1

#: The shell's exit status for a command that cannot be run.
CANNOT_RUN = 127


def main(launcher: int, command: list[str]) -> int:
    """Become `command`; return an exit status when that cannot be."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    # A launcher that ended before the call above sends nothing any more.
    if os.getppid() != launcher:
        return CANNOT_RUN
    # Python ignores these two, and a program keeps what is ignored when it becomes another.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)  # noqa: S606 - commands come from plan.py
    except OSError as error:
        sys.stderr.write(f"{command[0]} cannot be run: {error.strerror}.\n")
    return CANNOT_RUN


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
