"""What a running pipeline tells of itself, from what Spark tells of each batch."""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from analytics.pipelines.waits import Waiting

#: Rates are over so many batches at most.
_WINDOW = 20


@dataclass(frozen=True, slots=True)
class InsertReport:
    """An insert, as of its last batch. Times are epoch ms, durations ms; None before there is one."""

    sink: str
    line: int
    #: Number of the last batch that was committed, and when.
    batch: int | None = None
    committed_ms: int | None = None
    duration_ms: int | None = None
    rows_in: int = 0
    rows_out: int = 0
    rows_in_per_second: float = 0.0
    rows_out_per_second: float = 0.0
    #: Events before it come too late; and how far it is behind the clock.
    watermark_ms: int | None = None
    watermark_delay_ms: int | None = None
    state_rows: int = 0
    state_bytes: int = 0
    late_rows: int = 0


@dataclass(frozen=True, slots=True)
class Reached:
    """Where a source `events` stands: its last event that was delivered, as the log has it, and where the log ends.

    Times are epoch ms, None where there is no event; `sequence` and `last` are numbers of events.
    """

    sequence: int = 0
    position: str = ""
    time_ms: int | None = None
    last: int = 0
    last_ms: int | None = None

    @property
    def pending(self) -> int:
        """Events that are not delivered yet."""
        return max(0, self.last - self.sequence)


@dataclass(frozen=True, slots=True)
class Report:
    """A pipeline. `operators` counts rows by `source:<name>`, `view:<name>` and `insert:<number>`, since the start."""

    inserts: tuple[InsertReport, ...]
    operators: Mapping[str, int] = field(default_factory=dict)
    #: By source `mns` and sink `inflow`: the connector's own counters, since the pipeline's first start. By sink `mq`:
    #: `emptyRows`, where rows were left out since the start.
    connectors: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    #: Sinks that wait before they try again to write; none of a pipeline that has ended.
    waiting: tuple[Waiting, ...] = ()
    #: By source `events`: where it stands.
    reached: Mapping[str, Reached] = field(default_factory=dict)


class InsertWatch:
    """Adds up the batches of one insert."""

    def __init__(self, sink: str, line: int, number: int) -> None:
        self._sink, self._line, self._out = sink, line, f"insert:{number}"
        self._last: int = -1
        self._rows_in = self._late = 0
        self._window: deque[tuple[int, int, int]] = deque(maxlen=_WINDOW)
        self._latest: dict[str, Any] = {}
        self.operators: Counter[str] = Counter()

    @property
    def last(self) -> int:
        """Number of the last batch that was taken; -1 before the first."""
        return self._last

    def take(self, text: str) -> None:
        """Take what Spark tells of a batch, JSON, once; it also tells of times when there was none."""
        told = json.loads(text)
        if told["batchId"] <= self._last or "addBatch" not in told["durationMs"]:
            return
        self._last, self._latest = told["batchId"], told
        for name, row in (told.get("observedMetrics") or {}).items():
            self.operators[name] += next(iter(row.values()), 0) or 0
        rows_in = told["numInputRows"]
        rows_out = (told.get("observedMetrics") or {}).get(self._out, {}).get("rows", 0)
        self._rows_in += rows_in
        self._late += sum(state.get("numRowsDroppedByWatermark", 0) for state in told["stateOperators"])
        self._window.append((_epoch_ms(told["timestamp"]), rows_in, rows_out))

    def report(self, now_ms: int) -> InsertReport:
        """As of the last batch taken."""
        told = self._latest
        if not told:
            return InsertReport(self._sink, self._line)
        seconds = max(1.0, (now_ms - self._window[0][0]) / 1000)
        watermark = (told.get("eventTime") or {}).get("watermark")
        watermark_ms = _epoch_ms(watermark) if watermark and not watermark.startswith("1970-") else None
        return InsertReport(
            sink=self._sink,
            line=self._line,
            batch=self._last,
            committed_ms=_epoch_ms(told["timestamp"]) + told["batchDuration"],
            duration_ms=told["batchDuration"],
            rows_in=self._rows_in,
            rows_out=self.operators[self._out],
            rows_in_per_second=sum(rows for _, rows, _ in self._window) / seconds,
            rows_out_per_second=sum(rows for _, _, rows in self._window) / seconds,
            watermark_ms=watermark_ms,
            watermark_delay_ms=None if watermark_ms is None else now_ms - watermark_ms,
            state_rows=sum(state["numRowsTotal"] for state in told["stateOperators"]),
            state_bytes=sum(state["memoryUsedBytes"] for state in told["stateOperators"]),
            late_rows=self._late,
        )


def operators_of(watches: Iterable[InsertWatch]) -> dict[str, int]:
    """Rows by operator: of what several inserts read, each of them counts the same rows, so the furthest one's tell."""
    rows: Counter[str] = Counter()
    for watch in watches:
        rows |= watch.operators
    return dict(rows)


def _epoch_ms(text: str) -> int:
    return round(datetime.fromisoformat(text).astimezone(UTC).timestamp() * 1000)
