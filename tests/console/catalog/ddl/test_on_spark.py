"""Tables made by SQL are read by Spark as they were defined."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from analytics import engine, session
from analytics.lake import preview_result
from console import statements
from console.accounts.actor import Actor
from console.sql import answers, services, specs
from console.statements import read
from tests.console.catalog.ddl.conftest import put
from tests.support.sql_cast import Cast

pytestmark = [pytest.mark.django_db, pytest.mark.spark]


@pytest.fixture(scope="module", autouse=True)
def spark() -> Iterator[None]:
    """The engine of this process, started with the lake of the run and ended with the module."""
    session.get()
    yield
    engine.stop()


def ask(actor: Actor, query: str) -> list[list[str | None]]:
    """The rows that Spark gives for a query."""
    task = services.submit(actor, read(query), "demo")
    spec = specs.spec_of(task)
    engine.run_query(spec)
    return preview_result(spec.result_file, 100)[1]


def define(actor: Actor, text: str) -> None:
    """Carry a definition out."""
    assert answers.answer(actor, statements.parse(text), "demo") is not None


def test_tables_of_every_format_are_read(cast: Cast, lake: Path, handed_over: list[str]) -> None:
    alice = cast.alice
    put(lake, "demo-lake/sales/day=2026-01-14/a.csv", 'id;name\n1;"a;b"\n2;NA\n')
    put(lake, "demo-lake/sales/day=2026-01-15/b.csv", "id;name\n3;c\n")
    define(
        alice,
        "create external table sales (id int, name string) partitioned by (day date)"
        " stored as csv location 'oss://demo-lake/sales/'".replace(
            "stored as csv", "using csv options (delimiter ';', nullValue 'NA')"
        ),
    )
    assert ask(alice, "select id, name, day from sales order by id") == [
        ["1", "a;b", "2026-01-14"],
        ["2", None, "2026-01-14"],
        ["3", "c", "2026-01-15"],
    ]
    put(lake, "demo-lake/sales/day=2026-01-16/c.csv", "id;name\n4;d\n")
    assert ask(alice, "select id from sales where day = date'2026-01-16'") == [["4"]]

    put(lake, "demo-lake/hive/a.txt", 'x|"quoted"|1\n\\N|y|2\n')
    define(
        alice,
        "create external table `hive-text` (a string, b string, c int) row format delimited fields terminated by '|'"
        " stored as textfile location 'oss://demo-lake/hive/'",
    )
    assert ask(alice, "select * from `hive-text` order by c") == [["x", '"quoted"', "1"], [None, "y", "2"]]

    put(lake, "demo-lake/events/a.json", '{"id": 1, "who": {"name": "y", "tags": ["p", "q"]}}\n')
    define(alice, "create external table events stored as json location 'oss://demo-lake/events/'")
    assert ask(alice, "select id, who.name, who.tags[1] from demo.events") == [["1", "y", "q"]]
    define(alice, "alter table events add columns (extra map<string, decimal(10,2)>)")
    assert ask(alice, "select extra from events") == [[None]]

    define(alice, "create table made (a int, `b c` struct<`d e`: timestamp>) using parquet")
    assert ask(alice, "select count(*) from made") == [["0"]]
