"""A job whose sink waits for its next try, on all cores that there are, keeps none of them from other jobs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from analytics import session as spark_session
from analytics.pipelines import checkpoints, runner, waits
from analytics.pipelines.plan import Source, Value
from analytics.pipelines.runner import Pipeline
from tests.pipelines.jobs import Ground, new_location, plan_of, printed, until
from tests.pipelines.test_engine_waits import unreachable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCE_SECONDS = 60.0


def numbers(ground: Ground, tasks: int = 1) -> Source:
    """Rows without end, in batches of so many tasks."""
    options: dict[str, Value] = {"rows-per-second": 10 * tasks, "scan.parallelism": tasks}
    return replace(ground.mns("", "id bigint"), name="numbers", connector="datagen", format="", options=options)


@pytest.fixture(scope="module")
def cores(spark: SparkSession) -> int:
    return spark.sparkContext.defaultParallelism


@pytest.fixture(scope="module", params=["streaming", "batch"])
def waiting(ground: Ground, cores: int, request: pytest.FixtureRequest) -> Iterator[Pipeline]:
    """A job of alice, of which as many tasks wait as there are cores, and more are to follow."""
    source = numbers(ground, 2 * cores)
    if request.param == "batch":
        source = replace(source, options=dict(source.options) | {"number-of-rows": 100})
    plan = plan_of(source, unreachable(ground, ground.new_topic()), "select id from numbers", mode=request.param)
    pipeline = runner.start(ground.spec(plan))
    until(lambda: waits.processes(pipeline._held.state).get("carriers", 0) >= cores, pipeline)
    yield pipeline
    assert pipeline.is_running and pipeline.report().waiting
    pipeline.stop()


@pytest.mark.parametrize("tenant", ["alice", "bob"])
def test_another_job_of_any_account_goes_on(ground: Ground, waiting: Pipeline, tenant: str) -> None:
    plan = plan_of(numbers(ground), printed("shown", "id bigint"), "select id from numbers")
    other = runner.start(replace(ground.spec(plan), tenant=tenant))
    try:
        until(lambda: (other.report().inserts[0].batch or 0) >= 3, other)
    finally:
        other.stop()


@pytest.mark.parametrize("tenant", ["alice", "bob"])
def test_tasks_of_an_account_run_beside_each_other(
    spark: SparkSession, waiting: Pipeline, cores: int, tenant: str
) -> None:
    folder = str(checkpoints.claim(new_location(), 1).state)

    def meet(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Wait until all tasks have begun; tell how many have."""
        for batch in batches:
            (Path(folder) / str(batch.column(0)[0])).touch()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(list(Path(folder).iterdir())) < cores and time.monotonic() < deadline:
            time.sleep(0.05)
        yield pa.RecordBatch.from_pydict({"met": [len(list(Path(folder).iterdir()))]})

    context = spark.sparkContext
    spark_session.ensure_pool(context, tenant)
    context.setLocalProperty("spark.scheduler.pool", tenant)
    context.addJobTag("meeting")
    in_time = threading.Timer(2 * PATIENCE_SECONDS, context.cancelJobsWithTag, ["meeting"])
    in_time.start()
    try:
        met = spark.range(0, cores, 1, cores).mapInArrow(meet, "met long").collect()
    finally:
        in_time.cancel()
        context.removeJobTag("meeting")
        context.setLocalProperty("spark.scheduler.pool", None)  # type: ignore[arg-type]
    assert [row.met for row in met] == [cores] * cores


def test_no_further_task_of_the_job_that_waits_begins_to_wait(waiting: Pipeline, cores: int) -> None:
    assert waits.processes(waiting._held.state) == {"carriers": cores}
