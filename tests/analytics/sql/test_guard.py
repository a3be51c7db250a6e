"""The guard on Spark's own parser: hostile statements are refused, and nothing of them was executed; queries pass."""

from __future__ import annotations

import os
import time
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from analytics import engine, lake
from analytics import session as spark_session
from analytics.errors import QueryFailed, QueryRefused
from analytics.specs import QuerySpec, TableSpec
from analytics.sql import functions, guard, outline
from tests.analytics.conftest import result_text, specification
from tests.analytics.sql import hostile, legitimate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES = {"demo": ["flights", "airlines"], "mq": ["MQ_INST_1_a%orders"]}
REFUSED = (QueryRefused, QueryFailed)


def check(spark: SparkSession, sql: str, *parameters: object) -> frozenset[tuple[str, str]]:
    return guard.check(spark, sql, schema="demo", tables=TABLES, parameters=parameters).relations


@pytest.fixture
def secret_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY", "a value that nobody may see")


@pytest.mark.usefixtures("secret_in_the_environment")
@pytest.mark.parametrize("sql", hostile.STATEMENTS, ids=lambda sql: " ".join(sql[:70].split()) or "empty")
def test_a_hostile_statement_is_refused_and_never_executed(
    spark: SparkSession,
    demo_tables: list[TableSpec],
    secret_table: TableSpec,
    tmp_path: Path,
    sql: str,
) -> None:
    canary = tmp_path / "canary"
    sql = sql.replace("{canary}", str(canary)).replace("{lake}", lake.lake_path("oss://bob-lake").rpartition("/")[0])
    spec = specification(sql, {"demo": demo_tables}, time_limit_s=20)
    with pytest.raises(REFUSED) as refusal:
        engine.run_query(spec)
    assert refusal.value.user_message.count("\n") == 0
    assert len(refusal.value.user_message) > 10
    assert not canary.exists()
    assert os.environ["CANARY"] not in refusal.value.user_message
    assert spark_session.is_alive()
    assert not Path(lake.lake_path(spec.result_file)).exists()
    assert _jobs(spark, spec) == 0


@pytest.mark.parametrize("sql", hostile.BOMBS, ids=lambda sql: " ".join(sql[:70].split()) or "empty")
def test_a_bomb_is_refused_before_any_parser_sees_it(sql: str) -> None:
    with pytest.raises(QueryRefused) as refusal:
        outline.check(sql)
    assert "\n" not in refusal.value.user_message
    assert len(refusal.value.user_message) < 200


def test_most_hostile_statements_are_refused_by_the_guard_itself(spark: SparkSession) -> None:
    parsed_wrongly = []
    for sql in hostile.FILES + hostile.FOREIGN_TABLES + hostile.FUNCTIONS:
        try:
            check(spark, sql)
        except QueryRefused:
            continue
        except Exception:  # noqa: BLE001  Spark's parser refuses some of them before the guard
            parsed_wrongly.append(sql)
        else:
            pytest.fail(f"the guard lets {sql} through")
    assert len(parsed_wrongly) <= 30, parsed_wrongly


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("drop table flights", "DROP: not allowed here; only queries are (SELECT, WITH, VALUES, FROM, TABLE)."),
        (
            "select transform(carrier) using 'x' from flights",
            "TRANSFORM … USING, which runs a program: not allowed here; "
            "only queries are (SELECT, WITH, VALUES, FROM, TABLE).",
        ),
        ("select * from secret.t", "There is no schema secret that you may read; there is demo, mq."),
        ("select * from planes", "There is no table planes; schema demo has airlines, flights."),
        (
            "select Reflect('a')",
            "The function Reflect is not allowed: it calls any method of Java.",
        ),
        (
            "select * from flights with (a = 1)",
            "Options behind a table's name are not allowed; name flights alone, without WITH (…).",
        ),
        ("select " + "x" * 300_000, "The statement has 300,007 bytes; at most 262,144 are allowed."),
    ],
)
def test_a_refusal_says_what_is_refused_and_what_is_allowed(spark: SparkSession, sql: str, message: str) -> None:
    with pytest.raises(QueryRefused) as refusal:
        check(spark, sql)
    assert refusal.value.user_message == message


@pytest.mark.parametrize("sql", legitimate.QUERIES)
def test_a_query_on_the_tenants_tables_passes(spark: SparkSession, sql: str) -> None:
    assert {table for _, table in check(spark, sql)} == set(legitimate.QUERIES[sql].split())


def test_parameters_stay_values(spark: SparkSession) -> None:
    values = ("it's \\ 2'; --", None, True, 1.5, Decimal("1.20"), date(2020, 1, 1), datetime(2020, 1, 1), b"ab", 2**40)  # noqa: DTZ001
    assert check(spark, "select ?, ?, ?, ?, ?, ?, ?, ?, ? from flights", *values) == {("demo", "flights")}


def test_every_function_of_spark_is_allowed_or_refused_with_a_reason(spark: SparkSession) -> None:
    """A new Spark brings new functions: somebody has to look at each of them."""
    state: Any = spark._jsparkSession.sessionState()
    listings = [state.functionRegistry().listFunction(), state.tableFunctionRegistry().listFunction()]
    identifiers = [listing.apply(number) for listing in listings for number in range(listing.size())]
    known = {identifier.funcName() for identifier in identifiers}
    judged = functions.ALLOWED | functions.TABLE_FUNCTIONS | functions.REFUSED.keys()
    assert known - judged == set()
    assert functions.ALLOWED - known == set()
    assert not functions.ALLOWED & functions.REFUSED.keys()
    assert len(functions.ALLOWED) > 500


def test_a_query_with_the_engines_user_tells_a_name_of_ours(ask: Any, spark: SparkSession) -> None:
    spec = specification("select user", {"demo": []})
    engine.run_query(spec)
    assert result_text(spec).splitlines()[1:] == ["gantry"]


def test_a_parameter_cannot_name_a_foreign_table(spark: SparkSession) -> None:
    with pytest.raises(QueryRefused, match="no schema secret"):
        check(spark, "select * from identifier(?)", "secret.salaries")


def test_nested_cases_take_time_linear_to_their_depth(spark: SparkSession) -> None:
    sql = "select " + "case when 1 = 1 then " * 60 + "1" + " end" * 60
    started = time.monotonic()
    assert check(spark, sql) == frozenset()
    assert time.monotonic() - started < 10  # Spark's own JSON of this plan would not fit into the heap


def _jobs(spark: SparkSession, spec: QuerySpec) -> int:
    scala: Any = spark.sparkContext._jsc.sc()
    return len(list(scala.statusTracker().getJobIdsForTag(f"gantry-{spec.task_id}")))
