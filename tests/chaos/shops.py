"""Two databases whose rows are changed by several writers at once, and what each of these was told of its commits."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Protocol

import psycopg
import pymysql

from tests.chaos.inflow_figures import Change, Report
from tests.inflow.databases import LISTENS, PASSWORD, listening_postgres, run
from tests.support.mariadb import PASSWORD as ROOTS_PASSWORD
from tests.support.mariadb import MariaDbServer, mariadb_server
from tests.support.postgres import PostgresServer

#: Rows of a database, which all its writers change: the order of a row is that of commits, not that of one writer.
ROWS = 500
WRITERS = 3
#: Changes of a transaction; one in so many has a large number.
FEW, LARGE, SELDOM = 8, 300, 200
DATABASE = "shop"
#: Seconds that a writer waits for its database.
_PATIENCE_S = 10
_PAUSE_S = 0.2
#: `goods` is followed. `ledger` is not: it tells which transactions the database has, also those without an answer.
_TABLES = (
    "CREATE TABLE goods (id int PRIMARY KEY, n bigint NOT NULL, writing varchar(40) NOT NULL, made bigint NOT NULL)",
    "CREATE TABLE ledger (writing varchar(40) PRIMARY KEY)",
    "INSERT INTO goods VALUES " + ", ".join(f"({row}, 0, '', 0)" for row in range(1, ROWS + 1)),
)
_FAILURES = (psycopg.Error, pymysql.MySQLError, OSError)


class Shop(Protocol):
    """A database with the tables `goods` and `ledger`."""

    name: str
    #: What change tracking is told of it.
    tracked: dict[str, str]

    def connect(self) -> Any:
        """A connection, in which each transaction ends by `commit`."""

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        """The rows of a statement."""

    def kill(self) -> None:
        """End it at once."""

    def start(self) -> None:
        """Start it again, and wait until it answers."""


class Postgres:
    """PostgreSQL."""

    name = "postgresql"

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        run(server, f"CREATE DATABASE {DATABASE}")
        run(server, *_TABLES, database=DATABASE)
        self.tracked = {
            "kind": "postgresql", "host": "127.0.0.1", "port": str(server.port), "database": DATABASE,
            "user": "reader", "password": PASSWORD, "tables": "public.goods",
        }  # fmt: skip

    def connect(self) -> Any:
        """See Shop."""
        return psycopg.connect(
            host="127.0.0.1", port=self._server.port, user="reader", password=PASSWORD, dbname=DATABASE,
            connect_timeout=_PATIENCE_S,
        )  # fmt: skip

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        """See Shop."""
        return run(self._server, statement, database=DATABASE)

    def kill(self) -> None:
        """See Shop."""
        self._server.kill()

    def start(self) -> None:
        """See Shop."""
        self._server.run(LISTENS)


class MariaDb:
    """MariaDB."""

    name = "mariadb"

    def __init__(self, server: MariaDbServer) -> None:
        self._server = server
        server.run(f"CREATE DATABASE {DATABASE}")
        server.run(*_TABLES, database=DATABASE)
        self.tracked = {
            "kind": "mysql", "host": "127.0.0.1", "port": str(server.port), "user": "root",
            "password": ROOTS_PASSWORD, "tables": f"{DATABASE}.goods",
        }  # fmt: skip

    def connect(self) -> Any:
        """See Shop."""
        return pymysql.connect(
            host="127.0.0.1", port=self._server.port, user="root", password=ROOTS_PASSWORD, database=DATABASE,
            connect_timeout=_PATIENCE_S, read_timeout=_PATIENCE_S, write_timeout=_PATIENCE_S,
        )  # fmt: skip

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        """See Shop."""
        return self._server.run(statement, database=DATABASE)

    def kill(self) -> None:
        """See Shop."""
        self._server.kill()

    def start(self) -> None:
        """See Shop."""
        self._server.start()


@contextmanager
def postgres_shop() -> Iterator[Shop]:
    """One whose server comes with the packages of the tests."""
    with listening_postgres(durable=True) as server:
        yield Postgres(server)


@contextmanager
def shops() -> Iterator[tuple[Shop, ...]]:
    """Both of them, as durable as one has them: what is committed survives a kill."""
    with (
        postgres_shop() as postgres,
        mariadb_server(innodb_flush_log_at_trx_commit="1", sync_binlog="1") as mariadb,
    ):
        yield postgres, MariaDb(mariadb)


class Writer:
    """A thread that commits transaction after transaction, and notes each before its commit and after the answer."""

    def __init__(self, shop: Shop, name: str, seed: int) -> None:
        #: Changes a second.
        self.rate = 0.0
        #: By the name of the transaction: the numbers of its rows.
        self.tried: dict[str, dict[int, int]] = {}
        #: When the commit was answered, epoch seconds.
        self.answered: dict[str, float] = {}
        self.changes = 0
        self._shop, self._name = shop, name
        self._chance = random.Random(f"{seed} {name}")
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End after what is being written."""
        self._stopped.set()
        self._thread.join()

    def change_everything(self) -> None:
        """Once it has stopped: one transaction that changes every row, tried until it is answered."""
        while True:
            with suppress(*_FAILURES):
                connection = self._shop.connect()
                try:
                    self._commit(connection, range(1, ROWS + 1))
                    return
                finally:
                    connection.close()
            time.sleep(_PAUSE_S)

    def _work(self) -> None:
        while not self._stopped.is_set():
            with suppress(*_FAILURES):
                connection = self._shop.connect()
                try:
                    while not self._stopped.is_set():
                        self._one(connection)
                finally:
                    with suppress(*_FAILURES):
                        connection.close()
            self._stopped.wait(_PAUSE_S)

    def _one(self, connection: Any) -> None:
        if not self.rate:
            self._stopped.wait(_PAUSE_S)
            return
        count = LARGE if self._chance.randrange(SELDOM) == 0 else self._chance.randint(1, FEW)
        rows = sorted(self._chance.sample(range(1, ROWS + 1), count))
        began = time.monotonic()
        self._commit(connection, rows)
        self._stopped.wait(max(0.0, count / self.rate - (time.monotonic() - began)))

    def _commit(self, connection: Any, rows: Sequence[int]) -> None:
        writing = f"{self._name}-{len(self.tried)}"
        self.tried[writing] = self._write(connection, writing, rows)
        connection.commit()
        self.answered[writing] = time.time()
        self.changes += len(rows)

    def _write(self, connection: Any, writing: str, rows: Sequence[int]) -> dict[int, int]:
        """One transaction but for its end; the numbers that the rows have by it."""
        self.tried[writing] = {}  # its name is taken whatever comes of it
        these = ", ".join(map(str, rows))
        cursor = connection.cursor()
        # Locked in one order, so that no two wait for each other.
        cursor.execute(f"SELECT id, n FROM goods WHERE id IN ({these}) ORDER BY id FOR UPDATE")
        numbers = {int(row): int(n) + 1 for row, n in cursor.fetchall()}
        made = int(time.time() * 1000)
        cursor.execute(f"UPDATE goods SET n = n + 1, writing = '{writing}', made = {made} WHERE id IN ({these})")
        cursor.execute(f"INSERT INTO ledger VALUES ('{writing}')")
        return numbers


