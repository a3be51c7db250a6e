"""A database of a test's own in a real PostgreSQL, and captures of it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

from analytics.inflow.changes import Change
from analytics.inflow.postgres import PostgresCapture, PostgresSource, open_capture
from tests.support.patience import Patience
from tests.support.postgres import PostgresServer, embedded_binaries, postgres_server
from tests.support.product import free_ports

WAIT_S = 30
#: The server reads its log as far as it is written, so commits wait for that; it waits for readers a short time only.
SETTINGS = (
    "wal_level=logical",
    "max_replication_slots=20",
    "max_wal_senders=20",
    "synchronous_commit=on",
    "wal_sender_timeout=10s",
)
#: By which `run` has a server listen where the product reaches it.
LISTENS = "listen_addresses=127.0.0.1"
PASSWORD = "read-it-all"


@contextmanager
def listening_postgres(*settings: str, durable: bool = False) -> Iterator[PostgresServer]:
    """A server that listens on the loopback and asks for passwords; `reader` may do everything.

    `run(LISTENS)` starts it again.
    """
    with postgres_server(*SETTINGS, *settings, durable=durable, programs=embedded_binaries()) as server:
        (server.data / "pg_hba.conf").write_text("local all all trust\nhost all all all scram-sha-256\n")
        server.stop()
        (server.port,) = free_ports(1)
        server.run(LISTENS)
        run(server, f"CREATE ROLE reader SUPERUSER LOGIN PASSWORD '{PASSWORD}'")
        yield server


def run(server: PostgresServer, *statements: str, database: str = "postgres") -> list[tuple[Any, ...]]:
    """Run statements one by one; the rows of the last."""
    with psycopg.connect(
        host=str(server.folder), port=server.port, user="gantry", dbname=database, autocommit=True
    ) as opened:
        cursor = opened.cursor()
        for statement in statements:
            cursor.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


class Database:
    """One database: `sql` runs statements, `capture` reads changes."""

    def __init__(self, server: PostgresServer, name: str) -> None:
        self.server = server
        self.name = name
        self.slot = f"slot_{name}"
        self.connection = psycopg.connect(self.conninfo(), autocommit=True)

    def conninfo(self) -> str:
        return make_conninfo(host=str(self.server.folder), port=self.server.port, user="gantry", dbname=self.name)

    def sql(self, *statements: str) -> list[tuple[Any, ...]]:
        """The rows of the last statement, if it has any. Each is a transaction of its own."""
        cursor = self.connection.cursor()
        for statement in statements:
            cursor.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []

    def transaction(self, *statements: str) -> None:
        with self.connection.transaction():
            for statement in statements:
                self.connection.execute(statement.encode())

    def source(self, **more: Any) -> PostgresSource:
        told = {"host": str(self.server.folder), "database": self.name, "user": "gantry", "slot": self.slot}
        return PostgresSource(**(told | more))

    def capture(
        self, patterns: Iterable[str] = ("public.*",), position: str | None = None, *, snapshot: bool = False
    ) -> PostgresCapture:
        return open_capture(self.source(), patterns, position, snapshot=snapshot)

    def drop_slot(self) -> None:
        """As soon as the server knows that its reader is gone."""
        patience = Patience(WAIT_S, 0.05)
        while True:
            try:
                self.sql(f"SELECT pg_drop_replication_slot('{self.slot}')")
                return
            except psycopg.errors.ObjectInUse:
                assert not patience.is_over()
                time.sleep(0.05)

    def drop(self) -> None:
        self.connection.close()
        with psycopg.connect(make_conninfo(host=str(self.server.folder), user="gantry", dbname="postgres")) as other:
            other.autocommit = True
            other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [self.name])
            patience = Patience(WAIT_S)
            while True:
                try:
                    other.execute(
                        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = %s",
                        [self.name],
                    )
                    other.execute(f'DROP DATABASE "{self.name}" WITH (FORCE)'.encode())
                    return
                except psycopg.errors.ObjectInUse:
                    assert not patience.is_over()
                    time.sleep(0.05)


def read(capture: PostgresCapture, number: int, *, confirms: bool = True) -> list[Change]:
    """The next changes, as many as are waited for; more is an error."""
    changes = read_until(capture, lambda so_far: len(so_far) >= number, confirms=confirms)
    assert len(changes) == number, [change.event["data"] for change in changes]
    return changes


def read_until(
    capture: PostgresCapture, is_enough: Callable[[list[Change]], bool], *, confirms: bool = True
) -> list[Change]:
    changes: list[Change] = []
    patience = Patience(WAIT_S, 0.1)
    while not is_enough(changes):
        piece = capture.changes(0.1)
        if piece and confirms:
            capture.confirm(piece[-1].position)
        changes += piece
        assert piece or not patience.is_over(), f"only {len(changes)} changes came"
    json.dumps([change.event for change in changes], allow_nan=False)
    return changes


def data(changes: Iterable[Change]) -> list[dict[str, Any]]:
    """What the events say of the rows."""
    told = ("operation", "tableName", "primaryKey", "before", "after")
    return [{name: change.event["data"][name] for name in told} for change in changes]
