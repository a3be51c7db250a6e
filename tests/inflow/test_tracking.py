"""From a change tracking task to events in its log, by the real process and with real databases."""

from __future__ import annotations

import dataclasses
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, connections
from pytest_django import Settings

from analytics import lake
from analytics.inflow import source as sources
from analytics.inflow.event_reader import Reader
from console.accounts import services as accounts
from console.accounts.actor import Actor
from console.accounts.models import Organization
from console.rights import access_table
from console.tracking import services
from console.tracking.models import Kind, State, TrackingTask
from tests.inflow.databases import LISTENS, PASSWORD, listening_postgres, run
from tests.inflow.mysql_reading import new_database
from tests.support.mariadb import PASSWORD as ROOTS_PASSWORD
from tests.support.mariadb import MariaDbServer, mariadb_server
from tests.support.patience import Patience
from tests.support.postgres import PostgresServer

pytestmark = [pytest.mark.process, pytest.mark.postgres]
ROOT = Path(__file__).resolve().parents[2]
WAIT_S = 25


class Capturing:
    """`manage.py tracking` on the test's database."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "manage.py", "tracking", "--skip-checks"],
            cwd=ROOT,
            text=True,
            env=os.environ | {"DATABASE_URL": f"sqlite:///{connection.settings_dict['NAME']}"},
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready tracking\n"

    def send(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def end(self, number: int = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(20)
            self._process = None


@pytest.fixture
def capturing() -> Iterator[Capturing]:
    process = Capturing()
    yield process
    process.end(signal.SIGKILL)


@pytest.fixture
def alice(transactional_db: None, monkeypatch: pytest.MonkeyPatch, settings: Settings) -> Iterator[Actor]:
    monkeypatch.setattr(access_table, "publish", lambda: False)
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    organization = Organization.objects.create(name="all")
    actor = Actor(accounts.create_tenant(name="acme", organization=organization, password="Correct-horse-7"))
    yield actor
    connections.close_all()


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    """A server that listens on the loopback and asks for passwords."""
    with listening_postgres() as server:
        yield server


@pytest.fixture
def orders(postgres: PostgresServer) -> Iterator[tuple[PostgresServer, str]]:
    """A database with a table `orders`, on its server."""
    name = f"shop{secrets.token_hex(4)}"
    run(postgres, f"CREATE DATABASE {name}")
    run(postgres, "CREATE TABLE orders (id int PRIMARY KEY, name text)", database=name)
    yield postgres, name
    run(
        postgres,
        "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active",
        "SELECT pg_sleep(0.3)",
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots",
        f"DROP DATABASE {name} WITH (FORCE)",
    )


def insert(server: PostgresServer, database: str, *ids: int) -> None:
    run(server, *(f"INSERT INTO orders VALUES ({one}, 'o{one}')" for one in ids), database=database)


def make(actor: Actor, place: tuple[PostgresServer, str], **more: Any) -> TrackingTask:
    server, database = place
    values: dict[str, Any] = {
        "host": "127.0.0.1", "port": server.port, "database": database, "user": "reader", "password": PASSWORD,
        "tables": ["public.*"],
    }  # fmt: skip
    return services.create(actor=actor, name="orders", kind=Kind.POSTGRESQL, **(values | more))


def make_mysql(actor: Actor, server: MariaDbServer, database: str) -> TrackingTask:
    return services.create(
        actor=actor, name="orders", kind=Kind.MYSQL, host="127.0.0.1", port=server.port, user="root",
        password=ROOTS_PASSWORD, tables=[f"{database}.*"],
    )  # fmt: skip


def until(task: TrackingTask, is_so: Callable[[TrackingTask], bool]) -> TrackingTask:
    """Wait until the row says it."""
    patience = Patience(WAIT_S, 0.1)
    while True:
        found = TrackingTask.objects.select_related("tenant").get(pk=task.pk)
        if is_so(found):
            return found
        assert not patience.is_over(), (found.state, found.code, found.sentence)
        time.sleep(0.1)


def until_normal(task: TrackingTask) -> TrackingTask:
    return until(task, lambda now: now.is_normal)


def ids(task: TrackingTask, number: int) -> list[int]:
    """The keys of the log's events, once there are so many."""
    patience = Patience(WAIT_S, 0.1)
    with Reader(task.folder) as reader:
        while reader.range().last < number:
            now = TrackingTask.objects.get(pk=task.pk)
            assert not patience.is_over(), (reader.range(), now.state, now.code, now.sentence)
            time.sleep(0.1)
        entries = reader.read(0)
    return [json.loads(entry.event)["data"]["after"]["id"] for entry in entries]


