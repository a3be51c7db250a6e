"""Outlives a launcher that was killed: `python -S -m launcher.guard <run> <lock fd>`, a pipe as standard input.

The launcher holds the other end of the pipe. When it says `done` the guard ends; when the pipe closes without that, the
launcher is gone without having stopped its children, so the guard ends them. Meanwhile it holds the lock on
the home (inherited), so that a new start cannot meet the old processes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys

from launcher import leftovers
from launcher.config import ROOT

#: Seconds that the children of a killed launcher get between SIGTERM and SIGKILL.
GRACE = 10.0


class Guard:
    """The launcher's side: starts the guard process and tells it when all ended in order."""

    def __init__(self, run: str, lock: int) -> None:
        reading, self._writing = os.pipe()
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-S", "-m", "launcher.guard", run, str(lock)],
            stdin=reading,
            stdout=subprocess.DEVNULL,
            cwd=ROOT,
            pass_fds=[lock],
            start_new_session=True,
        )
        os.close(reading)

    def dismiss(self) -> None:
        """Tell the guard that nothing is left to end, and wait until it is gone."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._writing, b"done")
        os.close(self._writing)
        self._process.wait()


def main(run: str) -> None:
    """Wait for the launcher's end; clean up after it unless it said that it did so itself."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if not sys.stdin.buffer.read().endswith(b"done"):
        leftovers.end(run, grace=GRACE)


if __name__ == "__main__":
    main(sys.argv[1])
