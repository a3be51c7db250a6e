"""As `make up` runs it: the launcher starts again what is killed, and clients go on by themselves."""

from __future__ import annotations

import contextlib
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
        self._environ = {name: value for name, value in os.environ.items() if not name.startswith("GANTRY_")}
        self._environ |= {
            "GANTRY_HOME": str(home), "GANTRY_NAMESRV_PORT": str(namesrv), "GANTRY_BROKER_PORT": str(broker),
            "GANTRY_GRPC_PORT": str(grpc), "GANTRY_APPENDFSYNC": "always",
        }  # fmt: skip
        self.out = home.with_name(f"{home.name}.out")

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run another command of the launcher on this home."""
        return subprocess.run(
            [sys.executable, "-m", "launcher", *arguments], cwd=ROOT, env=self._environ,
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    def start(self) -> None:
        """Start the launcher; `said` begins anew."""
        with self.out.open("w") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.brokercore.crash.launched"], cwd=ROOT, env=self._environ,
                stdout=out, stderr=subprocess.STDOUT,
            )  # fmt: skip

    def wait_until_ready(self) -> None:
        """Wait until Redis and broker are; fail with what the launcher said when it ended instead."""
        eventually(lambda: "all ready" in self.said or self.process.poll() is not None, PATIENCE_SECONDS)
        assert "all ready" in self.said, self.said

    @property
    def said(self) -> str:
        return self.out.read_text()

    @property
    def keys(self) -> tuple[str, str]:
        folder = self.home / "secrets"
        return tuple((folder / f"broker_access_key_{part}").read_text().strip() for part in ("id", "secret"))  # type: ignore[return-value]

    def redis_processes(self) -> list[int]:
        """Every process that listens on, or runs with, this copy's socket of Redis: one, or none between two."""
        socket = str(self.home / "run" / "redis.sock")
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if f"unixsocket:{socket}" in (folder / "cmdline").read_text():
                    found.append(int(folder.name))
        return found

    def kill(self, word: str) -> None:
        """Kill the one service whose command line holds a word, and wait until the launcher has it back."""
        before = self.said.count("is ready again")
        lines = {pid: Path(f"/proc/{pid}/cmdline").read_text() for pid in children(self.process.pid)}
        (pid,) = [pid for pid, line in lines.items() if word in line]
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: self.said.count("is ready again") > before, PATIENCE_SECONDS)


@pytest.fixture
def copy() -> Iterator[Copy]:
    with copied(Path(tempfile.mkdtemp(prefix="gantry-copy-"))) as copy:
        yield copy


@contextlib.contextmanager
def copied(home: Path, archive: Path | None = None) -> Iterator[Copy]:
    """A running copy, of what an archive holds if one is given."""
    copy = Copy(home)
    try:
        if archive is not None:
            done = copy.command("restore", str(archive))
            assert done.returncode == 0, done.stderr
        copy.start()
        copy.wait_until_ready()
        yield copy
    finally:
        copy.process.terminate()
        copy.process.wait(30)
        for pid in copy.redis_processes():
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(home)
        copy.out.unlink()


def test_the_launcher_brings_back_what_is_killed_and_clients_go_on(copy: Copy) -> None:
    with Admin(copy.namesrv, Credentials(*copy.keys)) as admin:
        admin.topics.create("launched", queues=4)
        admin.groups.create("GID_launched")
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


def test_a_launcher_killed_20_times_under_load_loses_nothing_and_never_has_two_stores(copy: Copy) -> None:
    with Admin(copy.namesrv, Credentials(*copy.keys)) as admin:
        admin.topics.create("survivor", queues=4)
        admin.groups.create("GID_survivor")
    producer = Client(copy.namesrv, "produce", "survivor", threads=4, pause=0.002, keys=copy.keys)
    consumer = Client(copy.namesrv, "consume", "survivor", group="GID_survivor", keys=copy.keys)
    try:
        for _ in range(20):
            producer.wait_for_more("acknowledged", 50)
            copy.process.kill()
            copy.process.wait()
            copy.start()
            copy.wait_until_ready()
            assert len(copy.redis_processes()) == 1
        producer.wait_for_more("acknowledged", 50)
        producer.finish()
        judge("launcher killed 20 times", producer.bodies("sent"), producer.bodies("acknowledged"),
              consumer, most_deliveries=25)  # fmt: skip
    finally:
        for client in (producer, consumer):
            client.close()


def test_a_backup_under_load_has_every_message_that_was_acknowledged_before(copy: Copy, tmp_path: Path) -> None:
    with Admin(copy.namesrv, Credentials(*copy.keys)) as admin:
        admin.topics.create("saved", queues=4)
        admin.groups.create("GID_saved")
    producer = Client(copy.namesrv, "produce", "saved", threads=4, keys=copy.keys)
    archive = tmp_path / "kept.tar.gz"
    try:
        producer.wait_for_more("acknowledged", 500)
        before = producer.bodies("acknowledged")
        done = copy.command("backup", str(archive))
        assert done.returncode == 0, done.stderr
        producer.wait_for_more("acknowledged", 100)
        producer.finish()
    finally:
        producer.close()
    with copied(home=Path(tempfile.mkdtemp(prefix="gantry-copy-")), archive=archive) as restored:
        consumer = Client(restored.namesrv, "consume", "saved", group="GID_saved", keys=restored.keys)
        try:
            judge("restored from a backup under load", before, before, consumer)
        finally:
            consumer.close()
