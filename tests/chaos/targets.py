"""Which processes the running copy has, by the launcher's own plan and marks, and how each shows that it is well."""

from __future__ import annotations

import contextlib
import re
import socket
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from launcher import config, leftovers, plan
from tests.support.processes import children
from tests.support.product import Product
from tests.support.sql_client import SqlClient

#: Processes that the launcher does not know as services, but starts or lets its services start.
LAUNCHER, GUARD, JVM, WEB_CHILD = "launcher", "guard", "Spark JVM", "web worker"

#: The JVM of SQL jobs, which there is once there is a job.
JOBS_JVM = "JVM of jobs"
_JVMS = {JVM: "spark", JOBS_JVM: "pipelines"}

#: Seconds that a probe waits for an answer.
ANSWER_SECONDS = 10.0

_MARK = re.compile(rb"(?:^|\0)" + leftovers.MARK.encode() + rb"=[^\0:]*:([^\0;]*);")


class Process(NamedTuple):
    """A process and when it began: an id is given out again."""

    pid: int
    began: str


class Targets:
    """The processes of one copy that is started with `GANTRY_METRICS_PORT`."""

    def __init__(self, product: Product) -> None:
        self.product = product
        self._config = config.read(product.environ)
        self._services = {service.name: service for service in plan.services(self._config) if service.ready}

    @property
    def names(self) -> list[str]:
        """All that can be harmed but the launcher and its guard."""
        return [*self._services, JVM, WEB_CHILD]

    def find(self, name: str) -> Process | None:
        """The process that bears the name now; between two there is none."""
        with contextlib.suppress(OSError):  # a process may end while it is looked at
            pid = self._pid(name)
            return Process(pid, _stat(pid)[19]) if pid is not None else None
        return None

    def well(self, name: str) -> bool:
        """Whether the process answers: its own health where it has one, what the launcher waits for where not."""
        if name == LAUNCHER:
            return all(self.find(other) and self.well(other) for other in (GUARD, *self.names))
        if name == GUARD:
            return self.find(GUARD) is not None
        if name in _JVMS:
            return self.find(name) is not None and self.well(_JVMS[name])
        service = self._services["web" if name == WEB_CHILD else name]
        if service.ready_file is not None:
            return service.ready_file.exists()
        return self._probes[service.name]()

    @property
    def _probes(self) -> dict[str, Callable[[], bool]]:
        web, metrics = (self._config.ports[f"GANTRY_{name}_PORT"] for name in ("WEB", "METRICS"))
        queues = self._config.ports["GANTRY_SMQ_PORT"]
        return {
            "redis": self._redis_answers,
            "broker": lambda: _is_ok(metrics),
            "web": lambda: _is_ok(web),
            "sql": self._door_lets_in,
            "smq": lambda: _is_ok(queues),
        }

    def _pid(self, name: str) -> int | None:
        launcher = self.product.process
        if launcher is None or launcher.poll() is not None:
            return None
        if name == LAUNCHER:
            return launcher.pid
        if name in (*_JVMS, WEB_CHILD):
            parent = self._pid(_JVMS.get(name, "web"))
            found = [pid for pid in children(parent) if name not in _JVMS or _comm(pid) == "java"] if parent else []
        elif name == GUARD:
            found = [pid for pid in _direct(launcher.pid) if b"launcher.guard" in _command(pid)]
        elif name == "redis":
            # Its title has wiped the launcher's mark out of its environment.
            wanted = f"unixsocket:{self._config.redis_socket}".encode()
            found = [pid for pid in _direct(launcher.pid) if wanted in _command(pid)]
        else:
            found = [pid for pid in _direct(launcher.pid) if _marked(pid) == name]
        living = [pid for pid in found if _stat(pid)[0] not in "ZX"]
        return living[0] if living else None

    def _redis_answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as connection:
            try:
                connection.settimeout(ANSWER_SECONDS)
                connection.connect(str(self._config.redis_socket))
                connection.sendall(b"PING\r\n")
                return connection.recv(64).startswith(b"+PONG")
            except OSError:
                return False

    def _door_lets_in(self) -> bool:
        import pymysql

        try:
            with SqlClient(self.product.demo, timeout=ANSWER_SECONDS):
                return True
        except (pymysql.err.Error, OSError):
            return False


def _is_ok(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=ANSWER_SECONDS) as answer:
            return bool(answer.status == 200)
    except OSError:  # also a status that is none of 2xx
        return False


def _marked(pid: int) -> str:
    found = _MARK.search(Path(f"/proc/{pid}/environ").read_bytes())
    return found[1].decode() if found else ""


def _command(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def _comm(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def _direct(pid: int) -> list[int]:
    return [int(child) for task in Path(f"/proc/{pid}/task").glob("*/children") for child in task.read_text().split()]


def _stat(pid: int) -> list[str]:
    """The fields of /proc/<pid>/stat after the name: the state first, the time of the start as the 20th."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
