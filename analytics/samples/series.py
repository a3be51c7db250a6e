"""Reads curves from the rollups and from the samples that came after the last one. No Spark: a page waits for it."""

from collections import defaultdict
from collections.abc import Collection, Iterator
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from analytics import lake
from analytics.errors import LakeError
from analytics.samples import files
from analytics.samples.files import LEAST_COVERED, LONGEST_SAMPLE_S, MINUTE_MS, PERIODS, day_of, start_of_period

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc

#: A rollup may replace the files while they are read; it does so minutes apart, so one more look is enough.
_LOOKS = 3
_SERIES = ["kind", "topic", "group", "ts_ms"]

_COLUMNS = [*_SERIES, "count", "seconds"]

#: Kind, topic and group.
Series = tuple[str, str, str]
#: The series, start of a period, messages, seconds covered.
Point = tuple[Series, int, int, float]
#: Kind, topic, group, start of the minute, messages, seconds covered.
Minute = tuple[str, str, str, datetime, int, float]


class Counts(NamedTuple):
    """Messages and the seconds in which they came, by series and start of a period; and what was sampled at all."""

    by_series: dict[Series, dict[int, tuple[int, float]]]
    covered: dict[int, float]


class Wanted(NamedTuple):
    """Some series, and the one of kind "in" that tells what was sampled at all; "" for none."""

    series: frozenset[Series]
    coverage: str

    def filter(self) -> "pc.Expression":
        """Of the rows of a file, those of these series; of several also others of the same topics and groups."""
        import pyarrow.compute as pc

        kinds, topics, groups = (sorted(set(part)) for part in zip(*self.series, strict=True))
        own = pc.field("kind").isin(kinds) & pc.field("topic").isin(topics) & pc.field("group").isin(groups)
        return own | ((pc.field("kind") == "in") & (pc.field("topic") == self.coverage)) if self.coverage else own


