"""What running pipelines tell of themselves: the latest report, and a point every 10 s for a day. Redis, database 2.

gantry:pipelines:<id>:now     the latest report and its moment, JSON; kept for a week
gantry:pipelines:<id>:step    there while no further point is due (text, expires)
gantry:pipelines:<id>:points  list of points, newest first: epoch s and six numbers, 8 bytes each, NaN for not known
gantry:pipelines:<id>:counts  list of counts of an inflow task, newest first: epoch s and its numbers, as above
"""

from __future__ import annotations

import math
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, TypeVar

import orjson
import redis

from analytics.inflow.delivery import Count
from analytics.inflow.task import EVENTS, MESSAGES
from analytics.pipelines.reports import InsertReport, Reached, Report
from analytics.pipelines.waits import Waiting
from console.pipelines.models import Kind
from console.web import redis as web_redis

KEPT_SECONDS = 24 * 3600
STEP_SECONDS = 10
#: Points further apart leave a gap in the curve.
GAP_SECONDS = 45
#: A report that is older tells of a worker that is silent.
FRESH_MS = 15_000
MOST_POINTS = 720
"""Of a curve: a browser draws no more of them on a line's width."""
_NOW_SECONDS = 7 * 24 * 3600
_MOST_KEPT = KEPT_SECONDS // STEP_SECONDS
_POINT = struct.Struct(">d6d")
_COUNTS = struct.Struct(f">d{len(Count) + 1}d")


@dataclass(frozen=True, slots=True)
class Point:
    """One moment (epoch s) of a pipeline: its inserts together. None: not known."""

    at: int
    rows_in: float | None = None
    """Rows a second."""
    rows_out: float | None = None
    batch_ms: int | None = None
    """How long the longest of the last batches took."""
    delay_ms: int | None = None
    """How far the watermark that is the furthest behind is behind the clock."""
    state_bytes: int | None = None
    state_rows: int | None = None

    @property
    def at_ms(self) -> int:
        """The moment in epoch ms."""
        return self.at * 1000


@dataclass(frozen=True, slots=True)
class Now:
    """The latest report, and when it came (epoch ms)."""

    at_ms: int
    report: Report

    @property
    def is_fresh(self) -> bool:
        """Whether its rates are those of now."""
        return time.time() * 1000 - self.at_ms < FRESH_MS

    @property
    def waiting(self) -> tuple[Waiting, ...]:
        """Sinks that wait now, as far as the worker is not silent."""
        return self.report.waiting if self.is_fresh else ()

    @property
    def checkpoint_ms(self) -> int | None:
        """When the last batch was committed, epoch ms; None before the first."""
        return max((one.committed_ms for one in self.report.inserts if one.committed_ms is not None), default=None)

    @property
    def is_idle(self) -> bool:
        """Whether no rows have come since then, as far as the worker is not silent."""
        began = [one for one in self.report.inserts if one.batch is not None]
        return self.is_fresh and bool(began) and all(one.is_idle for one in began)

    @property
    def point(self) -> Point:
        """All inserts together."""
        inserts = self.report.inserts
        began = [one for one in inserts if one.batch is not None]
        return Point(
            self.at_ms // 1000,
            self.report.rows_in_per_second,
            sum(one.rows_out_per_second for one in inserts),
            max((one.duration_ms for one in began if one.duration_ms is not None), default=None),
            max((one.watermark_delay_ms for one in began if one.watermark_delay_ms is not None), default=None),
            sum(one.state_bytes for one in inserts) if began else None,
            sum(one.state_rows for one in inserts) if began else None,
        )


@dataclass(frozen=True, slots=True)
class Counted:
    """One moment (epoch s) of an inflow task."""

    at: int
    #: What is counted by then, since its first start; empty where nothing is known.
    counts: dict[Count, int]
    #: How far it is behind the log (`behind_ms`); None where that is not known.
    behind_ms: int | None = None

    @property
    def at_ms(self) -> int:
        """The moment in epoch ms."""
        return self.at * 1000


_Moment = TypeVar("_Moment", Point, Counted)


def behind_ms(reached: Reached | None) -> int | None:
    """How far a task is behind its source, ms; None where that is not known.

    Where the source tells since when its first event waits, it is for how long. Else it is how much older the last
    event that was delivered is than the last one of the source.
    """
    if reached is None:
        return None
    if not reached.pending:
        return 0
    if reached.since_ms is not None:
        return max(0, round(time.time() * 1000) - reached.since_ms)
    if reached.time_ms is None or reached.last_ms is None:
        return None
    return max(0, reached.last_ms - reached.time_ms)


def delay_ms(kind: str, now: Now) -> int | None:
    """How far a pipeline of a kind was behind its source as it told last, ms; None where that is not known.

    Of a SQL job it is how far the watermark is behind the clock, of an inflow task as in `behind_ms`.
    """
    return now.point.delay_ms if kind == Kind.JOB else behind_ms(now.report.reached.get(EVENTS))


