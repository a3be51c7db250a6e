"""A MySQL endpoint for real accounts, with TLS, and an engine that answers what a test tells it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest
from django.db import connection as database

from analytics import engine, lake
from analytics.specs import Column, QueryResult, QuerySpec
from brokercore.certificates import server_context
from console.accounts import services as accounts
from console.sql import lifecycle, worker
from console.sql.mysql.server import MySqlEndpoint
from tests.support.mysql_endpoint import running_endpoint
from tests.support.sql_cast import Cast

PASSWORD = "sql Pass 77"
Rows = list[tuple[object, ...]]


class Engine:
    """Analytics, answering at once: `columns` and the text of result.csv, or an error; with a closed gate it waits."""

    def __init__(self) -> None:
        self.specs: list[QuerySpec] = []
        self.columns = [Column("carrier", "string"), Column("n", "bigint"), Column("day", "date")]
        self.content = "carrier,n,day\nUA,58665,2013-01-01\n,,\n"
        self.error: Exception | None = None
        self.gate = threading.Event()
        self.gate.set()

    def run_query(self, spec: QuerySpec) -> QueryResult:
        """Write the result file."""
        self.specs.append(spec)
        assert self.gate.wait(60)
        if self.error:
            raise self.error
        file = Path(lake.lake_path(spec.result_file))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(self.content)
        rows = self.content.count("\n") - 1
        return QueryResult(rows, rows, 2, "id", 1, self.columns)


@pytest.fixture(scope="session")
def tls_context(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return server_context(tmp_path_factory.mktemp("tls"), "sql", ["localhost", "127.0.0.1"])


@pytest.fixture
def endpoint(cast: Cast, tls_context: Any) -> Iterator[int]:
    """The port; Alice's database account is `demo` with PASSWORD."""
    accounts.set_database_password(user=cast.alice.person, name="demo", password=PASSWORD)
    with running_endpoint(lambda: MySqlEndpoint(tls_context)) as port:
        yield port


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """A worker of this process takes every task."""
    answers = Engine()
    monkeypatch.setattr(engine, "run_query", answers.run_query)
    with WorkerHere(monkeypatch):
        yield answers
        answers.gate.set()


class WorkerHere:
    """Runs each task that is handed over in a thread of this process, and waits for all at the end."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._threads: list[threading.Thread] = []
        monkeypatch.setattr(lifecycle, "hand_over", self._hand_over)

    def __enter__(self) -> WorkerHere:
        return self

    def __exit__(self, *_: object) -> None:
        for thread in self._threads:
            thread.join(60)

    def _hand_over(self, task_id: str) -> None:
        self._threads.append(threading.Thread(target=self._work, args=(task_id,)))
        self._threads[-1].start()

    @staticmethod
    def _work(task_id: str) -> None:
        worker.run(task_id)
        database.close()


def connect(port: int, user: str = "demo", password: str = PASSWORD, **options: Any) -> pymysql.Connection:
    """PyMySQL, without TLS unless `ssl_disabled=False`."""
    settings = {"database": "demo", "ssl_disabled": True, "read_timeout": 20} | options
    return pymysql.connect(host="127.0.0.1", port=port, user=user, password=password, **settings)


def rows(connection: pymysql.Connection, text: str) -> Rows:
    """All rows of a statement."""
    with connection.cursor() as cursor:
        cursor.execute(text)
        return list(cursor.fetchall())