def read_series(  # noqa: PLR0917  a curve has six coordinates
    kind: str, topic: str, group: str, begin_ms: int, end_ms: int, period_minutes: int, *, coverage: str = ""
) -> list[tuple[int, int | None]]:
    """Messages per period, for every full period from the one that holds `begin_ms` to the last that ended by `end_ms`.

    Times are starts of periods, UTC ms. None is a gap: samples cover less than half of the period. Periods are 1, 5 or
    10 minutes; raises ValueError for others. `topic` and `group` are physical names, `group` is empty for kind "in".
    `coverage` is the "topic" whose samples of kind "in" tell what was sampled at all: then a period in which nothing
    of the series was counted is 0, not a gap.
    """
    series = (kind, topic, group)
    found = read_counts([series], begin_ms, end_ms, period_minutes, coverage=coverage)
    length = period_minutes * MINUTE_MS
    needed, own = length / 1000 * LEAST_COVERED, found.by_series[series]
    curve: list[tuple[int, int | None]] = []
    for start in range(begin_ms // length * length, end_ms // length * length, length):
        count, seconds = own.get(start, (0, 0.0))
        is_known = max(seconds, found.covered.get(start, 0.0)) >= needed
        curve.append((start, count if is_known else None))
    return curve


def read_counts(
    series: Collection[Series], begin_ms: int, end_ms: int, period_minutes: int, *, coverage: str = ""
) -> Counts:
    """What `read_series` adds up, of several series with one look at each file, and however little was sampled.

    Every series has its place in the answer. Raises ValueError for periods other than 1, 5 or 10 minutes.
    """
    if period_minutes not in PERIODS:
        raise ValueError(f"a period of {period_minutes} minutes; possible are {', '.join(map(str, PERIODS))}")
    length = period_minutes * MINUTE_MS
    first, last = begin_ms // length * length, end_ms // length * length
    found = Counts({one: {} for one in series}, defaultdict(float))
    wanted = Wanted(frozenset(series), coverage)
    for day in _days(first, last) if series else ():
        for of, start, count, seconds in _points(day, wanted, period_minutes):
            if coverage and of[1] == coverage:
                found.covered[start] += seconds
            elif (own := found.by_series.get(of)) is not None:
                messages, covered = own.get(start, (0, 0.0))
                own[start] = messages + count, covered + seconds
    return found


def _days(first_ms: int, last_ms: int) -> Iterator[date]:
    if first_ms >= last_ms:
        return
    day, end = day_of(first_ms + 1), day_of(last_ms)
    while day <= end:
        yield day
        day += timedelta(days=1)


def _points(day: date, wanted: Wanted, minutes: int) -> list[Point]:
    for look in range(_LOOKS):
        try:
            state = files.look(day)
            rolled = _rolled(state, wanted, minutes)
            return rolled + [point for file in state.raw for point in _raw(file, wanted, minutes)]
        except LakeError as error:
            if look == _LOOKS - 1 or not error.is_missing:
                raise
    return []


def _rolled(state: files.Day, wanted: Wanted, minutes: int) -> list[Point]:
    if state.manifest.rollup is None:
        return []
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    filters = (pc.field("minutes") == minutes) & wanted.filter()
    with lake.open_file(state.folder + state.manifest.rollup) as file:
        return _rows(pq.read_table(file, columns=_COLUMNS, filters=filters, partitioning=None))


def _raw(file: lake.LakeFile, wanted: Wanted, minutes: int) -> list[Point]:
    import pyarrow.compute as pc

    rows = _rows(_raw_file(file).filter(wanted.filter() & (pc.field("seconds") <= LONGEST_SAMPLE_S)))
    return [(of, start_of_period(ts_ms, minutes), count, seconds) for of, ts_ms, count, seconds in rows]


@lru_cache(maxsize=1024)
def _raw_file(file: lake.LakeFile) -> "pa.Table":
    """A raw file never changes, and every curve of a page wants the same ones."""
    import pyarrow.parquet as pq

    with lake.open_file(file.location) as opened:
        return pq.read_table(opened, schema=files.schema(), partitioning=None)


def _rows(table: "pa.Table") -> list[Point]:
    kinds, topics, groups, *rest = (table.column(name).to_pylist() for name in _COLUMNS)
    return list(zip(zip(kinds, topics, groups, strict=True), *rest, strict=True))


def read_minutes(topics: set[str], first: date) -> Iterator[Minute]:
    """Kind, topic, group, start of the minute, messages, seconds covered by samples; from the UTC day `first` on.

    `topics` are physical names; only their series are read. A day at a time is held in memory.
    """
    import pyarrow as pa

    wanted = pa.array(sorted(topics), pa.string())
    for day in lake.metrics_days():
        if day >= first and topics:
            yield from _day(day, wanted)


def _day(day: date, topics: "pa.Array") -> Iterator[Minute]:
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


def _read(state: files.Day, topics: "pa.Array") -> "pa.Table":
    """What the rollup has, and the samples that came since, as starts of minutes."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    of_topics = pc.field("topic").isin(topics)
    tables = [files.schema().empty_table()]
    if state.manifest.rollup is not None:
        wanted = of_topics & (pc.field("minutes") == 1)
        with lake.open_file(state.folder + state.manifest.rollup) as file:
            rolled = pq.read_table(file, columns=files.schema().names, filters=wanted, partitioning=None)
        tables.append(rolled.cast(files.schema()))
    for raw in state.raw:
        wanted = of_topics & (pc.field("seconds") <= LONGEST_SAMPLE_S)
        with lake.open_file(raw.location) as file:
            found = pq.read_table(file, schema=files.schema(), filters=wanted, partitioning=None)
        starts = [start_of_period(ts_ms, 1) for ts_ms in found.column("ts_ms").to_pylist()]
        tables.append(found.set_column(found.schema.get_field_index("ts_ms"), "ts_ms", pa.array(starts, pa.int64())))
    return pa.concat_tables(tables)
