"""Reads the counts of many topics at once, per minute: for statements of tenants over `gantry.samples`. No Spark."""

from collections.abc import Iterator
from datetime import UTC, date, datetime

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from analytics import lake
from analytics.errors import LakeError
from analytics.jobs import files
from analytics.jobs.periods import LONGEST_SAMPLE_S, start_of_period

#: A rollup may replace the files while they are read; it does so minutes apart, so one more look is enough.
_LOOKS = 3
_SERIES = ["kind", "topic", "group", "ts_ms"]

Minute = tuple[str, str, str, datetime, int, float]


def read_minutes(topics: set[str], first: date) -> Iterator[Minute]:
    """Kind, topic, group, start of the minute, messages, seconds covered by samples; from the UTC day `first` on.

    `topics` are physical names; only their series are read. A day at a time is held in memory.
    """
    wanted = pa.array(sorted(topics), pa.string())
    for day in lake.metrics_days():
        if day >= first and topics:
            yield from _day(day, wanted)


def _day(day: date, topics: pa.Array) -> Iterator[Minute]:
    for look in range(_LOOKS):
        try:
            table = _read(files.look(day), topics)
            break
        except LakeError as error:
            if look == _LOOKS - 1 or not error.is_missing:
                raise
    summed = table.group_by(_SERIES).aggregate([("count", "sum"), ("seconds", "sum")])
    for batch in summed.to_batches(max_chunksize=10_000):
        for row in batch.to_pylist():
            start = datetime.fromtimestamp(row["ts_ms"] / 1000, UTC)
            yield row["kind"], row["topic"], row["group"], start, row["count_sum"], row["seconds_sum"]


def _read(state: files.Day, topics: pa.Array) -> pa.Table:
    """What the rollup has, and the samples that came since, as starts of minutes."""
    of_topics = pc.field("topic").isin(topics)
    tables = [files.SCHEMA.empty_table()]
    if state.manifest.rollup is not None:
        wanted = of_topics & (pc.field("minutes") == 1)
        with lake.open_file(state.folder + state.manifest.rollup) as file:
            rolled = pq.read_table(file, columns=files.SCHEMA.names, filters=wanted, partitioning=None)
        tables.append(rolled.cast(files.SCHEMA))
    for raw in state.raw:
        wanted = of_topics & (pc.field("seconds") <= LONGEST_SAMPLE_S)
        with lake.open_file(raw.location) as file:
            found = pq.read_table(file, schema=files.SCHEMA, filters=wanted, partitioning=None)
        starts = [start_of_period(ts_ms, 1) for ts_ms in found.column("ts_ms").to_pylist()]
        tables.append(found.set_column(found.schema.get_field_index("ts_ms"), "ts_ms", pa.array(starts, pa.int64())))
    return pa.concat_tables(tables)
