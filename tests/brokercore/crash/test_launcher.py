"""As `make up` runs it: the launcher starts again what is killed, and clients go on by themselves."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from brokercore.client import Admin, Credentials
from tests.brokercore.crash.figures import judge
from tests.brokercore.crash.records import PATIENCE_SECONDS, Client
from tests.support.broker import ROOT, eventually
from tests.support.processes import children
from tests.support.product import free_ports


class Copy:
    """A launcher with its Redis and its broker."""

    def __init__(self, home: Path) -> None:
        self.home = home
        namesrv, broker, grpc = free_ports(3)
        self.namesrv = f"127.0.0.1:{namesrv}"
        environ = {name: value for name, value in os.environ.items() if not name.startswith("GANTRY_")}
        environ |= {
            "GANTRY_HOME": str(home), "GANTRY_NAMESRV_PORT": str(namesrv), "GANTRY_BROKER_PORT": str(broker),
            "GANTRY_GRPC_PORT": str(grpc), "GANTRY_APPENDFSYNC": "always",
        }  # fmt: skip
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.brokercore.crash.launched"], cwd=ROOT, env=environ,
            stdout=(home / "out").open("w"), stderr=subprocess.STDOUT,
        )  # fmt: skip

    @property
    def said(self) -> str:
        return (self.home / "out").read_text()

    @property
    def keys(self) -> tuple[str, str]:
        folder = self.home / "secrets"
        return tuple((folder / f"broker_access_key_{part}").read_text().strip() for part in ("id", "secret"))  # type: ignore[return-value]

    def kill(self, word: str) -> None:
        """Kill the one service whose command line holds a word, and wait until the launcher has it back."""
        before = self.said.count("is ready again")
        lines = {pid: Path(f"/proc/{pid}/cmdline").read_text() for pid in children(self.process.pid)}
        (pid,) = [pid for pid, line in lines.items() if word in line]
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: self.said.count("is ready again") > before, PATIENCE_SECONDS)


@pytest.fixture
def copy() -> Iterator[Copy]:
    home = Path(tempfile.mkdtemp(prefix="gantry-copy-"))
    copy = Copy(home)
    try:
        eventually(lambda: "all ready" in copy.said or copy.process.poll() is not None, PATIENCE_SECONDS)
        assert "all ready" in copy.said, copy.said
        yield copy
    finally:
        copy.process.terminate()
        copy.process.wait(30)
        shutil.rmtree(home)


def test_the_launcher_brings_back_what_is_killed_and_clients_go_on(copy: Copy) -> None:
    with Admin(copy.namesrv, Credentials(*copy.keys)) as admin:
        admin.create_topic("launched", queues=4)
        admin.create_group("GID_launched")
    clients = [Client(copy.namesrv, role, "launched", group="GID_launched", keys=copy.keys)
               for role in ("produce", "consume")]  # fmt: skip
    producer, consumer = clients
    try:
        for word in ("brokercore", "unixsocket", "brokercore"):
            producer.wait_for_more("acknowledged", 100)
            copy.kill(word)
        producer.wait_for_more("acknowledged", 100)
        producer.finish()
        judge("make up: broker, Redis, broker killed", producer.bodies("sent"), producer.bodies("acknowledged"),
              consumer, most_deliveries=5)  # fmt: skip
    finally:
        for client in clients:
            client.close()
