"""What every client is tried with: who signs in, with and without TLS, and a result of all types."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from typing import NamedTuple

import pytest

from analytics.specs import Column
from console.sql.models import QueryTask, TaskStatus
from tests.console.sql.mysql.conftest import PASSWORD, Engine, connect, rows
from tests.support.broker import eventually
from tests.support.sql_cast import Cast

#: Values that clients quote or bind in their own ways.
HOSTILE = ('it\'s "a" \\ back\nslash', "nul \0 and 😀", "'; drop table x; -- ?", "%_\\%")
#: Column, Spark's type, text in result.csv, and the value as Python sees it.
TYPES = (
    ("d", "decimal(38,10)", "12345678901234567890.1234567890", Decimal("12345678901234567890.1234567890")),
    ("t", "timestamp", "2024-02-29 12:34:56.789", datetime.datetime.fromisoformat("2024-02-29 12:34:56.789")),
    ("day", "date", "1999-12-31", datetime.date(1999, 12, 31)),
    ("n", "string", "", None),
    ("b", "boolean", "true", 1),
    ("bin", "binary", "AP8iYSw=", b'\x00\xff"a,'),
    ("j", "struct<a:array<int>,b:string>", '"{""a"":[1,2],""b"":""x\\""y""}"', '{"a":[1,2],"b":"x\\"y"}'),
    ("f", "double", "1.5", 1.5),
    ("i", "int", "7", 7),
    ("l", "bigint", "-9007199254740993", -9007199254740993),
    ("s", "string", '"it\'s ""😀"" \\ \n."', 'it\'s "😀" \\ \n.'),
    ("e", "string", '""', ""),
)
VALUES = tuple(value for *_, value in TYPES)


class Login(NamedTuple):
    """Where to and as whom."""

    port: int
    user: str
    password: str
    tls: bool


@pytest.fixture
def logins(endpoint: int, cast: Cast) -> list[Login]:
    """Every way in: a database account and an AccessKey pair, with and without TLS."""
    credentials = (("demo", PASSWORD), (cast.key.access_key_id, cast.key.access_key_secret))
    return [Login(endpoint, user, password, tls) for user, password in credentials for tls in (True, False)]


@pytest.fixture
def account(endpoint: int) -> Login:
    """The usual way in: a database account, with TLS."""
    return Login(endpoint, "demo", PASSWORD, tls=True)


@pytest.fixture
def typed(spark: Engine) -> Engine:
    """The next result has a row of all types, and one of nulls."""
    spark.columns = [Column(name, kind) for name, kind, *_ in TYPES]
    cells = ",".join(text for *_, text, _ in TYPES)
    spark.content = f"{','.join(c.name for c in spark.columns)}\n{cells}\n{',' * (len(TYPES) - 1)}\n"
    return spark


@pytest.fixture
def counted(spark: Engine) -> Engine:
    """The next result has 50 rows."""
    spark.columns = [Column("n", "bigint")]
    spark.content = "n\n" + "".join(f"{n}\n" for n in range(50))
    return spark


@pytest.fixture
def stuck(spark: Engine) -> Iterator[Engine]:
    """Spark does not come to an end by itself."""
    spark.gate.clear()
    yield spark
    spark.gate.set()


def kill_what_runs(port: int) -> None:
    """End the statement that runs on another connection of `demo`, once it does."""
    eventually(lambda: QueryTask.objects.filter(status=TaskStatus.RUNNING).exists())
    with connect(port) as other:
        for number, _, _, _, command, _, _, info in rows(other, "show processlist"):
            if command == "Query" and "flights" in str(info):
                rows(other, f"kill query {number}")
