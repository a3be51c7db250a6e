"""The guard without Spark's parser: the same hostile statements are refused, the same queries pass, by their text."""

from __future__ import annotations

import time

import pytest

from analytics import run
from analytics.sql import second_guard
from tests.analytics.sql import hostile, legitimate

TABLES = {"demo": ["flights", "airlines"], "mq": ["MQ_INST_1_a%orders"]}


def check(sql: str) -> second_guard.Guarded2:
    return second_guard.check(sql, schema="demo", tables=TABLES)


@pytest.mark.parametrize("sql", hostile.EVERYTHING, ids=lambda sql: " ".join(sql[:70].split()) or "empty")
def test_a_hostile_statement_is_refused(sql: str) -> None:
    started = time.monotonic()
    with pytest.raises((run.QueryRefused, run.QueryFailed)) as refusal:
        check(sql)
    assert time.monotonic() - started < 20
    assert "\n" not in refusal.value.user_message
    assert "\x1b" not in refusal.value.user_message
    assert len(refusal.value.user_message) > 10


@pytest.mark.parametrize("sql", [sql for sql in legitimate.QUERIES if sql not in legitimate.NOT_FOR_SQLGLOT])
def test_a_query_on_the_tenants_tables_passes(sql: str) -> None:
    assert {table for _, table in check(sql).relations} == set(legitimate.QUERIES[sql].split())


@pytest.mark.parametrize("sql", legitimate.NOT_FOR_SQLGLOT)
def test_what_cannot_be_read_is_refused(sql: str) -> None:
    with pytest.raises(run.QueryRefused):
        check(sql)


def test_positions_tell_where_tables_are_named() -> None:
    sql = "with flights as (select 1) select * from demo.`airlines` a, /* demo.flights */ mq . `MQ_INST_1_a%orders` b"
    guarded = check(sql)
    assert {(sql[p.start : p.end], p.relation) for p in guarded.positions} == {
        ("demo.`airlines`", ("demo", "airlines")),
        ("mq . `MQ_INST_1_a%orders`", ("mq", "mq_inst_1_a%orders")),
    }


def test_a_table_can_be_looked_up() -> None:
    found = run.TableSpec("T-1", "oss://alice-lake/t/", "parquet")
    guarded = second_guard.check(
        "select * from other.`T-1`", schema="demo", tables=TABLES, lookup=lambda schema, table: found
    )
    assert guarded.looked_up == {("other", "t-1"): found}


@pytest.mark.parametrize("join", ["join", "left join", "left semi join", "full outer join"])
def test_joins_that_sqlglot_would_read_for_years_are_refused(join: str) -> None:
    with pytest.raises(run.QueryRefused, match="wait for their ON or USING"):
        check("select * from flights " + f"{join} flights " * 60)
    conditions = "".join(f"{join} flights f{number} on f{number}.month = 1 " for number in range(60))
    assert check(f"select * from flights {conditions}").relations == {("demo", "flights")}


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("drop table flights", "DROP: not allowed here; only queries are (SELECT, WITH, VALUES, FROM)."),
        ("select * from secret.t", "There is no schema secret that you may read; there is demo, mq."),
        ("select reflect('a')", "The function REFLECT is not allowed: it calls any method of Java."),
        ("select * from flights where", "The statement cannot be read, so it is not run:"),
    ],
)
def test_a_refusal_says_what_is_refused_and_what_is_allowed(sql: str, message: str) -> None:
    with pytest.raises(run.QueryRefused) as refusal:
        check(sql)
    assert refusal.value.user_message.startswith(message)