def test_changes_of_postgresql_are_kept_behind_the_rows_that_were_there(
    alice: Actor, orders: tuple[PostgresServer, str], capturing: Capturing
) -> None:
    insert(*orders, 1, 2)
    task = make(alice, orders, snapshot=True)
    capturing.start()
    until_normal(task)
    assert ids(task, 2) == [1, 2]
    insert(*orders, 3, 4)
    assert ids(task, 4) == [1, 2, 3, 4]
    told = until(task, lambda now: now.events == 4 and now.lag_bytes is not None)
    assert told.first_ms is not None and told.last_ms is not None and told.first_ms <= told.last_ms
    assert told.range().last == 4
    capturing.end()
    assert until(task, lambda now: not now.worker).state == State.NORMAL
    assert not TrackingTask.objects.get(pk=task.pk).is_normal


def test_a_killed_process_loses_nothing_and_doubles_nothing(
    alice: Actor, orders: tuple[PostgresServer, str], capturing: Capturing
) -> None:
    task = make(alice, orders)
    capturing.start()
    until_normal(task)
    for turn in range(3):
        insert(*orders, *range(turn * 20, turn * 20 + 10))
        ids(task, turn * 20 + 1)  # in the middle of them, as likely as not
        capturing.end(signal.SIGKILL)
        insert(*orders, *range(turn * 20 + 10, turn * 20 + 20))
        TrackingTask.objects.filter(pk=task.pk).update(heartbeat_at=None)  # as if the lease had ended
        capturing.start()
    assert ids(task, 60) == list(range(60))


def test_a_database_that_restarts_is_told_and_read_on(
    alice: Actor, orders: tuple[PostgresServer, str], capturing: Capturing
) -> None:
    server, _ = orders
    task = make(alice, orders)
    capturing.start()
    until_normal(task)
    insert(*orders, 1)
    ids(task, 1)
    server.stop()
    failed = until(task, lambda now: now.state == State.FAILED)
    assert failed.code == "UNREACHABLE"
    assert failed.sentence
    server.run(LISTENS)
    until_normal(task)
    insert(*orders, 2)
    assert ids(task, 2) == [1, 2]


def test_a_wrong_password_is_told_and_a_right_one_tried_at_once(
    alice: Actor, orders: tuple[PostgresServer, str], capturing: Capturing
) -> None:
    task = make(alice, orders, password="wrong-one")
    capturing.start()
    failed = until(task, lambda now: now.state == State.FAILED)
    assert failed.code == "PASSWORD_WRONG"
    assert "wrong-one" not in failed.sentence
    services.change(actor=alice, task=failed, password=PASSWORD)
    until_normal(task)


def test_a_pause_ends_the_capture_and_a_lost_slot_is_begun_anew(
    alice: Actor, orders: tuple[PostgresServer, str], capturing: Capturing
) -> None:
    server, _ = orders
    task = make(alice, orders)
    capturing.start()
    until_normal(task)
    insert(*orders, 1)
    ids(task, 1)
    until(task, lambda now: now.events == 1)
    services.pause(actor=alice, task=task)
    patience = Patience(WAIT_S, 0.1)
    drop = f"SELECT pg_drop_replication_slot('{task.slot}') FROM pg_replication_slots WHERE NOT active"
    while not run(server, drop):
        assert not patience.is_over()
        time.sleep(0.1)
    services.resume(actor=alice, task=task)
    failed = until(task, lambda now: now.state == State.FAILED)
    assert failed.code == "SLOT_LOST"
    services.resume(actor=alice, task=task, anew=True)
    until_normal(task)
    insert(*orders, 2)
    assert ids(task, 2) == [1, 2]


def test_a_slot_that_the_server_gives_up_amid_the_flow_is_told_and_begun_anew(
    alice: Actor, orders: tuple[PostgresServer, str], capturing: Capturing
) -> None:
    """The process stands still for longer than `max_slot_wal_keep_size` bears."""
    server, _ = orders
    run(server, "ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'", "SELECT pg_reload_conf()")
    try:
        task = make(alice, orders)
        capturing.start()
        until_normal(task)
        insert(*orders, 1)
        assert ids(task, 1) == [1]
        capturing.send(signal.SIGSTOP)
        insert(*orders, 2)
        patience = Patience(WAIT_S, 0.1)
        lost = f"SELECT 1 FROM pg_replication_slots WHERE slot_name = '{task.slot}' AND wal_status = 'lost'"
        while not run(server, lost):
            assert not patience.is_over()
            run(server, "CREATE TABLE IF NOT EXISTS noise (a int)", "SELECT pg_switch_wal()", "CHECKPOINT")
        capturing.send(signal.SIGCONT)
        failed = until(task, lambda now: now.code == "SLOT_LOST")
        assert failed.state == State.FAILED and "max_slot_wal_keep_size" in failed.sentence and failed.mend
        services.resume(actor=alice, task=task, anew=True)
        until_normal(task)
        insert(*orders, 3)
        assert ids(task, 2)[-1] == 3
    finally:
        run(server, "ALTER SYSTEM RESET max_slot_wal_keep_size", "SELECT pg_reload_conf()", "DROP TABLE noise")


