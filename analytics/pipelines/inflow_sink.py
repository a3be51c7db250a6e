"""Spark's sink `inflow`: events through the pattern, transform and fields of an inflow task to where its sink is.

One task of Spark's has all of a batch, in its order (`analytics.inflow.delivery`). What it counts is kept in the
pipeline's state; a batch that is repeated after a crash is counted once more, as it is delivered once more:

    <state>/sink-<name>/counters.json       the counts by their names (`delivery.Count`), since the first start
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from analytics import collector
from analytics.inflow.delivery import Count, Delivery, Misset, Stopped, text_of
from analytics.inflow.expressions import Expression
from analytics.inflow.sql_rows import Made, Row
from analytics.inflow.task import Task
from analytics.inflow.task_transforms import SqlTransform
from analytics.inflow.transform import MOST_BYTES, MOST_EVENTS, Transform, TransformFailed
from analytics.pipelines.connector_errors import ConnectorFailed, ConnectorMisset, ConnectorStopped
from analytics.pipelines.inflow_sql import EVENT, FAILED, ROW_OF_EVENT
from analytics.pipelines.inflow_targets import Target
from analytics.pipelines.plan import file_name
from analytics.pipelines.stretches import events_of
from analytics.pipelines.waits import Pauses

#: Events and bytes of a call: a batch of Spark's is one of these, unless it was made of several after a crash.
_MOST_BYTES = 32 << 20
_MOST_TRANSFORMS = 4
_COUNTERS = "counters.json"

_lock = threading.Lock()
#: Of this process: those of expressions have processes of their own, which stay for the next batch.
_transforms: OrderedDict[InflowSink, Transform] = OrderedDict()


@dataclass(frozen=True)
class InflowSink:
    """Everything that a writer needs; the secrets are in no plan and no log, as with `table_source`."""

    name: str
    #: The task, as JSON.
    document: str
    target: Target
    state: str
    function_key: bytes = field(default=b"", repr=False)
    #: Where functions may be beside public addresses, separated by commas.
    networks: str = ""

    @property
    def task(self) -> Task:
        """The task. Raises TaskError."""
        return _task(self.document)

    @property
    def is_query(self) -> bool:
        """Whether its transform is a query over each batch (`inflow_sql`)."""
        return isinstance(self.task.transform, SqlTransform)

    def transform(self) -> Transform | None:
        """A new transform, to be closed by its user. Raises TransformFailed."""
        return self.task.made_transform(self.function_key, [ip_network(one) for one in self.networks.split(",") if one])

    def require(self) -> None:
        """Raise what is wrong with the task: TaskError, TransformFailed for what is no expression, Misset."""
        transform = None if self.is_query else self.transform()
        if transform is not None:
            try:
                if isinstance(transform, Expression):
                    transform.check()
            finally:
                transform.close()
        self.target.require()

    def kept_transform(self) -> Transform | None:
        """The transform of this process. Raises TransformFailed."""
        if self.task.transform is None:
            return None
        with _lock:
            transform = _transforms.get(self)
            if transform is None and (transform := self.transform()) is not None:
                _transforms[self] = transform
            _transforms.move_to_end(self)
            if len(_transforms) > _MOST_TRANSFORMS:
                _transforms.popitem(last=False)[1].close()
            return transform

    def deliver(self, batches: Iterator[pa.RecordBatch]) -> int:
        """Deliver the events of one batch of Spark's; returns how many. Raises ConnectorFailed."""
        return self._deliver(_calls(batches, self.messages))

    def deliver_made(self, batches: Iterator[pa.RecordBatch]) -> int:
        """Deliver one batch of which a query has made rows (`inflow_sql`). Raises ConnectorFailed."""
        events, made = _of_query(batches)
        return self._deliver(_cut(events, self.messages), made)

    def _deliver(self, calls: Iterator[list[bytes]], transform: Transform | None = None) -> int:
        kept = Counters(Path(self.state), self.name)
        waits = _Waits(self, kept)
        rows = 0
        collector.calm()
        try:
            flow = self.task.flow(transform or self.kept_transform())
            with Delivery(flow, self.target, waits) as waits.delivery:
                for events in calls:
                    waits.delivery.deliver(events)
                    rows += len(events)
        except Stopped as error:
            raise ConnectorStopped(error.user_message) from error
        except (Misset, TransformFailed) as error:
            raise ConnectorMisset(error.user_message) from error
        finally:
            waits.end()
            waits.keep()
        return rows

    @property
    def messages(self) -> int:
        """Events of a call at most."""
        found = self.task.source.parts["messages"]
        return int(found)


@lru_cache(maxsize=_MOST_TRANSFORMS)
def _task(document: str) -> Task:
    """Not kept in the sink, which Spark pickles."""
    return Task.read(json.loads(document))


class _Waits:
    """Pauses between two tries, which the task's page shows; what was counted until then is kept."""

    def __init__(self, sink: InflowSink, kept: Counters) -> None:
        self._kept = kept
        self._pauses = Pauses(sink.state, sink.name, sink.task.retry.retries + 1, threading.Event())
        self.delivery: Delivery | None = None

    def take(self, seconds: float, tries: int, reason: str) -> None:
        """Raises ConnectorFailed when somebody else has the pipeline's state."""
        self.keep()
        self._pauses.take(round(seconds * 1000), tries, reason)

    def end(self) -> None:
        """No further try is waited for."""
        self._pauses.end()

    def keep(self) -> None:
        """Raises ConnectorFailed."""
        if self.delivery is not None:
            self._kept.keep(self.delivery.counts)