class Writers:
    """All writers of all shops."""

    def __init__(self, shops: Iterable[Shop], seed: int) -> None:
        self._shops = tuple(shops)
        self._writers = {
            shop.name: [Writer(shop, f"{shop.name}-{number}", seed) for number in range(WRITERS)]
            for shop in self._shops
        }

    @property
    def _all(self) -> list[Writer]:
        return [writer for writers in self._writers.values() for writer in writers]

    @property
    def changes(self) -> int:
        """How many were acknowledged as committed."""
        return sum(writer.changes for writer in self._all)

    def go(self, rate: float) -> None:
        """So many changes a second from now on, all writers together."""
        for writer in self._all:
            writer.rate = rate / len(self._all)

    def stop(self) -> None:
        """End all."""
        for writer in self._all:
            writer.stop()

    def change_everything(self) -> None:
        """End all, and change each row of each database once more: what comes behind that is not to be waited for."""
        self.stop()
        for writers in self._writers.values():
            writers[0].change_everything()

    def tell(self, report: Report) -> None:
        """What was tried, what was answered, and what the databases have of it."""
        report.tried = sum(len(writer.tried) for writer in self._all)
        for shop in self._shops:
            kept = {str(row[0]) for row in shop.run("SELECT writing FROM ledger")}
            for writer in self._writers[shop.name]:
                for writing, at in writer.answered.items():
                    report.acknowledged |= dict.fromkeys(_changes(shop.name, writer, writing), at)
                for writing in writer.tried.keys() & kept:
                    report.committed.update(_changes(shop.name, writer, writing))


def change_of(shop: str, row: dict[str, Any]) -> Change:
    """The change that a row of `goods` tells of itself."""
    return Change(f"{shop}:{int(row['id'])}", int(row["n"]), str(row["writing"]))


def _changes(shop: str, writer: Writer, writing: str) -> Iterator[Change]:
    for row, number in writer.tried[writing].items():
        yield Change(f"{shop}:{row}", number, writing)
