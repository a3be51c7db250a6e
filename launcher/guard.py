"""Outlives a launcher that was killed: `python -S -m launcher.guard <run>`, a pipe as standard input.

The launcher holds the other end of the pipe and says which children it has (`+<id>`, `-<id>`, a line each): each of
them began a session, by which its descendants are found even if they changed their environment. When the launcher says
`done` the guard ends; when the pipe closes without that, the launcher is gone without having stopped its children, so
the guard ends them. Meanwhile it holds the lock on the home (inherited), so that a new start cannot meet the old
processes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path

from launcher import leftovers
from launcher.config import ROOT

#: Seconds that the children of a killed launcher get between SIGTERM and SIGKILL.
GRACE = 10.0


class Guard:
    """The launcher's side: starts the guard process and tells it what there is, and when all ended in order."""

    def __init__(self, home: Path, locks: Sequence[int]) -> None:
        self.run = leftovers.of_home(home) + uuid.uuid4().hex
        """Names this start, in the marks of its children."""

        self._locks = tuple(locks)
        self._children: set[int] = set()
        self._start()

    @property
    def pid(self) -> int:
        """Process id of the guard process."""
        return self._process.pid

    def watch(self, child: int) -> None:
        """A child was started: the leader of a session."""
        self._children.add(child)
        self._tell(f"+{child}\n")

    def forget(self, child: int) -> None:
        """A child has ended, and nothing of its session is left."""
        self._children.discard(child)
        self._tell(f"-{child}\n")

    def renew(self) -> None:
        """Start another guard process: the last one was killed."""
        os.close(self._writing)
        self._process.returncode = 0
        self._start()

    def dismiss(self) -> None:
        """Tell the guard that nothing is left to end, and wait until it is gone."""
        self._tell("done\n")
        os.close(self._writing)
        self._process.wait()

    def _start(self) -> None:
        reading, self._writing = os.pipe()
        # A guard that is stopped must not stop the launcher: what it does not take is missing in its list at worst.
        os.set_blocking(self._writing, False)
        # Before it runs: a launcher that is killed in the next moment has told it all.
        for child in self._children:
            self._tell(f"+{child}\n")
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-S", "-m", "launcher.guard", self.run],
            stdin=reading,
            stdout=subprocess.DEVNULL,
            cwd=ROOT,
            pass_fds=self._locks,
            start_new_session=True,
        )
        os.close(reading)

    def _tell(self, line: str) -> None:
        with contextlib.suppress(BrokenPipeError, BlockingIOError):
            os.write(self._writing, line.encode())


def main(run: str) -> None:
    """Wait for the launcher's end; clean up after it unless it said that it did so itself."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sessions: set[int] = set()
    for line in sys.stdin:
        if line.startswith("done"):
            return
        (sessions.add if line.startswith("+") else sessions.discard)(int(line[1:]))
    leftovers.end(run, sessions, grace=GRACE)


if __name__ == "__main__":
    main(sys.argv[1])
