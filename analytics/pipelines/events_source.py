"""Spark's source `events`: the events of an event log, in their order (`analytics.inflow.event_log`).

Offsets are `{<table>: <number of the last event>}`. Events are collected until there are `messages` of them, or the
first of them has waited for `interval_ms`, whichever is first: what is given at once is a batch of Spark's. Where more
of them wait it has `calls` times as many, which the sink takes in so many calls: a batch costs Spark a tenth of a
second. They go to the sink as rows, or as the one row of a stretch of the log that it reads itself (`stretches`).

When Spark asks for more, the batch before has been delivered; where that was is told in the pipeline's state
(`reaches`).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit
from pyspark.sql.types import StructType

from analytics.inflow.event_reader import Ahead, Range, Reader, Trimmed
from analytics.inflow.segments import Entry, LogDamaged
from analytics.pipelines import reaches
from analytics.pipelines.reports import Reached
from analytics.pipelines.stretches import Stretch, failure_of
from analytics.pipelines.table_source import TableSource, made

#: Of the events of a batch, unless one alone has more, bytes: as rows, and as a stretch, which nobody holds at once.
MOST_BYTES, MOST_STRETCH_BYTES = 16 << 20, 64 << 20
#: How long Spark waits for an answer at most, s: who stops a pipeline waits for it. And between two looks at the log.
_PATIENCE_S, _LOOK_S = 0.5, 0.02
#: How often it is told how far the log goes while nothing is read, s.
_TELL_S = 1.0
Offset = dict[str, int]


@dataclass(frozen=True)
class EventsSource:
    """Everything that a reader needs."""

    name: str
    #: The log's folder, as a path of this machine.
    log: str
    state: str
    messages: int = 100
    #: How many times as many events one batch may have where they are there.
    calls: int = 1
    interval_ms: int = 3000
    #: Where a pipeline without a checkpoint begins: the first event of this time or later; None for the first there is.
    start_ms: int | None = None
    #: Whether it goes on with the first event there is where those before were removed unread.
    skips: bool = False
    #: Whether its rows are stretches.
    by_stretches: bool = False

    def tell(self, reached: Reached) -> None:
        """Write down where it stands. Raises OSError where the state is gone."""
        reaches.tell(self.state, self.name, reached)

    def stretch(self, after: int, until: int) -> Stretch:
        """Of the log."""
        return Stretch(self.log, after, until, self.skips)


class _Progress:
    """What is kept between two questions of Spark's, in the reader's long-lived process."""

    def __init__(self, source: EventsSource) -> None:
        self._source = source
        self._reader = Reader(Path(source.log))
        #: When the first event that waits was seen, monotonic.
        self._since: float | None = None
        self._given: Entry | None = None
        self._told = Reached()
        self._told_at = float("-inf")

    def first(self) -> int:
        """The number of the event before the first one."""
        if self._source.start_ms is not None:
            return self._reader.at_time(self._source.start_ms) - 1
        return self._reader.range().first - 1

    def latest(self, after: int) -> int:
        """The last event of the next batch, which Spark may be told now; `after` when there is none yet."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            now = self._reader.range()
            self._tell(after, now)
            if after + 1 < now.first:
                if not self._source.skips:
                    raise Trimmed(now.first)
                after = now.first - 1
            if after > now.last:
                raise Ahead(now.last)
            pending, clock = now.last - after, time.monotonic()
            if pending:
                self._since = self._since or clock
                left = self._since + self._source.interval_ms / 1000 - clock
                if pending >= self._source.messages or left <= 0:
                    return self._batch(after)
            if clock >= deadline:
                return after
            time.sleep(_LOOK_S)

    def _batch(self, after: int) -> int:
        most_bytes = MOST_STRETCH_BYTES if self._source.by_stretches else MOST_BYTES
        self._given = self._reader.skim(after, self._source.messages * self._source.calls, most_bytes)
        self._since = None
        return self._given.sequence

    def _tell(self, after: int, now: Range) -> None:
        """That all up to `after` is delivered."""
        if after != self._told.sequence or not self._told_at > 0:
            at = self._entry(after, now)
            self._told = Reached(after, at.position if at else "", at.time_ms if at else None)
        elif now.last == self._told.last or (self._told.pending and time.monotonic() - self._told_at < _TELL_S):
            return  # that events wait is told at once: they may do so for long
        self._told = Reached(after, self._told.position, self._told.time_ms, now.last, now.last_ms)
        self._told_at = time.monotonic()
        self._source.tell(self._told)

    def _entry(self, number: int, now: Range) -> Entry | None:
        if self._given is not None and self._given.sequence == number:
            return self._given
        with contextlib.suppress(Trimmed, Ahead):
            if now.first <= number <= now.last:
                return self._reader.read(number - 1, 1)[0]
        return None


class EventsReader(DataSourceStreamReader):
    """Reads one log, as one partition, so that its order is kept."""

    def __init__(self, source: EventsSource) -> None:
        self._source = source  # nothing else that is open: Spark pickles readers
        self._progress: _Progress | None = None

    def _asked(self) -> _Progress:
        if self._progress is None:
            self._progress = _Progress(self._source)
        return self._progress

    def initialOffset(self) -> Offset:  # noqa: N802  Spark's name
        """See `EventsSource.start_ms`."""
        try:
            return {self._source.name: self._asked().first()}
        except (LogDamaged, OSError) as error:
            raise failure_of(error) from error

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """All there is: `latestOffset` limits it."""
        return ReadAllAvailable()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """Spark asks when the batch that ends at `start` is delivered."""
        try:
            return {self._source.name: self._asked().latest(start[self._source.name])}
        except (Trimmed, Ahead, LogDamaged, OSError) as error:
            raise failure_of(error) from error

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """One."""
        name = self._source.name
        return [InputPartition((start[name], end[name]))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The events behind one number up to another."""
        stretch = self._source.stretch(*partition.value)
        if self._source.by_stretches:
            yield _rows([stretch.to_row()])
            return
        for entries in stretch.entries():
            yield _rows([entry.event for entry in entries])

    def commit(self, end: Offset) -> None:
        """Nothing: the log forgets by its own retention."""

    def stop(self) -> None:
        """Nothing is kept open that matters."""


def _rows(events: Sequence[bytes]) -> pa.RecordBatch:
    return pa.record_batch([pa.array(events, pa.binary())], names=["event"])


class EventsTable(TableSource):
    """The events of one log, in one column."""

    source: EventsSource

    def streamReader(self, schema: StructType) -> EventsReader:  # noqa: N802  Spark's
        """A reader of the log."""
        return EventsReader(self.source)


def source_class(label: str, source: EventsSource, columns: str) -> type[EventsTable]:
    """A source under the provider name `label` that reads this log and nothing else."""
    return made(EventsTable, label, source, columns)
