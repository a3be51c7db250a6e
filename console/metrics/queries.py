"""Rates, backlogs and curves, all from the sampler's snapshot, its hot window and the roll-ups: no broker call."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from analytics.samples.series import read_series
from brokercore.names import dead_letter_topic, is_retry_topic
from console.accounts.models import Tenant
from console.instances.models import Cluster, Instance
from console.metrics.store import HOT_WINDOW_MS, HotSample, Store
from console.topics.live import Rates
from console.topics.models import Group, Topic
from console.web.errors import Refused

PERIODS = (1, 5, 10)
"""Minutes a point of a curve stands for."""
MAX_RANGE_MS = 7 * 24 * 3600 * 1000
STALE_MS = 60_000
"""An older snapshot says nothing about now."""

LEAST_COVERED = 0.5
"""A period is a point of the curve when samples cover at least this part of it; the roll-ups have the same rule."""

Measure = Literal["count", "tps"]

Series = tuple[str, tuple[str, str, str]]
"""Name in the hot window; kind, topic and group in the lake."""


class Totals(TypedDict):
    """Messages a second in and out, and the backlog; None when there is no recent sample. Time in epoch ms."""

    in_tps: float | None
    out_tps: float | None
    backlog: int | None
    sampled_at: int | None


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


def rates(cluster: Cluster) -> Rates:
    """The latest figures of every topic and group of a cluster; of a group, summed over its topics."""
    values = _fresh_snapshot(cluster)
    if values is None:
        return Rates(None, {}, {}, {}, {})
    out_tps: dict[str, float | None] = {}
    behind: dict[str, int] = {}
    for series, row in values["groups"].items():
        group = series.partition("@")[2]
        behind[group] = behind.get(group, 0) + row["backlog"]
        if row["out_tps"] is not None:
            out_tps[group] = (out_tps.get(group) or 0.0) + row["out_tps"]
        else:
            out_tps.setdefault(group, None)
    topics = values["topics"].items()
    return Rates(
        sampled_at=values["sampled_at"],
        in_tps={name: row["in_tps"] for name, row in topics},
        stored={name: row["stored"] for name, row in topics},
        out_tps=out_tps,
        backlog=behind,
    )


def live_totals(tenant: Tenant, instance: Instance | None = None) -> Totals:
    """The tenant's (or one instance's) messages a second in and out, and its backlog, as last sampled."""
    instances = [instance] if instance else list(Instance.objects.filter(tenant=tenant).select_related("cluster"))
    in_tps = out_tps = 0.0
    behind = 0
    sampled: list[int] = []
    for cluster in {i.cluster_id: i.cluster for i in instances}.values():
        found = rates(cluster)
        if found.sampled_at is None:
            continue
        sampled.append(found.sampled_at)
        own = [i for i in instances if i.cluster_id == cluster.pk]
        for name in Topic.objects.filter(instance__in=own).values_list("physical_name", flat=True):
            in_tps += found.in_tps.get(name) or 0.0
        for name in Group.objects.filter(instance__in=own).values_list("physical_name", flat=True):
            out_tps += found.out_tps.get(name) or 0.0
            behind += found.backlog.get(name, 0)
    if not sampled:
        return Totals(in_tps=None, out_tps=None, backlog=None, sampled_at=None)
    return Totals(in_tps=round(in_tps, 2), out_tps=round(out_tps, 2), backlog=behind, sampled_at=min(sampled))


def dead_letter_counts(instance: Instance) -> tuple[dict[str, int], int | None]:
    """Letters in the dead-letter queue by physical group name, and the age of the sample in seconds."""
    found = rates(instance.cluster)
    names = Group.objects.filter(instance=instance).values_list("physical_name", flat=True)
    return {name: found.stored.get(dead_letter_topic(name), 0) for name in names}, found.age_seconds


def group_topics(group: Group) -> list[str]:
    """Physical topics in which the group has offsets, its retry topic not among them."""
    values = Store(group.instance.cluster.name).get("snapshot") or {"groups": {}}
    series = (name.partition("@") for name in values["groups"])
    return sorted(t for t, _, name in series if name == group.physical_name and not is_retry_topic(t))


def topic_curve(topic: Topic, *, period_minutes: int, measure: Measure, begin_ms: int, end_ms: int) -> Curve:
    """Messages written to a topic (vendor operation trend/topicInputTps).

    Points are the periods that begin before the range ends, from the one in which it begins, aligned to full multiples
    of the period (UTC). Raises Refused
    for a period other than 1, 5 or 10 minutes and for a range above 7 days.
    """
    series = (f"in:{topic.physical_name}", ("in", topic.physical_name, ""))
    return _curve(
        topic.instance.cluster,
        topic.physical_name,
        [series],
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
    name = group.physical_name
    series = [(f"out:{topic}@{name}", ("out", topic, name)) for topic in topics]
    return _curve(
        group.instance.cluster,
        name,
        series,
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
    hot = Store(cluster.name).hot([name for name, _ in series], now_ms - HOT_WINDOW_MS, now_ms)
    for (_, key), samples in zip(series, hot, strict=True):
        for start, (count, seconds) in _periods(key, samples, starts, period_ms, now_ms).items():
            row = sums.setdefault(start, [0.0, 0.0])
            row[0] += count
            row[1] = max(row[1], seconds)
    points = []
    for start in starts:
        value = None if start not in sums else _value(measure, *sums[start])
        points.append(Point(start, value, complete=start + period_ms <= now_ms))
    return Curve(title, minutes, measure, points)


def _value(measure: Measure, count: float, seconds: float) -> float:
    return count if measure == "count" else round(count / seconds, 3)


def _periods(
    key: tuple[str, str, str], hot: list[HotSample], starts: list[int], period_ms: int, now_ms: int
) -> dict[int, tuple[float, float]]:
    """Count and sampled seconds by period: from the hot window where it covers the whole period, else rolled up."""
    found: dict[int, tuple[float, float]] = {}
    if not starts:
        return found
    for start, rolled_up in read_series(*key, starts[0], starts[-1] + period_ms, period_ms // 60_000):
        if rolled_up is not None:
            found[start] = (rolled_up, period_ms / 1000)
    fresh: dict[int, tuple[float, float]] = {}
    for sample in hot:
        start = (sample.at_ms - 1) // period_ms * period_ms
        count, seconds = fresh.get(start, (0.0, 0.0))
        fresh[start] = (count + sample.count, seconds + sample.seconds)
    whole_from = now_ms - HOT_WINDOW_MS
    least_seconds = period_ms / 1000 * LEAST_COVERED
    for start, (count, seconds) in fresh.items():
        running = start + period_ms > now_ms
        if (running or seconds >= least_seconds) and (start >= whole_from or start not in found):
            found[start] = (count, seconds)
    return found


def _fresh_snapshot(cluster: Cluster) -> dict[str, Any] | None:
    values = Store(cluster.name).get("snapshot")
    if values is None or time.time() * 1000 - values["sampled_at"] > STALE_MS:
        return None
    return values
