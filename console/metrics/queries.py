"""Rates, backlogs and curves, all from the sampler's last reading, its hot window and the roll-ups: no broker call."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Literal

import orjson

from analytics.samples.series import read_series
from brokercore.names import dead_letter_topic, is_retry_topic
from console.instances.models import Cluster
from console.metrics.sampler import coverage_of, in_lake
from console.metrics.store import HOT_WINDOW_MS, TICKS, HotSample, Latest, Store, is_recent
from console.topics.live import Figure, GroupHour, Line, Rates
from console.topics.models import Group, Topic
from console.web.errors import Refused

PERIODS = (1, 5, 10)
"""Minutes a point of a curve stands for."""
MAX_RANGE_MS = 7 * 24 * 3600 * 1000

LEAST_COVERED = 0.5
"""A period is a point of the curve when samples cover at least this part of it; the roll-ups have the same rule."""

Measure = Literal["count", "tps"]

Series = tuple[str, tuple[str, str, str]]
"""Name in the hot window; kind, topic and group in the lake."""


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


def rates(cluster: Cluster, *, topics: Sequence[str] | None = None, groups: Sequence[str] | None = None) -> Rates:
    """The latest figures of these topics and groups by their physical names, of a group summed over its topics.

    Without names of either kind: of all topics, or all groups, of the cluster.
    """
    store = Store(cluster.name)
    latest = _fresh(store)
    if latest is None:
        return Rates(None, {}, {}, {}, {})
    stored, backlog = store.table("stored", topics), store.table("backlog", groups)
    known = latest.seconds is not None
    return Rates(
        sampled_at=latest.at_ms,
        in_tps=_rates(stored, store.table("in_rates", topics), known=known),
        stored={name: int(number) for name, number in stored.items()},
        out_tps=_rates(backlog, store.table("out_rates", groups), known=known),
        backlog={name: int(number) for name, number in backlog.items()},
    )


def figure(cluster: Cluster, what: Figure) -> dict[str, float]:
    """One figure of every topic or group of the cluster of which it is known and, of rates, above 0; by physical name.

    Empty when there is no recent sample.
    """
    store = Store(cluster.name)
    if _fresh(store) is None:
        return {}
    return {name: float(value) for name, value in store.table(_TABLES[what]).items() if value}


_TABLES: Mapping[Figure, str] = {"in_tps": "in_rates", "stored": "stored", "out_tps": "out_rates", "backlog": "backlog"}


def _rates(there: Iterable[str], moving: Mapping[str, bytes], *, known: bool) -> dict[str, float | None]:
    """Messages a second of what is there: 0 for what does not move, None where it cannot be told."""
    if not known:
        return dict.fromkeys(there)
    return {name: (float(moving[name]) if moving[name] else None) if name in moving else 0.0 for name in there}


def dead_letter_counts(cluster: Cluster, groups: Iterable[str]) -> tuple[dict[str, int], int | None]:
    """Letters in the dead-letter queue by physical group name, and when they were sampled, epoch ms.

    ({}, None) when there is no recent sample.
    """
    names = {dead_letter_topic(group): group for group in groups}
    found = rates(cluster, topics=list(names), groups=[])
    if found.sampled_at is None:
        return {}, None
    return {group: found.stored.get(letters, 0) for letters, group in names.items()}, found.sampled_at


def group_topics(group: Group) -> list[str]:
    """Physical topics in which the group has offsets, its retry topic not among them."""
    return topics_by_group(group.instance.cluster, [group.physical_name])[group.physical_name]


def topics_by_group(cluster: Cluster, groups: Sequence[str]) -> dict[str, list[str]]:
    """As `group_topics`, of each of these groups by their physical names."""
    raw = Store(cluster.name).table("groups", groups)
    return {
        name: sorted(topic for topic in orjson.loads(raw.get(name) or b"{}") if not is_retry_topic(topic))
        for name in groups
    }


def has_consumed(cluster: Cluster, groups: Sequence[str]) -> bool:
    """Whether one of these groups (physical names) has consumed a message, as last sampled."""
    kept = Store(cluster.name).table("groups", groups)
    return any(
        offset
        for raw in kept.values()
        for of_brokers in orjson.loads(raw).values()
        for offsets in of_brokers.values()
        for offset in offsets.values()
    )


def messages_within(cluster: Cluster, series: Sequence[str], begin_ms: int, end_ms: int) -> list[int]:
    """Messages of each series (`in:<topic>`, `out:<topic>@<group>`) in the hot window with begin < time ≤ end."""
    return [sum(one.count for one in samples) for samples in Store(cluster.name).hot(series, begin_ms, end_ms)]


_HOUR_MS, _STEPS = 3_600_000, 30


def topic_hours(cluster: Cluster, topics: Sequence[str]) -> dict[str, Line]:
    """Messages a second into each of these topics (physical names) over the last hour, in steps of two minutes."""
    window = _Window.until_now(cluster, [f"in:{topic}" for topic in topics])
    return {topic: window.rates([f"in:{topic}"]) for topic in topics}


def group_hours(cluster: Cluster, backlogs: Mapping[str, int]) -> dict[str, GroupHour]:
    """The last hour of each of these groups, given by physical name with its backlog now.

    What waited before follows from what came and what was consumed since.
    """
    raw = Store(cluster.name).table("groups", list(backlogs))
    topics = {group: list(orjson.loads(raw.get(group) or b"{}")) for group in backlogs}
    incoming = {group: [f"in:{topic}" for topic in of] for group, of in topics.items()}
    consumed = {group: [f"out:{topic}@{group}" for topic in of] for group, of in topics.items()}
    window = _Window.until_now(cluster, [*chain.from_iterable((*incoming.values(), *consumed.values()))])
    return {
        group: GroupHour(window.waiting(now, incoming[group], consumed[group]), window.rates(consumed[group]))
        for group, now in backlogs.items()
    }


@dataclass(frozen=True)
class _Window:
    """Messages of some series in each step of the last hour, and the seconds that were sampled in each."""

    counts: Mapping[str, list[int]]
    seconds: list[float]

    @classmethod
    def until_now(cls, cluster: Cluster, series: Sequence[str]) -> _Window:
        now_ms, step_ms = int(time.time() * 1000), _HOUR_MS // _STEPS
        begin_ms = now_ms - _HOUR_MS
        store, names = Store(cluster.name), list(dict.fromkeys(series))
        seconds = [0.0] * _STEPS
        for tick in store.hot([TICKS], begin_ms, now_ms)[0]:
            seconds[(tick.at_ms - 1 - begin_ms) // step_ms] += tick.seconds
        return cls(dict(zip(names, store.sums(names, begin_ms, step_ms, _STEPS), strict=True)), seconds)

    def rates(self, series: Sequence[str]) -> Line:
        """Messages a second of these series together."""
        sums = self._sums(series)
        return [count / of if of else None for count, of in zip(sums, self.seconds, strict=True)]

    def waiting(self, now: int, incoming: Sequence[str], consumed: Sequence[str]) -> list[int | None]:
        """What waited at the end of each step, from what waits now."""
        waiting, found = now, []
        steps = zip(self._sums(incoming), self._sums(consumed), self.seconds, strict=True)
        for came, went, of in reversed(list(steps)):
            found.append(max(0, waiting) if of else None)
            waiting += went - came
        return found[::-1]

    def _sums(self, series: Sequence[str]) -> list[int]:
        return [sum(of) for of in zip(*(self.counts[name] for name in series), strict=True)] or [0] * _STEPS


def topic_curve(topic: Topic, *, period_minutes: int, measure: Measure, begin_ms: int, end_ms: int) -> Curve:
    """Messages written to a topic (vendor operation trend/topicInputTps).

    Points are the periods that begin before the range ends, from the one in which it begins, aligned to full multiples
    of the period (UTC). Raises Refused for a period other than 1, 5 or 10 minutes and for a range above 7 days.
    """
    cluster = topic.instance.cluster
    series = (f"in:{topic.physical_name}", ("in", in_lake(cluster, topic.physical_name), ""))
    return _curve(
        cluster,
        topic.physical_name,
        [series],
        since=topic.created_at,
        minutes=period_minutes,
        measure=measure,
        begin_ms=begin_ms,
        end_ms=end_ms,
    )


def group_curve(
    group: Group, topics: list[str], *, period_minutes: int, measure: Measure, begin_ms: int, end_ms: int
) -> Curve:
    """Messages a group consumed from these physical topics, summed (vendor operation trend/groupOutputTps).

    Raises Refused as `topic_curve` does.
    """
    name, cluster = group.physical_name, group.instance.cluster
    series = [(f"out:{topic}@{name}", ("out", in_lake(cluster, topic), name)) for topic in topics]
    return _curve(
        cluster,
        name,
        series,
        since=group.created_at,
        minutes=period_minutes,
        measure=measure,
        begin_ms=begin_ms,
        end_ms=end_ms,
    )


def _curve(
    cluster: Cluster,
    title: str,
    series: list[Series],
    *,
    since: datetime,
    minutes: int,
    measure: Measure,
    begin_ms: int,
    end_ms: int,
) -> Curve:
    if minutes not in PERIODS:
        raise Refused("BIZ_FIELD_CHECK_INVALID", f"The period is {minutes}; allowed are 1, 5 and 10 minutes.", "period")
    if not 0 <= end_ms - begin_ms <= MAX_RANGE_MS:
        raise Refused("BIZ_FIELD_CHECK_INVALID", "A range ends after it begins and spans at most 7 days.", "end_ms")
    period_ms = minutes * 60_000
    now_ms = int(time.time() * 1000)
    begin_ms -= begin_ms % period_ms
    end_ms = min(end_ms, now_ms)
    starts = list(range(begin_ms, max(end_ms, begin_ms + 1), period_ms))
    sums: dict[int, list[float]] = {}
    names = [TICKS, *(name for name, _ in series)]
    ticks, *hot = Store(cluster.name).hot(names, now_ms - HOT_WINDOW_MS, now_ms)
    for (_, key), samples in zip(series, hot, strict=True):
        sampled = _Sampled(key, coverage_of(cluster), ticks, samples, int(since.timestamp() * 1000))
        for start, (count, seconds) in _periods(sampled, starts, period_ms, now_ms).items():
            row = sums.setdefault(start, [0.0, 0.0])
            row[0] += count
            row[1] = max(row[1], seconds)
    points = []
    for start in starts:
        value = None if start not in sums else _value(measure, *sums[start])
        points.append(Point(start, value, complete=start + period_ms <= now_ms))
    return Curve(title, minutes, measure, points)


@dataclass(frozen=True)
class _Sampled:
    """One series: its key in the lake and the key of what was sampled at all, both in the hot window, and its begin.

    Only what moved has samples: a period that was sampled and has none is 0, once the topic or group was there.
    """

    key: tuple[str, str, str]
    coverage: str
    ticks: list[HotSample]
    hot: list[HotSample]
    since_ms: int


def _value(measure: Measure, count: float, seconds: float) -> float:
    return count if measure == "count" else round(count / seconds, 3)


def _periods(sampled: _Sampled, starts: list[int], period_ms: int, now_ms: int) -> dict[int, tuple[float, float]]:
    """Count and sampled seconds by period: from the hot window where it covers the whole period, else rolled up."""
    found: dict[int, tuple[float, float]] = {}
    if not starts:
        return found
    end_ms, minutes = starts[-1] + period_ms, period_ms // 60_000
    for start, rolled_up in read_series(*sampled.key, starts[0], end_ms, minutes, coverage=sampled.coverage):
        if rolled_up or (rolled_up is not None and start + period_ms > sampled.since_ms):
            found[start] = (rolled_up, period_ms / 1000)
    fresh: dict[int, tuple[float, float]] = {}
    covered: dict[int, float] = defaultdict(float)
    for tick in sampled.ticks:
        start = (tick.at_ms - 1) // period_ms * period_ms
        covered[start] += tick.seconds
        if start + period_ms > sampled.since_ms:
            fresh.setdefault(start, (0.0, 0.0))
    for sample in sampled.hot:
        start = (sample.at_ms - 1) // period_ms * period_ms
        count, seconds = fresh.get(start, (0.0, 0.0))
        fresh[start] = (count + sample.count, seconds + sample.seconds)
    whole_from = now_ms - HOT_WINDOW_MS
    least_seconds = period_ms / 1000 * LEAST_COVERED
    for start, (count, own) in fresh.items():
        seconds = max(own, covered[start])
        running = start + period_ms > now_ms
        if (running or seconds >= least_seconds) and (start >= whole_from or start not in found):
            found[start] = (count, seconds)
    return found


def _fresh(store: Store) -> Latest | None:
    """The last reading, if it tells of now."""
    latest = store.latest()
    return latest if latest is not None and is_recent(latest.at_ms) else None
