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
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from analytics.inflow.delivery import Count, Delivery, Misset, Stopped
from analytics.inflow.expressions import Expression
from analytics.inflow.task import Task
from analytics.inflow.transform import Transform, TransformFailed
from analytics.pipelines.connector_errors import ConnectorFailed, ConnectorMisset, ConnectorStopped
from analytics.pipelines.inflow_targets import Target
from analytics.pipelines.plan import file_name
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

    def transform(self) -> Transform | None:
        """A new transform, to be closed by its user. Raises TransformFailed."""
        return self.task.made_transform(self.function_key, [ip_network(one) for one in self.networks.split(",") if one])

    def require(self) -> None:
        """Raise what is wrong with the task: TaskError, TransformFailed for what is no expression, Misset."""
        transform = self.transform()
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
        kept = Counters(Path(self.state), self.name)
        waits = _Waits(self, kept)
        rows = 0
        try:
            delivery = waits.delivery = Delivery(self.task.flow(self.kept_transform()), self.target, waits)
            for events in _calls(batches, self.messages):
                delivery.deliver(events)
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
    """The events of one batch, so many at a time."""
    held: list[bytes] = []
    size = 0
    for batch in batches:
        for event in batch.column(0).to_pylist():
            if held and (len(held) >= most or size + len(event) > _MOST_BYTES):
                yield held
                held, size = [], 0
            held.append(event or b"")
            size += len(held[-1])
    if held:
        yield held


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


def sink_class(label: str, sink: InflowSink) -> type[InflowTable]:
    """A sink under the provider name `label` that delivers for this task and no other."""
    made: dict[str, Any] = {"sink": sink, "label": label, "__module__": __name__}
    return type("InflowOfOneTask", (InflowTable,), made)
