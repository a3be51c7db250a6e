"""The web server as the launcher starts it, alone: granian on a free port, with a home and a database of its own."""

from __future__ import annotations

import http.client
import os
import shutil
import socket
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from launcher import config, plan, secrets
from tests.support import processes
from tests.support.product import free_ports
from tests.support.redis_server import RedisServer

START_SECONDS = 60
#: Whence `is_well` asks. Tests open connections from 127.0.0.1, and what is too much of those is closed.
BYSTANDER = "127.0.0.2"


@dataclass
class WebServer:
    """A running server."""

    port: int
    home: Path
    log: Path
    process: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pids(self) -> list[int]:
        """Its processes."""
        return [self.process.pid, *processes.children(self.process.pid)]

    def connect(self, text: bytes = b"", *, timeout: float = 60) -> socket.socket:
        """A connection on which `text` was sent."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=timeout)
        connection.sendall(text)
        return connection

    def is_well(self) -> bool:
        """True when `/healthz` is answered with 200 within ten seconds to somebody at another address."""
        asking = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10, source_address=(BYSTANDER, 0))
        with closing(asking), suppress(OSError, http.client.HTTPException):
            asking.request("GET", "/healthz")
            return asking.getresponse().status == 200
        return False

    def held_files(self) -> int:
        """Bytes of the files without a name that its processes hold: what Django spools a body to."""
        return sum(_held_bytes(pid) for pid in self.pids)


@contextmanager
def web_server(redis: RedisServer, kill_after_s: int | None = None, **environment: str) -> Iterator[WebServer]:
    """Serve on an empty database that has all tables. Environment values are given by keyword, lower or upper case.

    With `kill_after_s` granian waits for so long, and not as the launcher tells it, until it kills what does not end.
    """
    home = Path(tempfile.mkdtemp(prefix="gantry-web-"))
    port, figures_port = free_ports(2)
    given = {"GANTRY_HOME": str(home), "REDIS_URL": redis.url, "GANTRY_WEB_PORT": str(port)}
    given["GANTRY_CONSOLE_METRICS_PORT"] = str(figures_port)
    given |= {name.upper(): value for name, value in environment.items()}
    wanted = config.read(given)
    secrets.draw(home / "secrets")
    plan.figures_folder(wanted).mkdir(parents=True)
    _copy_tables(home / "console.sqlite3")
    web = next(service for service in plan.services(wanted) if service.name == "web")
    command = list(web.command)
    if kill_after_s is not None:
        command[command.index("--workers-kill-timeout") + 1] = str(kill_after_s)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("GANTRY_", "DATABASE_"))}
    log = home / "web.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, env=plan.environment(wanted, inherited | given), cwd=config.ROOT, stdout=file, stderr=file
        )
    server = WebServer(port, home, log, process)
    try:
        deadline = time.monotonic() + START_SECONDS
        while not server.is_well():
            if process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the web server did not start:\n{log.read_text()[-3000:]}")
            time.sleep(0.05)
        yield server
    finally:
        processes.end(process)
        shutil.rmtree(home, ignore_errors=True)


def _copy_tables(file: Path) -> None:
    """The tables of the tests' own database; what a test has not committed is not in it."""
    with (
        closing(sqlite3.connect(f"file:{settings.DATABASES['default']['NAME']}?mode=ro", uri=True)) as ours,
        closing(sqlite3.connect(file)) as theirs,
    ):
        ours.backup(theirs)


def _held_bytes(pid: int) -> int:
    total = 0
    for link in Path(f"/proc/{pid}/fd").glob("*"):
        with suppress(OSError):
            if os.readlink(link).endswith(" (deleted)"):
                total += link.stat().st_size
    return total
