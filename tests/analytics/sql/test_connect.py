"""What only a Spark Connect server makes necessary: views for tables, the server's own opinion, its token."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from analytics import run
from analytics.sql.connect import sessions
from tests.analytics.conftest import result_text, specification, write_table
from tests.analytics.sql import hostile
from tests.analytics.sql.legitimate import QUERIES

pytestmark = pytest.mark.connect
REFUSED = (run.QueryRefused, run.QueryFailed)


@pytest.fixture(autouse=True, scope="module")
def engine(spark: object) -> Iterator[None]:
    yield
    run.stop()


@pytest.mark.parametrize("sql", [sql for sql in QUERIES if "mq." not in sql and not sql.startswith("table ")])
def test_what_classic_spark_takes_is_taken_here(ask: Callable[..., run.QueryResult], sql: str) -> None:
    assert ask(sql, explain="simple").row_count > 0


@pytest.fixture
def no_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first guard has a gap: it lets everything through."""
    nothing = SimpleNamespace(relations=frozenset(), looked_up={})
    monkeypatch.setattr("analytics.sql.second_guard.check", lambda *_, **__: nothing)
    monkeypatch.setattr("analytics.sql.connect.spliced", lambda sql, *_: sql)


@pytest.mark.usefixtures("no_guard")
@pytest.mark.parametrize(
    "sql",
    [
        *hostile.COMMANDS[::3],
        *hostile.FILES[::3],
        *(sql for sql in hostile.FOREIGN_TABLES[::3] if "session_user" not in sql),
        "select reflect('java.lang.System', 'getenv', 'HOME')",
        "select transform(array(1), x -> java_method('java.lang.System', 'getenv', 'HOME'))",
    ],
)
def test_what_passed_the_guard_is_refused_by_the_servers_own_parse(
    demo_tables: list[run.TableSpec], secret_table: run.TableSpec, tmp_path: Path, sql: str
) -> None:
    canary = tmp_path / "canary"
    sql = sql.replace("{canary}", str(canary)).replace("{lake}", run.lake_path("oss://bob-lake").rpartition("/")[0])
    spec = specification(sql, {"demo": demo_tables})
    with pytest.raises(REFUSED):
        run.run_query(spec)
    assert not canary.exists()
    session = sessions.take(spec)
    try:
        assert session.spark.conf.get("spark.sql.runSQLOnFiles") == "false"
        assert session.spark.conf.get("spark.sql.session.timeZone") == "UTC"
    finally:
        sessions.leave(session)


def test_a_session_does_not_see_the_views_of_another(
    demo_tables: list[run.TableSpec], secret_table: run.TableSpec
) -> None:
    from pyspark.errors import AnalysisException

    bobs = specification("select * from salaries", {"secret": [secret_table]}, tenant="bob", schema="secret")
    assert run.run_query(bobs).row_count == 2
    spec = specification("select count(*) from airlines", {"demo": demo_tables})
    run.run_query(spec)
    session = sessions.take(spec)
    try:
        for name in ("salaries", "secret.salaries"):
            with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
                session.spark.sql(f"select * from {name}").collect()
        assert session.spark.conf.get("spark.scheduler.pool") == "alice"
    finally:
        sessions.leave(session)


@pytest.mark.parametrize(
    ("sql", "result"),
    [
        ("select demo.t.a from demo.t where demo.t.a = 1", "a\n1\n"),
        ("select t.a from t union all select t.a from other.t", "a\n1\n2\n"),
        ("select t.a, o.a as b from demo.t join other.t as o on true", "a,b\n1,2\n"),
        ("select t.a from other.t", "a\n2\n"),
        ("select other.t.a from other.t", "a\n2\n"),
        ("with t as (select 7 as a) select a from t", "a\n7\n"),
        ("with t as (select 7 as a) select t.a, o.a as b from t join other.t as o on true", "a,b\n7,2\n"),
        ("select (select max(a) from other.t) as m, 'other.t' as n -- from other.t", "m,n\n2,other.t\n"),
        ("select a from other.`odd-%name`", "a\n3\n"),
        ("select `odd-%name`.a from other.`odd-%name`", "a\n3\n"),
    ],
)
def test_tables_are_found_in_every_spelling(sql: str, result: str) -> None:
    tables: dict[str, list[run.TableSpec]] = {}
    for schema, name, value in (("demo", "t", 1), ("other", "t", 2), ("other", "odd-%name", 3)):
        location = f"oss://alice-lake/{schema}-spelling/{value}/"
        write_table(location, pa.table({"a": [value]}))
        tables.setdefault(schema, []).append(run.TableSpec(name, location, "parquet", (run.Column("a", "bigint"),)))
    spec = specification(sql, tables)
    run.run_query(spec)
    assert sorted(result_text(spec).splitlines()) == sorted(result.splitlines())