def test_a_deleted_task_leaves_nothing(alice: Actor, orders: tuple[PostgresServer, str], capturing: Capturing) -> None:
    server, database = orders
    task = make(alice, orders)
    capturing.start()
    until_normal(task)
    insert(*orders, 1)
    ids(task, 1)
    services.delete(actor=alice, task=task)
    patience = Patience(WAIT_S, 0.1)
    while TrackingTask.objects.filter(pk=task.pk).exists():
        assert not patience.is_over()
        time.sleep(0.1)
    assert run(server, "SELECT count(*) FROM pg_replication_slots") == [(0,)]
    assert run(server, "SELECT count(*) FROM pg_publication", database=database) == [(0,)]
    assert lake.files(task.log, hidden=True) == []


@pytest.fixture(scope="module")
def own_mariadb() -> Iterator[MariaDbServer]:
    """A server that may be restarted."""
    with mariadb_server() as server:
        yield server


def test_changes_of_mariadb_are_kept_over_restarts_of_both(
    alice: Actor, own_mariadb: MariaDbServer, capturing: Capturing
) -> None:
    name = new_database(own_mariadb, "CREATE TABLE orders (id INT PRIMARY KEY, name VARCHAR(20))")
    task = make_mysql(alice, own_mariadb, name)
    capturing.start()
    until_normal(task)
    own_mariadb.run("INSERT INTO orders VALUES (1, 'a'), (2, 'b')", database=name)
    assert ids(task, 2) == [1, 2]
    capturing.end(signal.SIGKILL)
    own_mariadb.run("INSERT INTO orders VALUES (3, 'c')", database=name)
    own_mariadb.stop()
    TrackingTask.objects.filter(pk=task.pk).update(heartbeat_at=None)
    capturing.start()
    assert until(task, lambda now: now.state == State.FAILED).code == "UNREACHABLE"
    own_mariadb.start()
    until_normal(task)
    assert ids(task, 3) == [1, 2, 3]
    assert "mysql-bin" in until(task, lambda now: now.events == 3).position


def test_a_replica_that_takes_over_the_address_is_read_on_by_gtid(alice: Actor, capturing: Capturing) -> None:
    """The new server's log has other files, and the last transactions come from it alone."""
    with mariadb_server() as first, mariadb_server(server_id="2", log_bin="other-bin") as replica:
        replica.run(
            "RESET MASTER",
            "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_USER='root',"
            f" MASTER_PASSWORD='{ROOTS_PASSWORD}', MASTER_PORT={first.port}, MASTER_USE_GTID=slave_pos",
            "START SLAVE",
        )
        name = new_database(first, "CREATE TABLE orders (id INT PRIMARY KEY, name VARCHAR(20))")
        task = make_mysql(alice, first, name)
        capturing.start()
        until_normal(task)
        first.run("INSERT INTO orders VALUES (1, 'a')", "INSERT INTO orders VALUES (2, 'b'), (3, 'c')", database=name)
        assert ids(task, 3) == [1, 2, 3]
        end = first.run("SELECT @@gtid_binlog_pos")[0][0]
        assert replica.run(f"SELECT MASTER_GTID_WAIT('{end}', 30)")[0][0] == 0
        first.kill()
        assert until(task, lambda now: now.state == State.FAILED).code == "UNREACHABLE"
        replica.run("STOP SLAVE", "RESET SLAVE ALL", f"INSERT INTO {name}.orders VALUES (4, 'd')")
        replica.stop()
        replica.port = first.port
        replica.start()
        until_normal(task)
        replica.run("INSERT INTO orders VALUES (5, 'e')", database=name)
        assert ids(task, 5) == [1, 2, 3, 4, 5]
        assert until(task, lambda now: now.events == 5).position.startswith("other-bin.")


