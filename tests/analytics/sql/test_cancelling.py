"""A statement is out soon after it was cancelled, whatever it is doing; the JVM and its neighbours go on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from analytics import engine
from analytics.errors import QueryCancelled
from analytics.specs import Progress, QueryResult, TableSpec
from analytics.sql import running
from analytics.sql.backend import Backend
from tests.analytics.conftest import specification
from tests.analytics.sql.test_engine import in_background, wait_for_its_job
from tests.support.product import eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Each runs for a minute or more.
LONG = {
    "scan": "select sum(hash(f.tailnum, r.id)) from flights f cross join range(0, 1000000, 1, 16) r",
    "shuffle": "select count(*) from (select id % 3000000 as k from range(0, 900000000, 1, 16) group by 1)",
    "sort": "select max(n) from (select row_number() over (order by hash(id)) as n from range(90000000)) where n > 9",
    "join": "select count(*) from flights a join flights b on a.carrier = b.carrier where a.dep_delay > b.arr_delay",
    "large result": "select f.*, r.id from flights f cross join range(0, 4000, 1, 16) r",
}

#: Each makes so many rows of one that a task has minutes of work between two batches of what it reads.
MANY_OF_ONE = {
    "hash join": (
        "select sum(hash(a.tailnum, b.tailnum, c.tailnum)) from flights a join flights b on a.carrier = b.carrier"
        " join flights c on b.carrier = c.carrier"
    ),
    "nested loops": "select sum(hash(a.tailnum, b.tailnum)) from flights a join flights b on a.dep_delay > b.arr_delay",
    "explosion": (
        "select sum(hash(m, n)) from (select explode(sequence(1, 1000000)) as m) lateral view"
        " explode(sequence(1, 1000000)) as n"
    ),
}


@pytest.mark.parametrize("sql", LONG.values(), ids=LONG)
def test_it_is_out_while_its_jobs_run(spark: SparkSession, demo_tables: list[TableSpec], sql: str) -> None:
    spec = specification(sql, {"demo": demo_tables})
    thread, outcome = in_background(spec)
    wait_for_its_job(spec)
    assert engine.cancel(spec.task_id)
    thread.join(30)
    assert isinstance(outcome[0], QueryCancelled)
    assert spark.range(3).count() == 3


@pytest.mark.parametrize("sql", MANY_OF_ONE.values(), ids=MANY_OF_ONE)
def test_its_tasks_end_amid_what_makes_many_rows_of_one(
    spark: SparkSession, demo_tables: list[TableSpec], sql: str
) -> None:
    """A task that goes on keeps its core, and after half a minute it costs everybody the engine."""
    spec = specification(sql, {"demo": demo_tables})
    thread, outcome = in_background(spec)
    wait_for_its_job(spec)
    threading.Event().wait(2.5)  # what is broadcast is there by then
    assert engine.cancel(spec.task_id)
    thread.join(30)
    assert isinstance(outcome[0], QueryCancelled)
    eventually(lambda: not Backend().holds_cores(f"gantry-{spec.task_id}"), seconds=15, what="its tasks to end")


def test_it_is_out_between_analysis_and_its_first_job(
    ask: Callable[..., QueryResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan is made by a call that nobody can break off; at its end the statement goes no further."""
    reached = threading.Event()

    def cancelled(*_: object, **__: object) -> None:
        reached.set()
        assert engine.cancel(next(iter(running._running)))

    monkeypatch.setattr("analytics.sql.backend.Backend.most_rows", lambda *_: cancelled())
    with pytest.raises(QueryCancelled):
        ask("select * from airlines")
    assert reached.is_set()


def test_its_progress_is_known_while_it_runs_and_not_after(spark: SparkSession, demo_tables: list[TableSpec]) -> None:
    spec = specification(LONG["scan"], {"demo": demo_tables})
    thread, _ = in_background(spec)
    wait_for_its_job(spec)
    told: list[Progress] = []
    for _ in range(600):
        if (progress := engine.progress(spec.task_id)) is not None and progress.scanned_row_count:
            told.append(progress)
            break
        threading.Event().wait(0.05)
    engine.cancel(spec.task_id)
    thread.join(30)
    assert told
    assert 0 < told[0].stages_done + 1 <= told[0].stages + 1
    assert told[0].tasks >= told[0].tasks_done
    assert engine.progress(spec.task_id) is None
