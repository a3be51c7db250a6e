"""What flows through a topic or a group over a range of time: the lines of their statistics pages.

In, out and dead letters are sampled. The backlog of a group is sampled too, but only its latest value is kept: what
waited before follows from what came and what was consumed since, as far back as nothing is missing between.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

import orjson

from brokercore.names import dead_letter_topic, is_retry_topic
from brokercore.policy import mq_resource
from console.accounts.actor import Actor
from console.accounts.models import Tenant
from console.audit.queries import Filters, entries
from console.instances.models import Cluster
from console.metrics import readings
from console.metrics.curves import MAX_RANGE_MS, MINUTE_MS, PERIODS, Counted, Measure, Series, count
from console.metrics.marks import OFFSET_RESET
from console.metrics.store import Store
from console.metrics.totals import COMPARED
from console.topics.models import Group, Topic
from console.web import zone

Kind = Literal["in", "out", "backlog", "died"]
Values = list[float | None]


@dataclass(frozen=True)
class Flow:
    """Lines over the same periods; a value is None for a gap.

    `in` and `out` are messages or messages a second, `backlog` is what waited when the period ended (or waits now, in
    the one that still runs), and `died` counts dead letters. `left_out` topics have no part in `in`: the visitor may
    not see them, or no account has them. `earlier` are in and out of the range that it is `compared` with, period by
    period.
    """

    minutes: int
    measure: Measure
    now_ms: int
    starts: list[int]
    lines: dict[Kind, Values]
    left_out: int = 0
    earlier: dict[Kind, Values] = field(default_factory=dict)
    compared: str = ""

    @property
    def period_ms(self) -> int:
        return self.minutes * MINUTE_MS

    @property
    def end_ms(self) -> int:
        """When the last period ends."""
        return self.starts[-1] + self.period_ms

    @property
    def gaps(self) -> list[bool]:
        """Of each period, whether neither in nor out is known, nor was before."""
        flows = [self.lines[kind] for kind in ("in", "out") if kind in self.lines]
        return [all(value is None for value in values) for values in zip(*flows, *self.earlier.values(), strict=True)]

    @property
    def is_empty(self) -> bool:
        """Whether nothing was sampled in the whole range."""
        return all(value is None for kind in ("in", "out") for value in self.lines.get(kind, ()))

    @property
    def is_live(self) -> bool:
        """Whether its newest period still runs, so that there will be more to see."""
        return self.is_running(self.starts[-1])

    def is_running(self, start: int) -> bool:
        """Whether the period that starts then has not ended: its counts grow."""
        return start + self.period_ms > self.now_ms


@dataclass(frozen=True)
class Asked:
    """What the visitor asks for: a range (epoch ms) in periods of so many minutes."""

    period_minutes: int
    measure: Measure
    begin_ms: int
    end_ms: int
    compared: str = ""
    """One of totals.COMPARED, or empty."""

    @property
    def earlier(self) -> tuple[str, int]:
        """What the range is compared with, and how long before it that is; empty and 0 for nothing."""
        return COMPARED.get(self.compared, ("", 0))


def topic_flow(topic: Topic, asked: Asked) -> Flow:
    """What was written to a topic. Raises Refused as `curves.topic_curve` does."""
    series: dict[Kind, list[Series]] = {"in": [Series.into(topic.instance.cluster, topic.physical_name)]}
    counted = _counted(topic.instance.cluster, series, topic.created_at, asked)
    return _compared(_flow(counted, series, asked), topic.instance.cluster, series, topic.created_at, asked)


def group_flow(actor: Actor, group: Group, topic: str | None, asked: Asked) -> Flow:
    """What came to the topics of a group (or to this one), what it consumed, what waited, and what died of it.

    Dead letters are those of the whole group: of one topic they are not known. Raises Refused as `topic_flow` does.
    """
    cluster, name = group.instance.cluster, group.physical_name
    committed = _committed(group)
    topics = [topic] if topic else [one for one in committed if not is_retry_topic(one)]
    seen = _visible(actor, cluster, topics)
    series: dict[Kind, list[Series]] = {
        "in": [Series.into(cluster, one) for one in topics if one in seen],
        "out": [Series.out_of(cluster, one, name) for one in topics],
        "died": [] if topic else [Series.into(cluster, dead_letter_topic(name))],
    }
    moves = _Moves.of(cluster, [topic] if topic else committed, name)
    counted = _counted(cluster, series | {"backlog": moves.all}, group.created_at, asked)
    flow = _flow(counted, {kind: of for kind, of in series.items() if of}, asked, left_out=len(topics) - len(seen))
    backlog = _backlog(group, _waiting(group, topic, committed), moves, counted)
    if any(value is not None for value in backlog):
        flow.lines["backlog"] = backlog
    return _compared(flow, cluster, series, group.created_at, asked)


def _counted(
    cluster: Cluster, series: Mapping[Kind, Sequence[Series]], since: datetime, asked: Asked, *, ago_ms: int = 0
) -> Counted:
    every = list(dict.fromkeys(one for of in series.values() for one in of))
    return count(cluster, every, since, asked.period_minutes, asked.begin_ms - ago_ms, asked.end_ms - ago_ms)


def _flow(counted: Counted, series: Mapping[Kind, Sequence[Series]], asked: Asked, *, left_out: int = 0) -> Flow:
    lines: dict[Kind, Values] = {
        kind: counted.values(of, "count" if kind == "died" else asked.measure) for kind, of in series.items()
    }
    return Flow(asked.period_minutes, asked.measure, counted.now_ms, counted.starts, lines, left_out)


def _compared(
    flow: Flow, cluster: Cluster, series: Mapping[Kind, Sequence[Series]], since: datetime, asked: Asked
) -> Flow:
    """The same with in and out of the earlier range, if one was asked for."""
    name, ago_ms = asked.earlier
    if not ago_ms:
        return flow
    flows: dict[Kind, Sequence[Series]] = {kind: series[kind] for kind in ("in", "out") if series.get(kind)}
    before = _flow(_counted(cluster, flows, since, asked, ago_ms=ago_ms), flows, asked)
    # Of a range that goes on after now, the earlier one is longer.
    earlier = {kind: values[: len(flow.starts)] for kind, values in before.lines.items()}
    return replace(flow, earlier=earlier, compared=name)


def _visible(actor: Actor, cluster: Cluster, topics: Sequence[str]) -> set[str]:
    """Of these topics (physical names) those whose input the actor may see."""
    found = Topic.objects.filter(cluster=cluster, physical_name__in=topics).select_related("instance__tenant")
    by_owner: dict[Tenant, dict[str, str]] = defaultdict(dict)
    for topic in found:
        by_owner[topic.instance.tenant][mq_resource(topic.physical_name)] = topic.physical_name
    return {
        names[resource]
        for owner, names in by_owner.items()
        for resource in actor.allowed("mq:QueryTrend", dict.fromkeys(names, ""), owner=owner)
    }


def _committed(group: Group) -> dict[str, Any]:
    """Offsets of the group by physical topic, as last sampled."""
    raw = Store(group.instance.cluster.name).table("groups", [group.physical_name]).get(group.physical_name)
    found: dict[str, Any] = orjson.loads(raw) if raw else {}
    return found


@dataclass(frozen=True)
class _Moves:
    """What makes a backlog grow, and what makes it shrink."""

    came: list[Series]
    went: list[Series]

    @classmethod
    def of(cls, cluster: Cluster, topics: Iterable[str], group: str) -> _Moves:
        names = list(topics)
        return cls(
            [Series.into(cluster, name) for name in names], [Series.out_of(cluster, name, group) for name in names]
        )

    @property
    def all(self) -> list[Series]:
        return [*self.came, *self.went]


def _backlog(group: Group, waiting: float | None, moves: _Moves, counted: Counted) -> Values:
    """What waited at the end of each period, as far back as the way from the latest reading to it has no gap."""
    latest = Store(group.instance.cluster.name).latest()
    known: dict[int, float] = {}
    if latest is None or waiting is None or latest.at_ms - counted.starts[-1] > MAX_RANGE_MS:
        return [None for _ in counted.starts]
    resets = _resets(group, counted.starts[0])
    for part in reversed([counted, *_until(latest.at_ms, group, moves, counted)]):
        period_ms = part.minutes * MINUTE_MS
        for start in reversed(part.starts):
            end_ms = min(start + period_ms, latest.at_ms)
            if end_ms <= start:
                continue
            known[start] = max(0.0, waiting)
            was_missed = end_ms - start - part.covered[start] * 1000 > _may_miss_ms(period_ms)
            if was_missed or any(start <= at_ms < start + period_ms for at_ms in resets):
                return [known.get(start) for start in counted.starts]
            waiting += part.messages(moves.went, start) - part.messages(moves.came, start)
    return [known.get(start) for start in counted.starts]


def _may_miss_ms(period_ms: int) -> float:
    """What samples may leave open of a period without a gap: they end on either side of a minute.

    Over a gap, which is longer than a minute, nothing is counted, and nothing before it can be told.
    """
    return 20_000 + 0.05 * period_ms


def _until(at_ms: int, group: Group, moves: _Moves, counted: Counted) -> Iterator[Counted]:
    """What moved between the range and a reading: to the next full ten minutes in the same periods, then in such."""
    longest_ms = max(PERIODS) * MINUTE_MS
    begin_ms = counted.starts[-1] + counted.minutes * MINUTE_MS
    full_ms = -(-begin_ms // longest_ms) * longest_ms
    for minutes, first, last in (
        (counted.minutes, begin_ms, min(full_ms, at_ms)),
        (max(PERIODS), full_ms, at_ms),
    ):
        if first < last:
            yield count(group.instance.cluster, moves.all, group.created_at, minutes, first, last)


def _waiting(group: Group, topic: str | None, committed: Mapping[str, Any]) -> float | None:
    """What waits for the group, as last sampled: of all its topics, or of one; None where it has no offsets."""
    store = Store(group.instance.cluster.name)
    if topic is None:
        raw = store.table("backlog", [group.physical_name]).get(group.physical_name)
        return None if raw is None else float(raw)
    positions = store.table("topics", [topic]).get(topic)
    return None if positions is None else readings.backlog(orjson.loads(positions), committed[topic])


def _resets(group: Group, since_ms: int) -> list[float]:
    """When somebody set the group's offsets, epoch ms: what a reset left out or gave again is not counted."""
    sought = Filters(action=OFFSET_RESET, resource=group.physical_name, begin=zone.local(since_ms))
    return [at.timestamp() * 1000 for at in entries(group.owner, sought).values_list("at", flat=True)]
