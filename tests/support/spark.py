"""A real Spark beyond this process, from the installed PySpark: a standalone master with a worker.

Both bound to 127.0.0.1, on free ports, with little memory, without our settings and secrets in their environment.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from analytics import jvm
from analytics.java import find_java
from tests.support.product import free_ports

START_SECONDS = 120
SPARK_HOME = Path(pyspark.__file__).parent
ROOT = Path(__file__).parents[2]
_EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


@dataclass
class SparkProgram:
    """One program of Spark in the foreground of a process of its own."""

    arguments: list[str]
    port: int
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    _process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        return self.folder / f"{self.port}.log"

    def start(self) -> None:
        """Start it and wait until its port answers."""
        environment = {name: os.environ[name] for name in jvm.INHERITED if name in os.environ} | {
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "JAVA_HOME": str(find_java(self.folder)),
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(ROOT),
        }
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.arguments, stdout=log, stderr=log, cwd=self.folder, env=environment | self.environment
            )
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise AssertionError(f"Spark did not start:\n{self.log.read_text()[-3000:]}")
            time.sleep(0.1)

    def kill(self) -> None:
        """End it at once, as a machine that loses its power would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def children(self) -> list[int]:
        """Process ids of what it has started and what runs still."""
        if self._process is None:
            return []
        threads = Path(f"/proc/{self._process.pid}/task").iterdir()
        return [int(pid) for thread in threads for pid in (thread / "children").read_text().split()]

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1):
                return True
        except OSError:
            return False


def _command(pid: int) -> list[str]:
    """The command line of a process; empty for one that has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    return []


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="gantry-spark-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True)
class StandaloneCluster:
    """A master, and a worker whose executors share two cores and 1 GB."""

    url: str
    worker: SparkProgram

    def executors(self) -> list[int]:
        """Process ids of the executors that run now.

        The worker may have another child: the shell that `spark-class` asked for the command of Java, when it had not
        ended by the time that script became Java. Nobody ever waits for it.
        """
        return [pid for pid in self.worker.children() if _EXECUTOR in _command(pid)]


@contextmanager
def standalone_cluster() -> Iterator[StandaloneCluster]:
    """A master and a worker, which end with the block, and their executors with them."""
    port, page, worker, worker_page = free_ports(4)
    with _folder() as folder, ExitStack() as stack:
        deploy, spark_class = "org.apache.spark.deploy", str(SPARK_HOME / "bin" / "spark-class")
        url = f"spark://127.0.0.1:{port}"
        programs = [
            (port, [f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(page)]),
            (
                worker,
                [
                    *(f"{deploy}.worker.Worker", "--host", "127.0.0.1", "--port", str(worker)),
                    *("--webui-port", str(worker_page), "--cores", "2", "--memory", "1g"),
                    *("--work-dir", str(folder / "work"), url),
                ],
            ),
        ]
        for listening, arguments in programs:
            program = SparkProgram(
                [spark_class, *arguments], listening, folder, {"SPARK_DAEMON_MEMORY": "256m", "SPARK_NO_DAEMONIZE": "1"}
            )
            program.start()
            stack.callback(program.kill)
        yield StandaloneCluster(url, program)