class Counters:
    """What a sink has counted since the pipeline's first start. One process adds to it at a time."""

    def __init__(self, state: Path, sink: str) -> None:
        self._sink = sink
        self._file = folder_of(state, sink) / _COUNTERS
        self._before = Counter(read_counters(state, sink))

    def keep(self, counts: Counter[str]) -> None:
        """Write what this batch has counted until now beside what was counted before it; whole or not at all.

        Raises ConnectorFailed where the state is gone.
        """
        draft = self._file.with_suffix(".draft")
        try:
            with draft.open("w", encoding="utf-8") as opened:
                json.dump(dict(self._before + counts), opened)
                opened.flush()
                os.fsync(opened.fileno())
            os.replace(draft, self._file)
        except OSError as error:
            raise ConnectorFailed(f"The state of the pipeline cannot be written: {error}.") from error


def folder_of(state: str | Path, sink: str) -> Path:
    """The folder of a sink in the pipeline's state."""
    return Path(state) / f"sink-{file_name(sink)}"


def read_counters(state: str | Path, sink: str) -> dict[str, int]:
    """What a sink has counted, all of them; zeros before its first batch."""
    found: dict[str, int] = {}
    with contextlib.suppress(OSError, ValueError):  # it moves with the state, which the runner notices itself
        found = json.loads((folder_of(state, sink) / _COUNTERS).read_text(encoding="utf-8"))
    return {str(name): int(found.get(name, 0)) for name in Count}


def _calls(batches: Iterator[pa.RecordBatch], most: int) -> Iterator[list[bytes]]:
    """The events of one batch, so many at a time. Raises ConnectorFailed, ConnectorMisset."""
    rows = (row or b"" for batch in batches for row in batch.column(0).to_pylist())
    return _cut((event for row in rows for event in events_of(row)), most)


def _cut(events: Iterable[bytes], most: int) -> Iterator[list[bytes]]:
    held: list[bytes] = []
    size = 0
    for event in events:
        if held and (len(held) >= most or size + len(event) > _MOST_BYTES):
            yield held
            held, size = [], 0
        held.append(event)
        size += len(event)
    if held:
        yield held


def _of_query(batches: Iterator[pa.RecordBatch]) -> tuple[list[bytes], Made]:
    """The events of a batch in their order, and what a query made of them. Raises ConnectorMisset for too much."""
    found: list[tuple[int, int, bytes, str | None]] = []
    size = 0
    for batch in batches:
        found += zip(*(column.to_pylist() for column in batch.columns), strict=True)
        size += batch.nbytes
        if size > _MOST_BYTES + MOST_BYTES or len(found) > MOST_EVENTS:
            raise ConnectorMisset(
                f"The query makes more than {MOST_BYTES >> 20} MiB, or {MOST_EVENTS:,} rows, of a batch; a smaller"
                " batch may be what it takes."
            )
    found.sort(key=lambda row: row[0])
    events = {number: content or b"" for number, kind, content, _ in found if kind == EVENT}
    keys = {number: _key(event) for number, event in events.items()}
    rows: dict[int, list[Row]] = {}
    failed: dict[bytes, str] = {}
    for number, kind, content, topic in found:
        if kind == FAILED:
            failed[keys[number]] = content.decode()
        elif kind != EVENT:
            rows.setdefault(number, []).append(Row(content or b"null", kind == ROW_OF_EVENT, topic))
    return [events[number] for number in sorted(events)], Made({keys[one]: made for one, made in rows.items()}, failed)


def _key(event: bytes) -> bytes:
    try:
        return text_of(json.loads(event))
    except (ValueError, RecursionError):
        return event


@dataclass
class Delivered(WriterCommitMessage):
    """What a task has read."""

    rows: int = 0


class InflowWriter(DataSourceStreamArrowWriter):
    """Delivers each batch of a stream."""

    def __init__(self, sink: InflowSink) -> None:
        self._sink = sink

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Delivered:
        """Deliver all events of a batch."""
        return Delivered(self._sink.deliver(iterator))


class InflowBatchWriter(DataSourceArrowWriter):
    """Delivers one batch of which a query has made rows."""

    def __init__(self, sink: InflowSink) -> None:
        self._sink = sink

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Delivered:
        """Deliver all of it."""
        return Delivered(self._sink.deliver_made(iterator))


class InflowTable(DataSource):
    """The base of the classes that `sink_class` makes."""

    sink: InflowSink
    label: str

    @classmethod
    def name(cls) -> str:
        """The provider's name in the session."""
        return cls.label

    def streamWriter(self, schema: StructType, overwrite: bool) -> InflowWriter:  # noqa: N802  Spark's
        """For a stream."""
        return InflowWriter(self.sink)

    def writer(self, schema: StructType, overwrite: bool) -> InflowBatchWriter:
        """For a batch of one that a query was made over."""
        return InflowBatchWriter(self.sink)


def sink_class(label: str, sink: InflowSink) -> type[InflowTable]:
    """A sink under the provider name `label` that delivers for this task and no other."""
    made: dict[str, Any] = {"sink": sink, "label": label, "__module__": __name__}
    return type("InflowOfOneTask", (InflowTable,), made)
