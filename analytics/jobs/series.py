"""Reads one curve from the rollups and from the samples that came after the last one. No Spark: a page waits for it."""

from collections import defaultdict
from collections.abc import Iterator
from datetime import date, timedelta
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from analytics import lake
from analytics.errors import LakeError
from analytics.jobs import files
from analytics.jobs.periods import LEAST_COVERED, LONGEST_SAMPLE_S, MINUTE_MS, PERIODS, day_of, start_of_period

#: A rollup may replace the files while they are read; it does so minutes apart, so one more look is enough.
_LOOKS = 3

Point = tuple[int, int, float]


def read_series(  # noqa: PLR0917  a curve has six coordinates
    kind: str, topic: str, group: str, begin_ms: int, end_ms: int, period_minutes: int
) -> list[tuple[int, int | None]]:
    """Messages per period, for every full period from the one that holds `begin_ms` to the last that ended by `end_ms`.

    Times are starts of periods, UTC ms. None is a gap: samples cover less than half of the period. Periods are 1, 5 or
    10 minutes; raises ValueError for others. `topic` and `group` are physical names, `group` is empty for kind "in".
    """
    if period_minutes not in PERIODS:
        raise ValueError(f"a period of {period_minutes} minutes; possible are {', '.join(map(str, PERIODS))}")
    length = period_minutes * MINUTE_MS
    first, last = begin_ms // length * length, end_ms // length * length
    counts: dict[int, int] = defaultdict(int)
    seconds: dict[int, float] = defaultdict(float)
    for day in _days(first, last):
        for start, count, covered in _points(day, kind, topic, group, period_minutes):
            counts[start] += count
            seconds[start] += covered
    needed = length / 1000 * LEAST_COVERED
    return [(start, counts[start] if seconds[start] >= needed else None) for start in range(first, last, length)]


def _days(first_ms: int, last_ms: int) -> Iterator[date]:
    if first_ms >= last_ms:
        return
    day, end = day_of(first_ms + 1), day_of(last_ms)
    while day <= end:
        yield day
        day += timedelta(days=1)


def _points(day: date, kind: str, topic: str, group: str, minutes: int) -> list[Point]:
    for look in range(_LOOKS):
        try:
            state = files.look(day)
            rolled = _rolled(state, kind, topic, group, minutes)
            return rolled + [point for file in state.raw for point in _raw(file, kind, topic, group, minutes)]
        except LakeError as error:
            if look == _LOOKS - 1 or not error.is_missing:
                raise
    return []


def _rolled(state: files.Day, kind: str, topic: str, group: str, minutes: int) -> list[Point]:
    if state.manifest.rollup is None:
        return []
    wanted = [("minutes", "=", minutes), ("kind", "=", kind), ("topic", "=", topic), ("group", "=", group)]
    with lake.open_file(state.folder + state.manifest.rollup) as file:
        table = pq.read_table(file, columns=["ts_ms", "count", "seconds"], filters=wanted, partitioning=None)
    return _rows(table)


def _raw(file: lake.LakeFile, kind: str, topic: str, group: str, minutes: int) -> list[Point]:
    table = _raw_file(file)
    wanted = (
        (pc.field("kind") == kind)
        & (pc.field("topic") == topic)
        & (pc.field("group") == group)
        & (pc.field("seconds") <= LONGEST_SAMPLE_S)
    )
    return [(start_of_period(ts_ms, minutes), count, covered) for ts_ms, count, covered in _rows(table.filter(wanted))]


@lru_cache(maxsize=1024)
def _raw_file(file: lake.LakeFile) -> pa.Table:
    """A raw file never changes, and every curve of a page wants the same ones."""
    with lake.open_file(file.location) as opened:
        return pq.read_table(opened, schema=files.SCHEMA, partitioning=None)


def _rows(table: pa.Table) -> list[Point]:
    columns = [table.column(name).to_pylist() for name in ("ts_ms", "count", "seconds")]
    return list(zip(*columns, strict=True))