def keep(pipeline_id: int, report: Report) -> None:
    """Keep what a running pipeline tells; the worker calls it about once a second."""
    client = _redis()
    now = Now(int(time.time() * 1000), report)
    client.set(_key(pipeline_id, "now"), orjson.dumps({"at_ms": now.at_ms, **asdict(report)}), ex=_NOW_SECONDS)
    if client.set(_key(pipeline_id, "step"), b"1", nx=True, px=STEP_SECONDS * 1000 - 500):
        pipe = client.pipeline(transaction=False)
        pipe.lpush(_key(pipeline_id, "points"), _packed(now.point))
        pipe.ltrim(_key(pipeline_id, "points"), 0, _MOST_KEPT - 1)
        pipe.expire(_key(pipeline_id, "points"), KEPT_SECONDS)
        if counts := report.connectors.get(MESSAGES):
            behind = behind_ms(report.reached.get(EVENTS))
            numbers = [*(counts.get(one, 0) for one in Count), math.nan if behind is None else behind]
            pipe.lpush(_key(pipeline_id, "counts"), _COUNTS.pack(now.at_ms // 1000, *numbers))
            pipe.ltrim(_key(pipeline_id, "counts"), 0, _MOST_KEPT - 1)
            pipe.expire(_key(pipeline_id, "counts"), KEPT_SECONDS)
        pipe.execute()


def forget(pipeline_id: int) -> None:
    """Drop all that was kept of a pipeline that is no more."""
    _redis().delete(*(_key(pipeline_id, part) for part in ("now", "step", "points", "counts")))


def latest(pipeline_ids: Sequence[int]) -> dict[int, Now]:
    """The latest reports; of a pipeline that never ran, or not for a week, there is none."""
    if not pipeline_ids:
        return {}
    found: Any = _redis().mget([_key(one, "now") for one in pipeline_ids])
    return {one: _now(told) for one, told in zip(pipeline_ids, found, strict=True) if told is not None}


def curve(pipeline_id: int, seconds: int) -> list[Point]:
    """The last so many seconds, oldest first; a gap is a point of which nothing is known."""
    since = time.time() - seconds
    kept: Any = _redis().lrange(_key(pipeline_id, "points"), 0, seconds // STEP_SECONDS + 1)
    points = [point for point in map(_unpacked, reversed(kept)) if point.at >= since]
    return _with_gaps(points, Point)


def counted(pipeline_id: int, seconds: int) -> list[Counted]:
    """The same for what an inflow task has counted."""
    since = time.time() - seconds
    kept: Any = _redis().lrange(_key(pipeline_id, "counts"), 0, seconds // STEP_SECONDS + 1)
    points = []
    for entry in reversed(kept):
        at, *numbers, behind = _COUNTS.unpack(entry)
        counts = {name: int(number) for name, number in zip(Count, numbers, strict=True)}
        points.append(Counted(int(at), counts, None if math.isnan(behind) else int(behind)))
    return _with_gaps([one for one in points if one.at >= since], lambda at: Counted(at, {}))


def _with_gaps(points: list[_Moment], gap: Callable[[int], _Moment]) -> list[_Moment]:
    """At most so many as are drawn; where nothing was told for long a point of which nothing is known."""
    step = -(-len(points) // MOST_POINTS) or 1
    points = points[::-step][::-1]
    found = points[:1]
    for before, after in pairwise(points):
        if after.at - before.at > GAP_SECONDS * step:
            found.append(gap(before.at + STEP_SECONDS))
        found.append(after)
    return found


def _packed(point: Point) -> bytes:
    numbers = (point.rows_in, point.rows_out, point.batch_ms, point.delay_ms, point.state_bytes, point.state_rows)
    return _POINT.pack(point.at, *(math.nan if one is None else one for one in numbers))


def _unpacked(entry: bytes) -> Point:
    at, rows_in, rows_out, *whole = _POINT.unpack(entry)
    numbers = [None if math.isnan(one) else int(one) for one in whole]
    return Point(int(at), rows_in, rows_out, *numbers)


def _now(told: bytes) -> Now:
    found = orjson.loads(told)
    inserts = tuple(InsertReport(**one) for one in found["inserts"])
    waiting = tuple(Waiting(**one) for one in found.get("waiting", ()))
    reached = {name: Reached(**one) for name, one in found.get("reached", {}).items()}
    rows_in = found.get("rows_in_per_second", 0.0)
    return Now(found["at_ms"], Report(inserts, found["operators"], found["connectors"], waiting, rows_in, reached))


def _key(pipeline_id: int, part: str) -> str:
    return f"gantry:pipelines:{pipeline_id}:{part}"


def _redis() -> redis.Redis:
    return web_redis.connection(2, timeout=None, decode=False)
