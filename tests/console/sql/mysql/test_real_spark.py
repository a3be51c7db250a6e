"""Through the endpoint to Spark itself: values in, every type out, one JVM for the module."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import mysql.connector
import pytest

from analytics import engine, lake
from analytics.demo import write_demo_tables
from console.catalog.models import Bucket, ExternalTable, Schema
from console.sql.models import QueryTask
from tests.console.sql.mysql.clients.conftest import HOSTILE, TYPES, VALUES
from tests.console.sql.mysql.conftest import PASSWORD, WorkerHere, connect, rows
from tests.support.needs import need_tool
from tests.support.sql_cast import Cast

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spark]
#: A row that has every type of the client tests, in Spark's words; must be what those tests say it is.
ALL_TYPES = r"""
select cast('12345678901234567890.1234567890' as decimal(38,10)) d, timestamp'2024-02-29 12:34:56.789' t,
  date'1999-12-31' day, cast(null as string) n, true b, unhex('00ff22612c') bin,
  named_struct('a', array(1, 2), 'b', 'x"y') j, 1.5d f, 7 i, -9007199254740993 l, 'it\'s "😀" \\ \n.' s, '' e
"""


@pytest.fixture(scope="module")
def jvm() -> Iterator[None]:
    need_tool("java")
    engine.warm()
    yield
    engine.stop()


@pytest.fixture
def real_spark(jvm: None, cast: Cast, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Statements are run by Spark in this process."""
    Bucket.objects.create(tenant=cast.alice.tenant, name="demo-lake")
    for table in write_demo_tables("demo-lake", "demo"):
        ExternalTable.objects.filter(name=table.name).delete()
        ExternalTable.objects.create(
            schema=Schema.objects.get(tenant=cast.alice.tenant, name="demo"), name=table.name, location=table.location,
            format=table.format, columns=[{"name": c.name, "type": c.type} for c in table.columns],
        )  # fmt: skip
    with WorkerHere(monkeypatch):
        yield


def test_what_spark_writes_is_what_clients_get(endpoint: int, real_spark: None) -> None:
    with connect(endpoint, read_timeout=120) as connection:
        assert rows(connection, ALL_TYPES) == [VALUES]
    task = QueryTask.objects.get()
    assert [(c["name"], c["type"]) for c in task.result_columns] == [(name, kind) for name, kind, *_ in TYPES]
    with lake.open_result(task.result_file) as file:
        header, _, row = file.read().decode().partition("\n")
    assert header == ",".join(name for name, *_ in TYPES)
    assert row == ",".join(text for *_, text, _ in TYPES) + "\n"


def test_bound_values_are_spark_values(endpoint: int, real_spark: None) -> None:
    connection = mysql.connector.connect(
        host="127.0.0.1",
        port=endpoint,
        user="demo",
        password=PASSWORD,
        database="demo",
        ssl_disabled=True,
        use_pure=True,
    )
    cursor = connection.cursor(prepared=True)
    cursor.execute("select ?, ?, ?, ?, carrier from airlines where carrier = ?", (*HOSTILE, "UA"))
    assert cursor.fetchall() == [(*HOSTILE, "UA")]
    connection.close()


def test_a_large_result_streams_to_the_command_line(endpoint: int, real_spark: None) -> None:
    command = [
        str(need_tool("mysql")),
        "--no-defaults",
        "--skip-ssl",
        "--quick",
        "-h",
        "127.0.0.1",
        "-P",
        str(endpoint),
    ]
    done = subprocess.run(
        [*command, "-udemo", f"-p{PASSWORD}", "demo", "-N", "-e", "select carrier, origin from flights limit 90000"],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 90_000


def test_sparks_errors_have_mysqls_codes(endpoint: int, real_spark: None) -> None:
    for text, code in (
        ("select * from nowhere", 1146),
        ("select nothing from airlines", 1054),
        ("select * from airlines where carrier = ", 1064),
        ("select java_method('java.lang.System', 'exit', 0) from airlines", 1142),
    ):
        with connect(endpoint, read_timeout=120) as connection, pytest.raises(Exception, match=f"^\\({code},"):
            rows(connection, text)