def test_a_log_that_was_purged_meanwhile_is_told_and_begun_anew(
    alice: Actor, own_mariadb: MariaDbServer, capturing: Capturing
) -> None:
    name = new_database(own_mariadb, "CREATE TABLE orders (id INT PRIMARY KEY, name VARCHAR(20))")
    task = make_mysql(alice, own_mariadb, name)
    capturing.start()
    until_normal(task)
    own_mariadb.run("INSERT INTO orders VALUES (1, 'a')", database=name)
    assert ids(task, 1) == [1]
    capturing.end()
    own_mariadb.run("INSERT INTO orders VALUES (2, 'b')", "FLUSH BINARY LOGS", database=name)
    own_mariadb.run("INSERT INTO orders VALUES (3, 'c')", "FLUSH BINARY LOGS", database=name)
    patience = Patience(WAIT_S, 0.1)
    while len(own_mariadb.run("SHOW BINARY LOGS")) > 1:  # what the server itself still needs stays a while
        assert not patience.is_over(), own_mariadb.run("SHOW PROCESSLIST")
        own_mariadb.run(f"PURGE BINARY LOGS TO '{own_mariadb.run('SHOW MASTER STATUS')[0][0]}'")
    capturing.start()
    failed = until(task, lambda now: now.state == State.FAILED)
    assert (failed.code, failed.mend) == ("LOG_PURGED", "SET GLOBAL binlog_expire_logs_seconds = 604800")
    services.resume(actor=alice, task=task, anew=True)
    until_normal(task)
    own_mariadb.run("INSERT INTO orders VALUES (4, 'd')", database=name)
    assert ids(task, 2) == [1, 4]


def test_a_check_tells_all_that_is_wrong_at_once_and_leaves_nothing(orders: tuple[PostgresServer, str]) -> None:
    server, database = orders
    run(server, "CREATE TABLE keyless (a int)", database=database)
    run(server, "DROP ROLE IF EXISTS poor", "CREATE ROLE poor LOGIN PASSWORD 'poor-one'")
    poor = sources.Source(
        kind="postgresql", host="localhost", address="127.0.0.1", port=server.port, user="poor", password="poor-one",
        name="gantry_dtscheck", database=database,
    )  # fmt: skip
    found = sources.check(poor, ["public.keyless", "public.orders", "public.missing"])
    told = [(one.code, one.mend.split(" ON ")[0].split(" REPL")[0]) for one in found]
    assert ("RIGHT_MISSING", 'ALTER ROLE "poor"') in told
    assert [code for code, _ in told].count("RIGHT_MISSING") == 3
    assert "NO_TABLE" in {code for code, _ in told}
    reader = dataclasses.replace(poor, user="reader", password=PASSWORD)
    assert [one.code for one in sources.check(reader, ["public.keyless"])] == ["NO_IDENTITY"]
    owner = dataclasses.replace(poor, user="owner", password="its-own")
    run(server, "DROP ROLE IF EXISTS owner", "CREATE ROLE owner REPLICATION LOGIN PASSWORD 'its-own'")
    run(server, "GRANT SELECT ON orders TO owner", database=database)
    (only,) = sources.check(owner, ["public.orders"])
    assert only.code == "RIGHT_MISSING"
    assert only.mend.startswith("CREATE PUBLICATION")
    assert sources.check(reader, ["public.*"]) == []
    assert run(server, "SELECT count(*) FROM pg_publication", database=database) == [(0,)]
    assert run(server, "SELECT count(*) FROM pg_replication_slots") == [(0,)]
    wrong = dataclasses.replace(reader, password="wrong")
    assert [one.code for one in sources.check(wrong, ["public.*"])] == ["PASSWORD_WRONG"]
    run(server, "REASSIGN OWNED BY poor, owner TO gantry", "DROP OWNED BY poor, owner", database=database)


def test_a_server_of_mysql_is_reached_by_the_address_that_was_judged(own_mariadb: MariaDbServer) -> None:
    name = new_database(own_mariadb, "CREATE TABLE orders (id INT PRIMARY KEY)")
    source = sources.Source(
        kind="mysql", host="db.invalid", address="127.0.0.1", port=own_mariadb.port, user="root",
        password=ROOTS_PASSWORD, name="gantry_dtscheck",
    )  # fmt: skip
    assert sources.check(source, [f"{name}.*"]) == []
    assert [one.code for one in sources.check(source, [f"{name}.missing"])] == ["NO_TABLE"]
    away = dataclasses.replace(source, port=1)
    assert [one.code for one in sources.check(away, [f"{name}.*"])] == ["UNREACHABLE"]
    wrong = dataclasses.replace(source, password="wrong")
    assert [one.code for one in sources.check(wrong, [f"{name}.*"])] == ["PASSWORD_WRONG"]
    with sources.opened(source, [f"{name}.*"], None, snapshot=False) as capture:
        own_mariadb.run("INSERT INTO orders VALUES (1)", database=name)
        patience = Patience(WAIT_S, 1)
        while not (changes := capture.changes(1)):
            assert not patience.is_over()
    assert changes[0].event["source"] == f"mysql://db.invalid:{own_mariadb.port}"
