"""Statements on real Spark: results and counters, failures in one sentence, cancelling, time limit, fairness."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from analytics import engine, lake
from analytics.errors import QueryCancelled, QueryFailed, QueryRefused, QueryTimedOut
from analytics.specs import Column, QueryResult, QuerySpec, TableSpec
from analytics.sql import running
from tests.analytics.conftest import result_text, specification, write_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Runs for minutes when nobody ends it.
ENDLESS = "select max(a.id * b.id % 7) from range(1000000000) a cross join range(10000) b"

#: Runs for minutes too, in tasks of a second or two, each of which gives its core to who has waited.
MANY_SHORT_TASKS = (
    "select /*+ broadcast(f) */ sum(hash(f.tailnum, r.id)) from range(0, 100000, 1, 500) r cross join flights f"
)


def test_a_query_leaves_its_result_and_tells_what_it_cost(spark: SparkSession, demo_tables: list[TableSpec]) -> None:
    spec = specification(
        "select carrier, count(*) as flights from flights where month = 1 group by carrier order by 2 desc limit 3",
        {"demo": demo_tables},
    )
    result = engine.run_query(spec)
    assert result_text(spec) == "carrier,flights\nUA,4637\nB6,4427\nEV,4171\n"
    assert result.row_count == 3
    assert result.columns == [Column("carrier", "string"), Column("flights", "bigint")]
    assert 27_004 <= result.scanned_row_count <= 336_776
    assert 1_000 < result.scanned_data_bytes < 2_000_000
    assert 0 < result.elapse_ms < 60_000
    assert re.fullmatch(r"\d{8}_\d{6}_\d{5}_[a-z0-9]{5}", result.engine_query_id)


def test_the_scanned_bytes_are_those_of_the_columns_read(ask: Callable[..., QueryResult]) -> None:
    one, all_of_them = ask("select count(tailnum) from flights"), ask("select * from flights")
    assert one.scanned_row_count == all_of_them.scanned_row_count == 336_776
    assert one.scanned_data_bytes < all_of_them.scanned_data_bytes / 4
    file = Path(lake.lake_path("oss://alice-lake/demo/flights/part-0.parquet"))
    assert all_of_them.scanned_data_bytes == pytest.approx(file.stat().st_size, rel=0.05)


def test_a_large_result_is_whole_and_counted_once(spark: SparkSession, demo_tables: list[TableSpec]) -> None:
    spec = specification("select * from flights", {"demo": demo_tables})
    result = engine.run_query(spec)
    assert (result.row_count, result.scanned_row_count) == (336_776, 336_776)
    assert result_text(spec).count("\n") == 336_777
    assert [path.name for path in Path(lake.lake_path(spec.result_file)).parent.iterdir()] == ["result.csv"]


def test_a_query_without_tables_scans_nothing(ask: Callable[..., QueryResult]) -> None:
    result = ask("select 1 as one")
    assert (result.row_count, result.scanned_row_count, result.scanned_data_bytes) == (1, 0, 0)


def test_parameters_are_values(csv_of: Callable[..., str]) -> None:
    sql = "select ? as a, ? as b, count(*) as n from flights where carrier = ? and month = ?"
    text = csv_of(sql, parameters=("it's \\ 2'; --", None, "UA", 1))
    assert text == "a,b,n\nit's \\ 2'; --,,4637\n"


@pytest.mark.parametrize(
    ("sql", "condition", "message"),
    [
        ("selec 1", "PARSE_SYNTAX_ERROR", "Syntax error at or near 'selec'. (line 1, position 0)"),
        (
            "select monthh from flights",
            "UNRESOLVED_COLUMN.WITH_SUGGESTION",
            "A column, variable, or function parameter with name `monthh` cannot be resolved.",
        ),
        ("select nosuch(1)", "UNRESOLVED_ROUTINE", "Cannot resolve routine `"),
        ("select 1 / month - 1 / (month - month) from flights", "DIVIDE_BY_ZERO", "Division by zero."),
        ("select cast(tailnum as int) from flights", "CAST_INVALID_INPUT", "cannot be cast to"),
        ("select raise_error('my own reason')", "USER_RAISED_EXCEPTION", "my own reason"),
        ("select :name", "UNBOUND_SQL_PARAMETER", "name"),
    ],
)
def test_a_failure_is_sparks_reason_in_one_sentence(
    ask: Callable[..., QueryResult], sql: str, condition: str | None, message: str
) -> None:
    with pytest.raises(QueryFailed) as failure:
        ask(sql)
    said = failure.value.user_message
    assert message in said
    assert condition is None or failure.value.condition == condition
    assert "\n" not in said
    for noise in ("SQLSTATE", "org.apache", "Exception", "spark.sql.", "== SQL", "'Project", "/lake/"):
        assert noise not in said


def test_a_failed_query_leaves_no_file(spark: SparkSession, demo_tables: list[TableSpec]) -> None:
    spec = specification("select 1 / (month - month) from flights", {"demo": demo_tables})
    with pytest.raises(QueryFailed):
        engine.run_query(spec)
    assert lake.files(spec.result_file.removesuffix("result.csv"), hidden=True) == []


def test_a_table_without_files_is_an_error_and_not_an_empty_result(spark: SparkSession) -> None:
    table = TableSpec("gone", "oss://alice-lake/demo/gone/", "parquet", (Column("a", "int"),))
    with pytest.raises(QueryFailed, match=r"The table demo.gone has no files at oss://alice-lake/demo/gone/\."):
        engine.run_query(specification("select * from gone", {"demo": [table]}))


def test_more_rows_than_allowed_fail_the_query(ask: Callable[..., QueryResult]) -> None:
    assert ask("select * from airlines", max_result_rows=16).row_count == 16
    for sql in ("select * from flights", "select * from airlines"):
        with pytest.raises(QueryFailed, match="more than 15 rows"):
            ask(sql, max_result_rows=15)


def in_background(spec: QuerySpec) -> tuple[threading.Thread, list[BaseException | QueryResult]]:
    """Start a statement; what comes of it is in the list when the thread has ended."""
    outcome: list[BaseException | QueryResult] = []

    def run_it() -> None:
        try:
            outcome.append(engine.run_query(spec))
        except BaseException as error:  # noqa: BLE001  the test looks at it
            outcome.append(error)

    thread = threading.Thread(target=run_it)
    thread.start()
    return thread, outcome


def wait_for_its_job(spec: QuerySpec) -> None:
    deadline = time.monotonic() + 60
    while engine.progress(spec.task_id) is None:
        assert time.monotonic() < deadline, "the statement started no job"
        threading.Event().wait(0.02)


def test_a_running_query_is_cancelled(spark: SparkSession) -> None:
    spec = specification(ENDLESS, {"demo": []})
    thread, outcome = in_background(spec)
    wait_for_its_job(spec)
    assert engine.cancel(spec.task_id)
    thread.join(60)
    assert not thread.is_alive(), "it would go on for ever"
    assert isinstance(outcome[0], QueryCancelled)
    assert not engine.cancel(spec.task_id)
    assert not Path(lake.lake_path(spec.result_file)).exists()


def test_cancelling_an_unknown_task_says_so() -> None:
    assert not engine.cancel("q-unknown")


def test_a_query_cancelled_before_its_first_job_does_not_run(
    ask: Callable[..., QueryResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "analytics.sql.sessions.TenantSession.register", lambda *_: engine.cancel(next(iter(running._running)))
    )
    with pytest.raises(QueryCancelled):
        ask("select * from airlines")


def test_a_query_ends_at_its_time_limit(ask: Callable[..., QueryResult]) -> None:
    started = time.monotonic()
    with pytest.raises(QueryTimedOut, match=r"ran longer than its limit of 1 s\."):
        ask(ENDLESS, time_limit_s=1)
    assert time.monotonic() - started < 60, "it would go on for ever"


def test_a_short_query_does_not_wait_for_a_long_one_of_another_tenant(
    spark: SparkSession, demo_tables: list[TableSpec]
) -> None:
    long = specification(MANY_SHORT_TASKS, {"demo": demo_tables})
    thread, outcome = in_background(long)
    try:
        wait_for_its_job(long)
        result = engine.run_query(specification("select count(*) from airlines", {"demo": demo_tables}, tenant="bob"))
        assert not outcome
        assert result.elapse_ms < 30_000
    finally:
        engine.cancel(long.task_id)
        thread.join(20)


def test_the_same_task_cannot_run_twice_at_once(spark: SparkSession) -> None:
    spec = specification(ENDLESS, {"demo": []})
    thread, _ = in_background(spec)
    try:
        wait_for_its_job(spec)
        with pytest.raises(QueryFailed, match="is running here already"):
            engine.run_query(spec)
    finally:
        assert engine.cancel(spec.task_id)
        thread.join(20)


def test_a_thread_keeps_nothing_of_the_tenant_it_worked_for(
    spark: SparkSession, ask: Callable[..., QueryResult]
) -> None:
    ask("select 1")
    with pytest.raises(QueryRefused):
        ask("drop table flights")
    assert spark.sparkContext.getLocalProperty("spark.scheduler.pool") is None
    assert list(spark.sparkContext.getJobTags()) == []


def test_new_files_of_a_table_are_seen_by_the_next_query(spark: SparkSession) -> None:
    import pyarrow as pa

    table = TableSpec("growing", "oss://alice-lake/demo/growing/", "parquet", (Column("a", "bigint"),))
    for rows in (2, 5, 1):
        write_table(table.location, pa.table({"a": range(rows)}))
        spec = specification("select count(*) as n from growing", {"demo": [table]})
        engine.run_query(spec)
        assert result_text(spec) == f"n\n{rows}\n"


def test_an_error_of_ours_is_logged_and_not_shown(
    ask: Callable[..., QueryResult], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise KeyError("an inner detail")

    monkeypatch.setattr("analytics.sql.result.write", fail)
    with pytest.raises(QueryFailed, match="failed by an error of its own; its log has it under") as failure:
        ask("select 1")
    assert "an inner detail" not in failure.value.user_message
    assert "an inner detail" in caplog.text
