"""A real MariaDB on a free port of 127.0.0.1, with a binary log, for tests of change capture."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pymysql
import pytest

from analytics.inflow.mysql_server import Address
from tests.support.needs import need_tool
from tests.support.product import free_ports

START_SECONDS = 60
PASSWORD = "given-to-tests"
_UNPRIVILEGED = ("mysql", "nobody")
#: What capture wants of a server; each can be said otherwise.
SETTINGS = {
    "log-bin": "mysql-bin",
    "server-id": "1",
    "binlog-format": "ROW",
    "binlog-row-image": "FULL",
    "binlog-row-metadata": "FULL",
    "character-set-server": "utf8mb4",
    "log-slave-updates": "ON",
}


class MariaDbServer:
    """One server with its data in `folder`, which outlives `kill` and `stop`. `root` may do everything."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder = folder
        self.log = folder / "mariadb.log"
        # None that anybody is given while the server is away.
        (self.port,) = free_ports(1)
        self._settings = SETTINGS | {name.replace("_", "-"): value for name, value in settings.items()}
        self._process: subprocess.Popen[bytes] | None = None
        self._as_user = _unprivileged() if os.geteuid() == 0 else {}

    def address(self, user: str = "root", password: str = PASSWORD, **options: Any) -> Address:
        """The server's address for an account."""
        return Address("127.0.0.1", self.port, user, password, **options)

    def start(self, **settings: str) -> None:
        """Make the data folder unless it is there, start the server, and wait until it answers."""
        self._settings |= {name.replace("_", "-"): value for name, value in settings.items()}
        if not (self.folder / "data").exists():
            self._install()
        command = [
            str(_server()),
            "--no-defaults",
            *self._own(),
            *(f"--{k}={v}" for k, v in self._settings.items() if v),
        ]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder, **self._as_user)
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise AssertionError(f"MariaDB did not start:\n{self.log.read_text()[-3000:]}")
            time.sleep(0.05)

    def connect(self, database: str | None = None) -> Any:
        """A connection as root."""
        return pymysql.connect(
            host="127.0.0.1",
            port=self.port,
            user="root",
            password=PASSWORD,
            database=database,
            charset="utf8mb4",
            autocommit=True,
        )

    def run(self, *statements: str, database: str | None = None) -> list[tuple[Any, ...]]:
        """Run statements one by one; the rows of the last."""
        with self.connect(database) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall())

    def kill(self) -> None:
        """End it at once, as a crash would."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it in order."""
        self._end(signal.SIGTERM)

    def _end(self, number: int) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def _own(self) -> list[str]:
        return [
            f"--datadir={self.folder / 'data'}", f"--socket={self.folder / 'm.sock'}", f"--port={self.port}",
            "--bind-address=127.0.0.1", f"--pid-file={self.folder / 'm.pid'}", "--skip-name-resolve",
            "--innodb-flush-log-at-trx-commit=0", "--sync-binlog=0", "--innodb-buffer-pool-size=32M",
            "--innodb-log-file-size=32M", "--performance-schema=OFF", "--max-allowed-packet=256M",
        ]  # fmt: skip

    def _install(self) -> None:
        if self._as_user:
            os.chown(self.folder, self._as_user["user"], self._as_user["group"])
        command = [
            str(need_tool("mariadb-install-db")), "--no-defaults", f"--datadir={self.folder / 'data'}",
            "--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve",
            "--innodb-log-file-size=32M",
        ]  # fmt: skip
        done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=self.folder, **self._as_user)
        assert done.returncode == 0, done.stdout + done.stderr
        start = self.folder / "first.sql"
        start.write_text(  # a statement is a line
            "FLUSH PRIVILEGES;\n"
            f"CREATE OR REPLACE USER root@'127.0.0.1' IDENTIFIED BY '{PASSWORD}';\n"
            "GRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;\n"
        )
        with start.open("rb") as given:
            boot = [str(_server()), "--no-defaults", *self._own(), "--bootstrap"]
            done = subprocess.run(
                boot, check=False, stdin=given, capture_output=True, text=True, cwd=self.folder, **self._as_user
            )
        assert done.returncode == 0, done.stdout + done.stderr

    def _answers(self) -> bool:
        try:
            self.connect().close()
        except pymysql.MySQLError:
            return False
        return True


def _server() -> Path:
    usual = Path("/usr/sbin/mariadbd")  # not on the PATH of who is not root
    return usual if usual.exists() else need_tool("mariadbd")


def _unprivileged() -> dict[str, Any]:
    for name in _UNPRIVILEGED:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    raise AssertionError(f"there is no user {' or '.join(_UNPRIVILEGED)}")


@contextmanager
def mariadb_server(**settings: str) -> Iterator[MariaDbServer]:
    """A running server whose folder is removed afterwards; a setting of "" leaves it out."""
    _server()
    folder = Path(tempfile.mkdtemp(prefix="gantry-my-"))  # short: a socket's path has at most 107 bytes
    server = MariaDbServer(folder, **settings)
    try:
        server.start()
        yield server
    finally:
        server.kill()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDbServer]:
    """One server for the whole run."""
    with mariadb_server() as server:
        yield server
