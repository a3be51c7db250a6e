"""Spark job: merges a day's samples, sorts them by (kind, topic, group, time) and sums them up per 1, 5 and 10 minutes.

extract → transform → load; only `transform` holds rules. Rolling a day up again, for late samples, is the same job.
"""

import fcntl
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from typing import TYPE_CHECKING

from analytics import lake, uses
from analytics import session as spark_session
from analytics.lake import allowed_paths
from analytics.lake.locations import DRAFT
from analytics.samples import files
from analytics.samples.files import LONGEST_SAMPLE_S, MINUTE_MS, PERIODS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Small row groups, so that the reader of one topic skips the others by their statistics.
_ROW_GROUP_ROWS = 14_400
_SAMPLES = "kind string, topic string, `group` string, ts_ms bigint, count bigint, seconds double"
_SERIES = ("kind", "topic", "group")
#: The share of the cores that our own jobs have.
_POOL = "gantry"


def rollup(day: date) -> bool:
    """Roll up a UTC day. Returns False without starting Spark when nothing came since the last time."""
    with _only_one(day) as state:
        if not state.raw:
            return False
        with session() as spark, allowed_paths.reaching(spark, state.folder):
            samples = merged(extract(spark, state))
            manifest = files.Manifest(
                samples=_load(samples, "samples", (*_SERIES, "ts_ms"), state.folder),
                rollup=_load(transform(samples), "rollup", ("minutes", *_SERIES, "ts_ms"), state.folder),
                merged=[files.name_of(file) for file in state.raw + state.leftover],
            )
        files.replace_manifest(state, manifest)
        return True


def days_to_roll_up() -> list[date]:
    """The UTC days with samples that came after their last rollup, oldest first."""
    return [day for day in lake.metrics_days() if files.look(day).raw]


def extract(spark: "SparkSession", state: files.Day) -> "DataFrame":
    """All samples of the day: those merged before and those that came since."""
    locations = [file.location for file in state.raw + state.leftover]
    if state.manifest.samples:
        locations.append(state.folder + state.manifest.samples)
    return spark.read.schema(_SAMPLES).parquet(*map(lake.spark_url, locations))


def merged(samples: "DataFrame") -> "DataFrame":
    """A sample that was delivered twice counts once."""
    return samples.dropDuplicates([*_SERIES, "ts_ms"])


def transform(samples: "DataFrame") -> "DataFrame":
    """Sums of count and of seconds covered, per kind, topic, group and period; `ts_ms` is the period's start.

    A period without samples has no row: it is a gap. A sample over more than LONGEST_SAMPLE_S does not tell when its
    messages came, so it makes no row either.
    """
    from pyspark.sql import functions as F  # noqa: N812  Spark's documentation calls it so

    length_ms = F.col("minutes") * F.lit(MINUTE_MS)
    start_of_period = F.floor((F.col("ts_ms") - 1) / length_ms) * length_ms
    tells_when = F.col("seconds") <= F.lit(LONGEST_SAMPLE_S)
    placed = samples.where(tells_when).select(
        F.explode(F.array(*[F.lit(minutes) for minutes in PERIODS])).alias("minutes"),
        *_SERIES,
        "ts_ms",
        "count",
        "seconds",
    )
    sums = (
        placed.withColumn("ts_ms", start_of_period.cast("bigint"))
        .groupBy("minutes", *_SERIES, "ts_ms")
        .agg(F.sum("count").alias("count"), F.sum("seconds").alias("seconds"))
    )
    return sums.select("minutes", *_SERIES, "ts_ms", "count", "seconds")


def _load(frame: "DataFrame", prefix: str, order: tuple[str, ...], folder: str) -> str:
    """Write the frame sorted into one file of the folder; returns its name."""
    name = f"{prefix}-{uuid.uuid4().hex}.parquet"
    parts = f"{folder}{DRAFT}{uuid.uuid4().hex}/"
    writer = frame.coalesce(1).sortWithinPartitions(*order).write
    try:
        writer.option("parquet.block.row.count.limit", _ROW_GROUP_ROWS).parquet(lake.spark_url(parts))
        (part,) = lake.files(parts)
        lake.move(part.location, folder + name)
    finally:
        lake.remove(parts)
    return name


@contextmanager
def _only_one(day: date) -> Iterator[files.Day]:
    """The day's state, locked: two rollups of one day would each remove what the other made."""
    with lake.lock_file("rollup").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield files.look(day)


@contextmanager
def session() -> Iterator["SparkSession"]:
    """The process's session, for as long as the block runs. Raises EngineUnavailable."""
    with uses.one():
        spark = spark_session.get()
        spark_session.ensure_pool(spark.sparkContext, _POOL)
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", _POOL)
        yield spark
