"""The cores are shared between tenants, and by a tenant's own statements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analytics import engine, session
from analytics.specs import TableSpec
from tests.analytics.conftest import specification
from tests.analytics.sql.test_engine import in_background, wait_for_its_job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Runs for minutes, in thousands of short tasks.
LONG = "select sum(hash(f.tailnum, r.id)) from flights f cross join range(0, 100000, 1, 2000) r"


def test_a_pool_is_made_once_and_fair_inside(spark: SparkSession) -> None:
    for _ in range(2):
        session.ensure_pool(spark.sparkContext, "carol")
    java: Any = spark.sparkContext._jsc
    pool = java.sc().taskScheduler().rootPool().getSchedulableByName("carol")
    assert str(pool.schedulingMode()) == "FAIR"
    queue = java.sc().taskScheduler().rootPool().schedulableQueue()
    assert [found.name() for found in queue.toArray()].count("carol") == 1


def test_a_short_statement_does_not_wait_for_its_own_tenants_long_one(
    spark: SparkSession, demo_tables: list[TableSpec]
) -> None:
    long = specification(LONG, {"demo": demo_tables})
    thread, outcome = in_background(long)
    try:
        wait_for_its_job(long)
        engine.run_query(specification("select count(*) from airlines", {"demo": demo_tables}))
        assert not outcome, "the long one still runs"
    finally:
        engine.cancel(long.task_id)
        thread.join(30)


def test_no_statement_starves_behind_more_long_ones_of_its_tenant_than_there_are_cores(
    spark: SparkSession, demo_tables: list[TableSpec]
) -> None:
    many = [specification(LONG, {"demo": demo_tables}) for _ in range(spark.sparkContext.defaultParallelism + 1)]
    running = [in_background(one) for one in many]
    try:
        for one in many:
            wait_for_its_job(one)
        for _ in range(3):
            engine.run_query(specification("select count(*) from airlines", {"demo": demo_tables}))
        assert not any(outcome for _, outcome in running), "the long ones still run"
    finally:
        for one in many:
            engine.cancel(one.task_id)
        for thread, _ in running:
            thread.join(60)
