"""Conditions on the store time of an archive choose its day folders."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from analytics.lake import allowed_paths
from analytics.sql import sessions, tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def archive(spark: SparkSession) -> SparkSession:
    """A session in which mq.t reads an archive of 100 hours from 2026-01-01, in a view as statements have it."""
    session = sessions.with_own_catalog(spark)
    moment = "timestamp_seconds(1767225600 + id * 3600)"
    url = allowed_paths.add(session, "oss://gantry-archive-test/days/")
    rows = session.sql(f"select id as offset, {moment} as store_time, to_date({moment}) as day from range(100)")
    rows.write.mode("overwrite").partitionBy("day").parquet(url)
    session.sql("create database mq")
    session.sql(
        "create table mq.t_archive (offset bigint, store_time timestamp, day date) using parquet"
        f" partitioned by (day) location '{url}'"
    )
    session.sql("create view mq.t as select offset, store_time from mq.t_archive where offset < 90")
    tables.choose_by_time(session)
    return session


@pytest.mark.parametrize(
    ("condition", "rows", "chosen"),
    [
        ("store_time > '2026-01-03 05:00:00'", 36, {"(day >= 2026-01-03)"}),
        ("'2026-01-02' >= store_time", 25, {"(day <= 2026-01-02)"}),
        ("store_time = timestamp'2026-01-02 01:00:00'", 1, {"(day = 2026-01-02)"}),
        (
            "store_time between '2026-01-02' and '2026-01-03 02:00:00' and offset > 30",
            20,
            {"(day >= 2026-01-02)", "(day <= 2026-01-03)"},
        ),
        ("store_time > current_timestamp() + interval 1000 years", 0, None),
        ("store_time > '2026-01-03' or offset > 3", 86, set()),
        ("offset > 3", 86, set()),
    ],
)
def test_days_follow_from_times(archive: SparkSession, condition: str, rows: int, chosen: set[str] | None) -> None:
    frame = archive.sql(f"select offset from mq.t where {condition}")
    assert len(frame.collect()) == rows
    plan = frame._jdf.queryExecution().executedPlan().toString()
    (filters,) = re.findall(r"PartitionFilters: \[([^\]]*)\]", plan)
    found = {text for text in re.sub(r"#\d+", "", filters).split(", ") if "day" in text and "null" not in text}
    assert len(found) == 1 if chosen is None else found == chosen
