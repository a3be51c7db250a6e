from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from launcher import leftovers
from launcher.config import ROOT
from tests.support.patience import Patience


class Launched:
    """A launcher in a process of its own, over the services that a piece of Python names."""

    def __init__(self, home: Path, services: str, *, listen: bool = True) -> None:
        self.home, self.lines = home, list[str]()
        code = f"""
        import sys
        from pathlib import Path
        from tests.launcher.fleet import *
        home = Path({str(home)!r})
        sys.exit(run(home, [{services}]))
        """
        self.process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        if listen:
            self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        self.lines.extend(line.rstrip("\n") for line in iter(self.process.stdout.readline, ""))

    def has(self, text: str) -> bool:
        return any(text in line for line in list(self.lines))

    def await_line(self, text: str, *, count: int = 1, deadline: float = 30.0) -> None:
        """Wait until `count` lines of the output hold `text`."""
        poll(lambda: sum(text in line for line in list(self.lines)) >= count, deadline, lambda: self.text)

    def ask(self, number: int = signal.SIGTERM) -> None:
        os.kill(self.process.pid, number)

    def end(self, deadline: float = 30.0) -> int:
        """Wait for the launcher's end; return its exit status."""
        status = self.process.wait(deadline)
        self._reader.join(deadline)
        return status

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def run_id(self) -> str:
        return (self.home / "run" / "id").read_text()

    def living(self) -> list[int]:
        """The processes of this run that are still there."""
        return leftovers.find(self.run_id)

    def index(self, text: str) -> int:
        return next(number for number, line in enumerate(self.lines) if text in line)


def poll(condition: Callable[[], object], deadline: float, said: Callable[[], str]) -> None:
    """Look until `condition` holds; fail with what `said` returns after `deadline` seconds."""
    patience = Patience(deadline)
    while not condition():
        if patience.is_over():
            pytest.fail(f"not within {deadline} s; the output:\n{said()}")
        time.sleep(0.02)


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Callable[..., Launched]]:
    started: list[Launched] = []

    def start(services: str, *, listen: bool = True) -> Launched:
        started.append(Launched(tmp_path / f"home{len(started)}", services, listen=listen))
        return started[-1]

    yield start
    for launched in started:
        if launched.process.poll() is None:
            launched.process.kill()
            launched.process.wait()
        if (launched.home / "run" / "id").exists():
            leftovers.end(launched.run_id)
