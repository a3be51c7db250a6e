"""The guard on Spark's own parser: hostile statements are refused, and nothing of them was executed; queries pass."""

from __future__ import annotations

import time
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from analytics import run
from analytics.sql import guard
from tests.analytics.conftest import specification
from tests.analytics.sql import hostile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES = {"demo": ["flights", "airlines"], "mq": ["MQ_INST_1_a%orders"]}
REFUSED = (run.QueryRefused, run.QueryFailed)


def check(spark: SparkSession, sql: str, *parameters: object) -> frozenset[tuple[str, str]]:
    return guard.check(spark, sql, schema="demo", tables=TABLES, parameters=parameters).relations


@pytest.mark.parametrize("sql", hostile.EVERYTHING, ids=lambda sql: " ".join(sql[:70].split()) or "empty")
def test_a_hostile_statement_is_refused_and_never_executed(
    spark: SparkSession,
    demo_tables: list[run.TableSpec],
    secret_table: run.TableSpec,
    tmp_path: Path,
    sql: str,
) -> None:
    canary = tmp_path / "canary"
    sql = sql.replace("{canary}", str(canary)).replace("{lake}", run.lake_path("oss://bob-lake").rpartition("/")[0])
    spec = specification(sql, {"demo": demo_tables}, time_limit_s=20)
    started = time.monotonic()
    with pytest.raises(REFUSED) as refusal:
        run.run_query(spec)
    assert time.monotonic() - started < 20  # refused in milliseconds; the first one waits for a session
    assert refusal.value.user_message.count("\n") == 0
    assert len(refusal.value.user_message) > 10
    assert not canary.exists()
    assert not Path(run.lake_path(spec.result_file)).exists()
    assert _jobs(spark, spec) == 0


def test_most_hostile_statements_are_refused_by_the_guard_itself(spark: SparkSession) -> None:
    parsed_wrongly = []
    for sql in hostile.FILES + hostile.FOREIGN_TABLES + hostile.FUNCTIONS:
        try:
            check(spark, sql)
        except run.QueryRefused:
            continue
        except Exception:  # noqa: BLE001  Spark's parser refuses some of them before the guard
            parsed_wrongly.append(sql)
        else:
            pytest.fail(f"the guard lets {sql} through")
    assert len(parsed_wrongly) <= 5, parsed_wrongly


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
            "The function Reflect is not allowed: it reaches beyond the tables of the statement.",
        ),
        (
            "select * from flights with (a = 1)",
            "Options behind a table's name are not allowed; name flights alone, without WITH (…).",
        ),
        ("select " + "x" * 300_000, "The statement has 300,007 bytes; at most 262,144 are allowed."),
    ],
)
def test_a_refusal_says_what_is_refused_and_what_is_allowed(spark: SparkSession, sql: str, message: str) -> None:
    with pytest.raises(run.QueryRefused) as refusal:
        check(spark, sql)
    assert refusal.value.user_message == message


QUERIES = {
    "select * from flights": "flights",
    "select * from demo.Flights F where f.month = 1;": "flights",
    "table flights": "flights",
    "values (1, 'a'), (2, 'b')": "",
    "select * from values (1) as t(a)": "",
    "from flights |> where month = 1 |> aggregate count(*) group by carrier |> order by 1": "flights",
    "select /*+ broadcast(a) */ * from flights f join airlines a using (carrier)": "flights airlines",
    "with a as (select * from flights), b as (select * from a) select * from a join b on true": "flights",
    "with recursive r as (select 1 as n union all select n + 1 from r where n < 5) select * from r": "",
    "select (select max(month) from flights), month in (select 1 from airlines) from flights": "flights airlines",
    "select * from flights f, lateral (select f.month + 1 as next)": "flights",
    "select * from flights lateral view explode(array(1, 2)) t as x": "flights",
    "select * from flights tablesample (10 percent)": "flights",
    "select * from flights pivot (sum(distance) for month in (1, 2))": "flights",
    "select * from flights unpivot (value for name in (month, day))": "flights",
    "select rank() over w from flights window w as (partition by carrier order by distance)": "flights",
    "select * from flights qualify row_number() over (partition by carrier order by distance) = 1": "flights",
    "select carrier, count(*) filter (where month = 1) from flights group by rollup (carrier) having count(*) > 1": (
        "flights"
    ),
    "select listagg(carrier, ',') within group (order by carrier) from flights": "flights",
    "select transform(array(1, 2), x -> x + 1), aggregate(array(1), 0, (a, b) -> a + b)": "",
    "select * from range(10)": "",
    "select * from json_tuple('{}', 'a')": "",
    "select cast('1' as decimal(10, 2)), interval 1 day, date '2020-01-01', x'00', 1L, 1.5BD": "",
    "(select 1) union all (select 2) intersect select 2 except select 3 order by 1 limit 5 offset 1": "",
    "select a.* except (month) from flights a": "flights",
    "select case month when 1 then 'a' when 2 then 'b' else 'c' end as end from flights": "flights",
    "select 'with (' || \"drop table\" as `select` from flights -- insert": "flights",
    "select * from mq.`MQ_INST_1_a%orders`": "mq_inst_1_a%orders",
    "select get_json_object('{}', '$.a'), from_json('{}', 'a int').a, to_json(named_struct('a', 1))": "",
}


@pytest.mark.parametrize("sql", QUERIES)
def test_a_query_on_the_tenants_tables_passes(spark: SparkSession, sql: str) -> None:
    assert {table for _, table in check(spark, sql)} == set(QUERIES[sql].split())


def test_parameters_stay_values(spark: SparkSession) -> None:
    values = ("it's \\ 2'; --", None, True, 1.5, Decimal("1.20"), date(2020, 1, 1), datetime(2020, 1, 1), b"ab", 2**40)  # noqa: DTZ001
    assert check(spark, "select ?, ?, ?, ?, ?, ?, ?, ?, ? from flights", *values) == {("demo", "flights")}


def test_a_parameter_cannot_name_a_foreign_table(spark: SparkSession) -> None:
    with pytest.raises(run.QueryRefused, match="no schema secret"):
        check(spark, "select * from identifier(?)", "secret.salaries")


def test_nested_cases_take_time_linear_to_their_depth(spark: SparkSession) -> None:
    sql = "select " + "case when 1 = 1 then " * 60 + "1" + " end" * 60
    started = time.monotonic()
    assert check(spark, sql) == frozenset()
    assert time.monotonic() - started < 10  # Spark's own JSON of this plan would not fit into the heap


def _jobs(spark: SparkSession, spec: run.QuerySpec) -> int:
    scala: Any = spark.sparkContext._jsc.sc()
    return len(list(scala.statusTracker().getJobIdsForTag(f"gantry-{spec.task_id}")))
