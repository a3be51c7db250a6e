"""What a running pipeline tells of itself, from what Spark tells of each batch."""

from __future__ import annotations

import json
import threading
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from analytics.pipelines.waits import Waiting

#: Rates are over so many batches at most.
_WINDOW = 20
#: Spark tells every 10 s that there are no rows; once it does not for so long, ms, a batch is under way.
_IDLE_MS = 30_000


@dataclass(frozen=True, slots=True)
class InsertReport:
    """An insert, as of its last batch. Times are epoch ms, durations ms; None before there is one."""

    sink: str
    line: int
    #: Number of the last batch that was committed, and when.
    batch: int | None = None
    committed_ms: int | None = None
    #: Whether Spark has looked for rows since, a moment ago at last, and found none.
    is_idle: bool = False
    duration_ms: int | None = None
    #: Rows since the start. Those that came in are not known where nothing that the insert reads counts them.
    rows_in: int | None = 0
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
    """Where the source of an inflow task stands: its last event that was delivered, and where the source ends.

    Times are epoch ms, None where there is no event; `sequence` and `last` are numbers of events.
    """

    sequence: int = 0
    position: str = ""
    time_ms: int | None = None
    last: int = 0
    last_ms: int | None = None
    #: When the first event came that is not delivered yet; None where all are, and where the source does not tell it.
    since_ms: int | None = None
    #: Events that the source had removed before they were read.
    lost: int = 0

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
    #: Rows a second that come in: each source once, however many inserts read it.
    rows_in_per_second: float = 0.0
    #: By source of an inflow task: where it stands.
    reached: Mapping[str, Reached] = field(default_factory=dict)


class InsertWatch:
    """Adds up the batches of one insert. Safe in threads: one takes what Spark tells, others ask."""

    def __init__(self, sink: str, line: int, number: int) -> None:
        self._sink, self._line, self._out = sink, line, f"insert:{number}"
        self._lock = threading.Lock()
        self._last: int = -1
        self._rows_in: int | None = 0
        self._late = 0
        #: When a batch began, its rows in and its rows by operator.
        self._window: deque[tuple[int, int, Counter[str]]] = deque(maxlen=_WINDOW)
        self._committed_ms, self._duration_ms = 0, 0
        #: When Spark found no rows last, before it did anything else.
        self._idle_ms: int | None = None
        self._latest: dict[str, Any] = {}
        self._operators: Counter[str] = Counter()
        self._is_whole = False

    @property
    def last(self) -> int:
        """Number of the last batch that was taken; -1 before the first."""
        return self._last

    @property
    def is_whole(self) -> bool:
        """Whether its rows have ended, and were one batch."""
        return self._is_whole

    def take(self, text: str) -> None:
        """Take what Spark tells of a batch, JSON, once; it also tells of times when there was none."""
        told = json.loads(text)
        rows = Counter(
            {name: next(iter(row.values()), 0) or 0 for name, row in (told.get("observedMetrics") or {}).items()}
        )
        began_ms = _epoch_ms(told["timestamp"])
        with self._lock:
            if told["batchId"] <= self._last:
                return
            if "addBatch" not in told["durationMs"]:
                self._idle_ms = began_ms
                return
            self._latest = told
            read = [count for name, count in rows.items() if name.startswith(source_key(""))]
            rows_in = sum(read) if read else told["numInputRows"]
            self._late += sum(state.get("numRowsDroppedByWatermark", 0) for state in told["stateOperators"])
            self._note(told["batchId"], began_ms, told["batchDuration"], rows_in, rows)

    def take_whole(self, rows: Mapping[str, int], began_ms: int, duration_ms: int) -> None:
        """Take an insert whose rows end, once they are written: it is one batch.

        `rows` has those of the operators that it reads, as far as known, and its own.
        """
        known = [count for name, count in rows.items() if name.startswith(source_key(""))]
        with self._lock:
            self._is_whole = True
            self._note(self._last + 1, began_ms, duration_ms, sum(known) if known else None, Counter(rows))

    @property
    def operators(self) -> Mapping[str, int]:
        """Rows by operator, as they are now."""
        with self._lock:
            return self._operators.copy()

    def _note(self, batch: int, began_ms: int, duration_ms: int, rows_in: int | None, rows: Counter[str]) -> None:
        self._last, self._committed_ms, self._duration_ms = batch, began_ms + duration_ms, duration_ms
        self._idle_ms = None
        self._rows_in = None if rows_in is None else (self._rows_in or 0) + rows_in
        self._operators.update(rows)
        self._window.append((began_ms, rows_in or 0, rows))

    def rate(self, operator: str, now_ms: int) -> float:
        """Rows a second of an operator over the last batches."""
        with self._lock:
            return self._rate(operator, now_ms)

    def _rate(self, operator: str, now_ms: int) -> float:
        return sum(rows[operator] for _, _, rows in self._window) / self._seconds(now_ms)

    def _seconds(self, now_ms: int) -> float:
        return max(1.0, (now_ms - self._window[0][0]) / 1000) if self._window else 1.0

    def report(self, now_ms: int) -> InsertReport:
        """As of the last batch taken."""
        with self._lock:
            return self._report(now_ms)

    def _report(self, now_ms: int) -> InsertReport:
        if self._last < 0:
            return InsertReport(self._sink, self._line)
        told = self._latest
        watermark = (told.get("eventTime") or {}).get("watermark")
        watermark_ms = _epoch_ms(watermark) if watermark and not watermark.startswith("1970-") else None
        states = told.get("stateOperators", [])
        return InsertReport(
            sink=self._sink,
            line=self._line,
            batch=self._last,
            committed_ms=self._committed_ms,
            is_idle=self._idle_ms is not None and now_ms - self._idle_ms < _IDLE_MS,
            duration_ms=self._duration_ms,
            rows_in=self._rows_in,
            rows_out=self._operators[self._out],
            rows_in_per_second=sum(rows for _, rows, _ in self._window) / self._seconds(now_ms),
            rows_out_per_second=self._rate(self._out, now_ms),
            watermark_ms=watermark_ms,
            watermark_delay_ms=None if watermark_ms is None else now_ms - watermark_ms,
            state_rows=sum(state["numRowsTotal"] for state in states),
            state_bytes=sum(state["memoryUsedBytes"] for state in states),
            late_rows=self._late,
        )


def operators_of(watches: Iterable[InsertWatch]) -> dict[str, int]:
    """Rows by operator: of what several inserts read, each of them counts the same rows, so the furthest one's tell."""
    rows: dict[str, int] = {}
    for watch in watches:
        for name, count in watch.operators.items():
            rows[name] = max(count, rows.get(name, 0))
    return rows


def rate_of(watches: Sequence[InsertWatch], sources: Mapping[str, bool], now_ms: int) -> float:
    """Rows a second that come in by sources, each counted once: as the insert has it that reads it fastest.

    `sources` tells of each whether its rows end: a stream that is joined to them reads all of them with each batch.
    """
    return sum(
        max((one.rate(source_key(name), now_ms) for one in watches if one.is_whole or not do_end), default=0.0)
        for name, do_end in sources.items()
    )


def source_key(name: str) -> str:
    """What counts the rows of a source."""
    return f"source:{name}"


def _epoch_ms(text: str) -> int:
    return round(datetime.fromisoformat(text).astimezone(UTC).timestamp() * 1000)
