"""Messages over time, from the roll-ups in the lake and the hot window for the newest part: no broker call."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from django.utils.translation import gettext as _

from analytics.samples.series import Counts, read_counts
from console.instances.models import Cluster
from console.metrics.sampler import coverage_of, in_lake
from console.metrics.store import HOT_WINDOW_MS, TICKS, HotSample, Store
from console.topics.models import Group, Topic
from console.web.errors import Refused

PERIODS = (1, 5, 10)
"""Minutes a point of a curve stands for."""
MAX_RANGE_MS = 7 * 24 * 3600 * 1000
MINUTE_MS = 60_000

LEAST_COVERED = 0.5
"""A period is a point of the curve when samples cover at least this part of it; the roll-ups have the same rule."""

Measure = Literal["count", "tps"]


@dataclass(frozen=True)
class Series:
    """One series by its name in the hot window, and by kind, topic and group in the lake."""

    hot: str
    lake: tuple[str, str, str]

    @classmethod
    def into(cls, cluster: Cluster, topic: str) -> Series:
        """What came to a topic (physical name)."""
        return cls(f"in:{topic}", ("in", in_lake(cluster, topic), ""))

    @classmethod
    def out_of(cls, cluster: Cluster, topic: str, group: str) -> Series:
        """What a group consumed of a topic (physical names)."""
        return cls(f"out:{topic}@{group}", ("out", in_lake(cluster, topic), group))


@dataclass(frozen=True)
class Point:
    """One period of a curve. `value` is a number of messages or messages a second, None for a gap.

    `complete` is False for the period that still runs: its count grows.
    """

    start_ms: int
    value: float | None
    complete: bool = True


@dataclass(frozen=True)
class Curve:
    """A curve of a topic's input or a group's output; `title` is the series' physical name."""

    title: str
    period_minutes: int
    measure: Measure
    points: list[Point]

    @property
    def empty(self) -> bool:
        """True when there is no sample in the whole range."""
        return all(p.value is None for p in self.points)


@dataclass(frozen=True)
class Counted:
    """What was counted of some series in each period: messages and the seconds in which they came, by its start.

    `covered` are the seconds of each period that were sampled at all, of whatever series.
    """

    minutes: int
    now_ms: int
    starts: list[int]
    by_series: dict[Series, dict[int, tuple[float, float]]]
    covered: dict[int, float]

    def points(self, series: Sequence[Series], measure: Measure) -> list[Point]:
        """These series together."""
        return [
            Point(start, self._value(series, start, measure), complete=start + self.minutes * MINUTE_MS <= self.now_ms)
            for start in self.starts
        ]

    def messages(self, series: Sequence[Series], start: int) -> float:
        """How many messages the period had of these series."""
        return sum(self.by_series[one].get(start, (0.0, 0.0))[0] for one in series)

    def values(self, series: Sequence[Series], measure: Measure) -> list[float | None]:
        """As `points`, the values alone."""
        return [self._value(series, start, measure) for start in self.starts]

    def _value(self, series: Sequence[Series], start: int, measure: Measure) -> float | None:
        known = [found for one in series if (found := self.by_series[one].get(start)) is not None]
        if not known:
            return None
        count = sum(count for count, _unused in known)
        return count if measure == "count" else round(count / max(seconds for _unused, seconds in known), 3)


def topic_curve(topic: Topic, *, period_minutes: int, measure: Measure, begin_ms: int, end_ms: int) -> Curve:
    """Messages written to a topic (vendor operation trend/topicInputTps).

    Points are the periods that begin before the range ends, from the one in which it begins, aligned to full multiples
    of the period (UTC). Raises Refused for a period other than 1, 5 or 10 minutes and for a range above 7 days.
    """
    series = [Series.into(topic.instance.cluster, topic.physical_name)]
    counted = count(topic.instance.cluster, series, topic.created_at, period_minutes, begin_ms, end_ms)
    return Curve(topic.physical_name, period_minutes, measure, counted.points(series, measure))


def group_curve(
    group: Group, topics: list[str], *, period_minutes: int, measure: Measure, begin_ms: int, end_ms: int
) -> Curve:
    """Messages a group consumed from these physical topics, summed (vendor operation trend/groupOutputTps).

    Raises Refused as `topic_curve` does.
    """
    cluster = group.instance.cluster
    series = [Series.out_of(cluster, topic, group.physical_name) for topic in topics]
    counted = count(cluster, series, group.created_at, period_minutes, begin_ms, end_ms)
    return Curve(group.physical_name, period_minutes, measure, counted.points(series, measure))


