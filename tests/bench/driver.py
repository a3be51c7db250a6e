"""The load driver (tests/bench/java) as a child process that takes one command after the other."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from brokercore.client import Credentials
from tests.support import processes
from tests.support.apache import jars
from tests.support.java import compile_java

HEAP = "-Xmx768m"
SOURCES = sorted((Path(__file__).parent / "java").glob("*.java"))


class LineFailedError(Exception):
    """A line has no figure; the text says why."""


def class_path() -> str:
    """Compile the driver when its sources have changed, and return what it runs with."""
    libraries = jars()
    classes = Path(libraries).parent.parent / "classes"
    compile_java(SOURCES, libraries, classes)
    return f"{classes}:{libraries}"


class Driver:
    """One Java process with one producer; what it prints to standard error is kept in a file for the error text."""

    def __init__(self, java_path: str, namesrv: str, credentials: Credentials) -> None:
        self._home = tempfile.TemporaryDirectory(prefix="gantry-bench-home-")
        keys = {"ACCESS_KEY": credentials.access_key_id, "SECRET_KEY": credentials.access_key_secret}
        self._errors = (Path(self._home.name) / "errors.log").open("wb")
        command = ["java", HEAP, f"-Duser.home={self._home.name}", "-cp", java_path, "LoadDriver", namesrv]
        self._process = subprocess.Popen(
            command, env=os.environ | keys, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors
        )
        self._rest = b""

    def ask(self, command: str, seconds: float = 90.0, progress: Callable[[str], None] | None = None) -> list[float]:
        """Run one command and return its figures; other lines go to `progress`. Raises LineFailedError."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(command.encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise LineFailedError(f"the load driver has ended: {self.last_errors()}") from error
        deadline = time.monotonic() + seconds
        while True:
            word, _, rest = self._line(deadline, command).partition(" ")
            if word == "ok":
                return [float(figure) for figure in rest.split()]
            if word == "failed":
                raise LineFailedError(f"{_shown(command)}: {rest}")
            if progress is not None:
                progress(f"{word} {rest}")

    def close(self) -> None:
        """End it."""
        processes.end(self._process)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._errors.close()
        self._home.cleanup()

    def _line(self, deadline: float, command: str) -> str:
        assert self._process.stdout is not None
        while b"\n" not in self._rest:
            ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            data = os.read(self._process.stdout.fileno(), 65536) if ready else b""
            if not ready:
                self._process.kill()  # it may be in the middle of anything: the next line gets a new one
                raise LineFailedError(f"{_shown(command)}: no answer in time; {self.last_errors()}")
            if not data:
                raise LineFailedError(f"{_shown(command)}: the load driver ended; {self.last_errors()}")
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode("utf-8", "replace").strip()

    @property
    def alive(self) -> bool:
        """Whether it can take a command."""
        return self._process.poll() is None

    def last_errors(self) -> str:
        """The end of what it printed to standard error."""
        text = Path(self._errors.name).read_text(errors="replace").strip()
        return text[-300:].replace("\n", " / ")


def _shown(command: str) -> str:
    """Without the secret of a new user."""
    return command.partition(" ")[0] if command.startswith("user ") else command


def note(text: str) -> None:
    """Tell whoever watches what is going on."""
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stderr.flush()
