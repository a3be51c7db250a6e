"""A whole running copy of the product, started as a user starts it, on ports and a home of its own."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tests.support.patience import Patience

ROOT = Path(__file__).resolve().parents[2]
PORTS = (
    "GANTRY_WEB_PORT", "GANTRY_NAMESRV_PORT", "GANTRY_BROKER_PORT", "GANTRY_GRPC_PORT", "GANTRY_SQL_PORT",
    "GANTRY_SMQ_PORT", "GANTRY_DEMO_PORT", "GANTRY_CONSOLE_METRICS_PORT",
)  # fmt: skip
#: Stretches every deadline on a slow machine.
SLOWNESS = float(os.environ.get("GANTRY_TEST_SLOWNESS", "1"))
#: None that the system gives to whoever wants any port: it would give one away before it is used, to another suite.
_DRAWN_FROM = range(10_000, 20_000)
#: Not seeded: each suite draws others.
_draw = random.SystemRandom()
T = TypeVar("T")


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now, all of them different."""
    found: list[int] = []
    for port in _draw.sample(_DRAWN_FROM, len(_DRAWN_FROM)):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            return found
    raise AssertionError(f"none of the ports {_DRAWN_FROM[0]} to {_DRAWN_FROM[-1]} is free")


def eventually(probe: Callable[[], T], *, seconds: float = 30.0, every: float = 0.2, what: str = "") -> T:
    """The first true answer of `probe`; fails after `seconds` with the last answer."""
    patience = Patience(seconds * SLOWNESS, every)
    while True:
        answer = probe()
        if answer:
            return answer
        if patience.is_over():
            raise AssertionError(f"not within {seconds} s: {what or probe}; the last answer was {answer!r}")
        time.sleep(every)


@dataclass
class Product:
    """`make up` without make: the launcher with an environment of its own."""

    home: Path
    environ: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None
    started_in: float = 0.0
    root: Path = ROOT
    """Where its program lies, and which Python runs it: another release has others."""
    python: Path = Path(sys.executable)

    def __post_init__(self) -> None:
        ports = dict(zip(PORTS, map(str, free_ports(len(PORTS))), strict=True))
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("GANTRY_") and k != "REDIS_URL"}
        # A database beside each copy would only take the processors; who wants one says so. And the port two below the
        # broker's may be somebody else's of this run.
        own = {"GANTRY_HOME": str(self.home), "GANTRY_DEMO": "false", "GANTRY_VIP_CHANNEL": "off"}
        self.environ = inherited | ports | own | self.environ

    @property
    def output(self) -> Path:
        return self.home.parent / f"{self.home.name}.out"

    @property
    def demo(self) -> dict[str, Any]:
        """The content of demo.json."""
        return dict(json.loads((self.home / "demo.json").read_text()))

    def start(self, *, seconds: float = 600.0) -> Product:
        """Start and wait until the banner says that all is ready."""
        began = time.monotonic()
        with self.output.open("ab") as stream:
            offset = stream.tell()
            self.process = subprocess.Popen(
                [self.python, "-m", "launcher", "up"], cwd=self.root, env=self.environ, stdout=stream, stderr=stream
            )
        try:
            eventually(lambda: self._ready(offset), seconds=seconds, what="Gantry is ready")
        except AssertionError as error:
            raise AssertionError(f"{error}; it had printed:\n{self.tail()}") from None
        self.started_in = time.monotonic() - began
        return self

    def _ready(self, offset: int) -> bool:
        text = self.output.read_bytes()[offset:].decode(errors="replace")
        if self.process is None or self.process.poll() is not None:
            raise AssertionError(f"the copy ended with {self.process and self.process.returncode} while it started")
        return "Gantry is ready" in text

    def stop(self, how: signal.Signals = signal.SIGTERM) -> float:
        """Stop and return the seconds it took; a copy that does not end in time is a failure."""
        process = self.process
        if process is None:
            return 0.0
        began = time.monotonic()
        process.send_signal(how)
        try:
            process.wait(30 * SLOWNESS)
        except subprocess.TimeoutExpired:
            process.kill()
            raise AssertionError(f"the copy did not end:\n{self.tail()}") from None
        self.process = None
        return time.monotonic() - began

    def pid_of(self, words: str) -> int:
        """The process of this copy whose command line contains `words`."""
        found = [pid for pid, line in self.processes().items() if words in line]
        if not found:
            raise AssertionError(f"no process with {words!r} in {self.processes()}")
        return min(found)

    def processes(self) -> dict[int, str]:
        """Every living process that has this copy's home in its environment, by pid."""
        mark = f"GANTRY_HOME={self.home}".encode()
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                    found[int(folder.name)] = line
            except OSError:
                continue
        return {pid: line for pid, line in found.items() if line and pid != os.getpid()}

    def manage(self, *arguments: str, seconds: float = 60.0) -> subprocess.CompletedProcess[str]:
        """Run a management command with this copy's environment."""
        return subprocess.run(
            [self.python, "-m", "launcher", "run", "manage.py", *arguments],
            cwd=self.root,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=seconds * SLOWNESS,
            check=False,
        )

    def files(self) -> Iterator[Path]:
        """Every file below its home. The copy goes on meanwhile, so that any of them may be gone when it is read."""
        for folder, _, names in os.walk(self.home):  # unlike `rglob` it passes over folders that go while it looks
            yield from (Path(folder, name) for name in names)

    def contents(self) -> Iterator[tuple[Path, bytes]]:
        """What it printed, and every file below its home that is still there when its turn comes."""
        for file in (self.output, *self.files()):
            with suppress(FileNotFoundError):
                if file.is_file():
                    yield file, file.read_bytes()

    def tail(self, characters: int = 6000) -> str:
        """The end of what the copy printed."""
        return self.output.read_text(errors="replace")[-characters:]