def count(  # noqa: PLR0917  what, since when, and a range in periods
    cluster: Cluster, series: Sequence[Series], since: datetime, minutes: int, begin_ms: int, end_ms: int
) -> Counted:
    """Count these series over a range in periods of 1, 5 or 10 minutes, all with one look at each file of the lake.

    A period that was sampled and in which nothing was counted is 0 from `since` on: when the topic or group was made.
    Raises Refused as `topic_curve` does.
    """
    if minutes not in PERIODS:
        raise Refused(
            "BIZ_FIELD_CHECK_INVALID",
            _("The period is %(minutes)s; allowed are 1, 5 and 10 minutes.") % {"minutes": minutes},
            "period",
        )
    if not 0 <= end_ms - begin_ms <= MAX_RANGE_MS:
        raise Refused("BIZ_FIELD_CHECK_INVALID", _("A range ends after it begins and spans at most 7 days."), "end_ms")
    period_ms, now_ms = minutes * MINUTE_MS, int(time.time() * 1000)
    begin_ms -= begin_ms % period_ms
    starts = list(range(begin_ms, max(min(end_ms, now_ms), begin_ms + 1), period_ms))
    lake = [one.lake for one in series]
    kept = read_counts(lake, begin_ms, starts[-1] + period_ms, minutes, coverage=coverage_of(cluster))
    names = [TICKS, *(one.hot for one in series)]
    ticks, *hot = Store(cluster.name).hot(
        names, max(begin_ms, now_ms - HOT_WINDOW_MS), min(now_ms, starts[-1] + period_ms)
    )
    fresh: dict[int, float] = defaultdict(float)
    for tick in ticks:
        fresh[_start_of(tick, period_ms)] += tick.seconds
    way = _Way(starts, period_ms, now_ms, int(since.timestamp() * 1000), kept, fresh)
    by_series = {one: way.merged(one, samples) for one, samples in zip(series, hot, strict=True)}
    covered = {start: max(kept.covered.get(start, 0.0), fresh.get(start, 0.0)) for start in starts}
    return Counted(minutes, now_ms, starts, by_series, covered)


def _start_of(sample: HotSample, period_ms: int) -> int:
    return (sample.at_ms - 1) // period_ms * period_ms


@dataclass(frozen=True)
class _Way:
    """What all series of a range have in common: its periods, what the lake has, and what the hot window covers.

    Only what moved has samples: a period that was sampled and has none is 0, once the topic or group was there.
    """

    starts: list[int]
    period_ms: int
    now_ms: int
    since_ms: int
    kept: Counts
    fresh: dict[int, float]

    def merged(self, series: Series, hot: list[HotSample]) -> dict[int, tuple[float, float]]:
        """Count and sampled seconds by period: from the hot window where it covers all of it, else rolled up."""
        found = self._rolled(series)
        counts: dict[int, tuple[float, float]] = {}
        for sample in hot:
            count, seconds = counts.get(start := _start_of(sample, self.period_ms), (0.0, 0.0))
            counts[start] = (count + sample.count, seconds + sample.seconds)
        whole_from = self.now_ms - HOT_WINDOW_MS
        for start in self.fresh.keys() | counts.keys():
            if start not in counts and start + self.period_ms <= self.since_ms:
                continue
            count, own = counts.get(start, (0.0, 0.0))
            seconds = max(own, self.fresh.get(start, 0.0))
            is_running = start + self.period_ms > self.now_ms
            if (is_running or seconds >= self._needed) and (start >= whole_from or start not in found):
                found[start] = (count, seconds)
        return found

    def _rolled(self, series: Series) -> dict[int, tuple[float, float]]:
        own, covered = self.kept.by_series[series.lake], self.kept.covered
        found = {}
        for start in self.starts:
            count, seconds = own.get(start, (0, 0.0))
            is_there = count or start + self.period_ms > self.since_ms
            if is_there and max(seconds, covered.get(start, 0.0)) >= self._needed:
                found[start] = (float(count), self.period_ms / 1000)
        return found

    @property
    def _needed(self) -> float:
        return self.period_ms / 1000 * LEAST_COVERED
