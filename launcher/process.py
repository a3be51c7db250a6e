"""One child process: in a session of its own, its output read line by line, its end told by the reaper."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from launcher import leftovers

#: Lines of output kept for the message when a child does not get ready.
TAIL = 15

#: Bytes of a line without an end that are held back before they are shown as they are.
LINE_MAX = 64 * 1024


class Reaper:
    """Collects every ended child of this process on SIGCHLD: the ones we started, and orphans that came to us."""

    def __init__(self) -> None:
        self._waiting: dict[int, asyncio.Future[int]] = {}

    def install(self) -> None:
        """Listen for SIGCHLD on the running loop."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, self.collect)

    def expect(self, pid: int) -> asyncio.Future[int]:
        """Return the future exit status of `pid` (negative: the signal that ended it)."""
        self._waiting[pid] = asyncio.get_running_loop().create_future()
        return self._waiting[pid]

    def collect(self) -> None:
        """Collect all that have ended."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                future = self._waiting.pop(pid, None)
                if future is not None:
                    future.set_result(os.waitstatus_to_exitcode(status))


class Child:
    """A running child. `ended` resolves to its exit status; `tail` holds its last lines.

    It ends when the thread does that made it: make it in the main thread.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        environ: Mapping[str, str],
        cwd: Path,
        mark: str,
        reaper: Reaper,
        on_line: Callable[[str], None],
        pass_fds: Sequence[int] = (),
        turn: str = "later",
    ) -> None:
        self.mark = mark
        self.tail: deque[str] = deque(maxlen=TAIL)
        self._on_line = on_line
        self._partial = b""
        self._awaited: list[tuple[str, asyncio.Event]] = []
        self._output, writing = os.pipe()
        os.set_blocking(self._output, False)
        try:
            self._process = subprocess.Popen(  # noqa: S603 - commands come from plan.py
                # Not to outlive this process, whatever ends it and whatever the child makes of its environment.
                [sys.executable, "-S", "-m", "launcher.parent_death", str(os.getpid()), turn, *command],
                stdin=subprocess.DEVNULL,
                stdout=writing,
                stderr=subprocess.STDOUT,
                cwd=cwd,
                env={**environ, leftovers.MARK: mark},
                start_new_session=True,
                pass_fds=pass_fds,
            )
        except OSError:
            os.close(self._output)
            raise
        finally:
            os.close(writing)
        self.pid = self._process.pid
        self.ended = reaper.expect(self.pid)
        self.ended.add_done_callback(self._on_end)
        asyncio.get_running_loop().add_reader(self._output, self._read)

    def line_starting(self, prefix: str) -> asyncio.Event:
        """Return an event that is set with the first line, kept or to come, that begins with `prefix`."""
        event = asyncio.Event()
        if any(line.startswith(prefix) for line in self.tail):
            event.set()
        self._awaited.append((prefix, event))
        return event

    async def stop(self, grace: float, number: signal.Signals = signal.SIGTERM) -> bool:
        """Ask the child to end, kill its group after `grace` seconds; return whether it went by itself."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)
        done, _ = await asyncio.wait([self.ended], timeout=grace)
        self.kill()
        await self.ended
        return bool(done)

    def kill(self) -> None:
        """Kill the whole process group, also what is left of it after the child's own end."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    async def sweep(self) -> None:
        """Kill what the child left behind in its session and, with its mark, in others."""
        await asyncio.to_thread(leftovers.end, self.mark, (self.pid,))

    def _on_end(self, ended: asyncio.Future[int]) -> None:
        self._process.returncode = ended.result()
        self._read()
        if self._output >= 0:
            asyncio.get_running_loop().remove_reader(self._output)
            os.close(self._output)
            self._output = -1
        if self._partial:
            self._show(self._partial)
            self._partial = b""

    def _read(self) -> None:
        """Take what is in the pipe. After the child's end a grandchild may hold it open, so EOF is not waited for."""
        while self._output >= 0:
            try:
                chunk = os.read(self._output, LINE_MAX)
            except BlockingIOError:
                return
            if not chunk:
                asyncio.get_running_loop().remove_reader(self._output)
                os.close(self._output)
                self._output = -1
                return
            *lines, self._partial = (self._partial + chunk).split(b"\n")
            if len(self._partial) >= LINE_MAX:
                lines, self._partial = [*lines, self._partial], b""
            for line in lines:
                self._show(line)

    def _show(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace").rstrip("\r")
        self.tail.append(text)
        for prefix, event in self._awaited:
            if text.startswith(prefix):
                event.set()
        self._on_line(text)