def test_a_table_that_may_be_empty_has_no_rows_until_it_has_files() -> None:
    location, columns = "oss://alice-lake/managed/t/", (run.Column("a", "bigint"), run.Column("b", "decimal(10,2)"))
    table = run.TableSpec("t", location, "parquet", columns, may_be_empty=True)
    for rows in (0, 3):
        if rows:
            write_table(location, pa.table({"a": range(rows), "b": pa.array([None] * rows, pa.decimal128(10, 2))}))
        spec = specification("select count(b) as b, count(*) as n from demo.t", {"demo": [table]})
        run.run_query(spec)
        assert result_text(spec) == f"b,n\n0,{rows}\n"


def test_tasks_run_in_the_pool_of_their_tenant(demo_tables: list[run.TableSpec]) -> None:
    from pyspark import TaskContext
    from pyspark.sql.connect.functions import builtin
    from pyspark.sql.types import StringType

    def pool() -> str | None:
        context = TaskContext.get()
        return context.getLocalProperty("spark.scheduler.pool") if context else None

    session = sessions.take(specification("select 1", {"demo": demo_tables}, tenant="carol"))
    try:
        spark: Any = session.spark
        asked: Any = builtin.udf(pool, StringType())
        assert spark.range(1).select(asked()).collect()[0][0] == "carol"
    finally:
        sessions.leave(session)


def test_a_wrong_token_is_refused_with_what_to_do(
    ask: Callable[..., run.QueryResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions.forget()
    monkeypatch.setenv("GANTRY_SPARK_CONNECT_TOKEN", "guessed")
    with pytest.raises(run.EngineUnavailable, match="does not accept the token of GANTRY_SPARK_CONNECT_TOKEN") as told:
        ask("select 1")
    assert "guessed" not in told.value.user_message


def test_a_server_that_is_not_there_is_an_outage(
    ask: Callable[..., run.QueryResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions.forget()
    monkeypatch.setenv("SPARK_URL", "sc://127.0.0.1:1")
    with pytest.raises(run.EngineUnavailable, match=r"The Spark Connect server sc://127.0.0.1:1 does not answer\."):
        ask("select 1")


def test_sessions_that_were_not_used_for_long_are_given_back(
    demo_tables: list[run.TableSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions.forget()
    monkeypatch.setattr(sessions, "MOST_SESSIONS", 1)
    specs = [specification("select 1", {"demo": demo_tables}, tenant=tenant) for tenant in ("alice", "bob")]
    first = sessions.take(specs[0])
    second = sessions.take(specs[1])
    assert not stopped(first), "it is in use"
    sessions.leave(first)
    assert stopped(first)
    sessions.leave(second)
    assert not stopped(second)


def test_a_result_written_in_parts_tells_its_counters(spark: object, demo_tables: list[run.TableSpec]) -> None:
    result = run.run_query(specification("select * from flights", {"demo": demo_tables}))
    assert (result.row_count, result.scanned_row_count) == (336_776, 336_776)
    size = (Path(run.lake_path("oss://alice-lake/demo/flights/")) / "part-0.parquet").stat().st_size
    assert result.scanned_data_bytes == pytest.approx(size, rel=0.1)


def stopped(session: sessions.ConnectSession) -> bool:
    spark: Any = session.spark
    return bool(spark.is_stopped)
