"""What a rule watches, over the last hour or day: a line for each thing that is worst off (docs/use/alarms.md).

From what the sampler, the workers and the rounds of evaluation have kept: no broker is asked. Of what is yes or no, and
of what nobody keeps, there is no curve.
"""

from __future__ import annotations

import heapq
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from brokercore.names import dead_letter_topic
from console.accounts.actor import Actor
from console.adoption.patterns import matcher
from console.alarms import counters
from console.alarms.models import Alarm, Condition, Rule
from console.alarms.readings import counter_of_account, counter_of_instance
from console.alarms.sentences import LIMITS
from console.instances.models import Cluster, Instance
from console.metrics.curves import Series, count
from console.metrics.flow import Asked, group_flow
from console.metrics.queries import age_s, counted_since_ms, group_hours, rates, topics_by_group
from console.metrics.store import HOT_WINDOW_MS, HotSample, Store
from console.pipelines import samples
from console.pipelines.models import Kind, Pipeline
from console.sql.models import QueryTask, TaskStatus
from console.topics.models import Group, Topic

#: Lines of a curve: more are not told apart.
MOST = 5
HOURS = (1, 24)
_MINUTE_MS, _HOUR_MS, _STEP_MS = 60_000, 3_600_000, 120_000
#: Of which no more than an hour is kept.
_SHORT = frozenset({Condition.DELAY, Condition.THROTTLED, Condition.REFUSED})

_Row = TypeVar("_Row", Topic, Group)

Points = Sequence[tuple[int, float | None]]
"""Moments (epoch ms) and values in the unit of the condition; None where nothing is known."""


@dataclass(frozen=True)
class Line:
    """One thing that the rule watches."""

    name: str
    points: Points

    @property
    def now(self) -> float | None:
        """The newest value."""
        return self.points[-1][1] if self.points else None

    @property
    def highest(self) -> float | None:
        """The highest value that is known."""
        return max((value for _at_ms, value in self.points if value is not None), default=None)


@dataclass(frozen=True)
class Curve:
    """Lines over a range (epoch ms), and when the rule fired in it."""

    begin_ms: int
    end_ms: int
    lines: list[Line]
    fired: list[tuple[int, int]] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known in the whole range."""
        return all(line.highest is None for line in self.lines)


@dataclass(frozen=True)
class _Range:
    rule: Rule
    actor: Actor
    begin_ms: int
    end_ms: int

    @property
    def is_short(self) -> bool:
        return self.end_ms - self.begin_ms <= _HOUR_MS

    @property
    def instances(self) -> list[Instance]:
        if self.rule.instance is not None:
            return [self.rule.instance]
        return list(Instance.objects.filter(tenant=self.rule.tenant).select_related("cluster").order_by("name"))

    @property
    def minutes(self) -> list[int]:
        """The end of each minute, epoch ms."""
        first = self.begin_ms - self.begin_ms % _MINUTE_MS + _MINUTE_MS
        return [*range(first, self.end_ms, _MINUTE_MS), self.end_ms]


def hours_of(rule: Rule) -> tuple[int, ...]:
    """Over how many hours there is a curve of the rule; none where there is no curve."""
    if rule.watched not in _LINES:
        return ()
    return HOURS[:1] if rule.watched in _SHORT else HOURS


def curve(actor: Actor, rule: Rule, hours: int) -> Curve:
    """The curve of the rule over the last `hours`, one of those of `hours_of`."""
    end_ms = int(time.time() * 1000)
    wanted = _Range(rule, actor, end_ms - hours * _HOUR_MS, end_ms)
    return Curve(wanted.begin_ms, end_ms, list(_LINES[rule.watched](wanted)), list(_fired(wanted)))


def _fired(wanted: _Range) -> Iterator[tuple[int, int]]:
    """From when until when an alarm of the rule fired, whichever."""
    last: tuple[int, int] | None = None
    for begin, end in sorted(_alarms(wanted)):
        if last is not None and begin <= last[1]:
            last = last[0], max(end, last[1])
            continue
        if last is not None:
            yield last
        last = begin, end
    if last is not None:
        yield last


def _alarms(wanted: _Range) -> Iterator[tuple[int, int]]:
    since = datetime.fromtimestamp(wanted.begin_ms / 1000, UTC)
    alarms = Alarm.objects.filter(rule=wanted.rule, fired_at__isnull=False).exclude(ended_at__lt=since)
    for alarm in alarms.order_by("-fired_at")[:50]:
        begin, end = (int(at.timestamp() * 1000) if at else wanted.end_ms for at in (alarm.fired_at, alarm.ended_at))
        yield max(wanted.begin_ms, begin), end


def _rates(wanted: _Range) -> Iterator[Line]:
    is_below = wanted.rule.watched == Condition.BELOW
    moving = {one.pk: rates(one.cluster, groups=[]).in_tps for one in wanted.instances}

    def worst(instance: int, physical_name: str) -> float:
        rate = moving[instance].get(physical_name) or 0.0
        return -rate if is_below else rate

    for cluster, topics in _by_cluster(_chosen(wanted, Topic.objects.all(), "name", worst)):
        series = {one: Series.into(cluster, one.physical_name) for one in topics}
        since = min(one.created_at for one in topics)
        minutes = 1 if wanted.is_short else 10
        counted = count(cluster, list(series.values()), since, minutes, wanted.begin_ms, wanted.end_ms)
        for topic, one in series.items():
            yield Line(topic.name, list(zip(counted.starts, counted.values([one], "tps"), strict=True)))


def _letters(wanted: _Range) -> Iterator[Line]:
    """How many came within the rule's minutes before each minute."""
    minutes = max(1, wanted.rule.minutes)
    stored = {one.pk: rates(one.cluster, groups=[]).stored for one in wanted.instances}

    def worst(instance: int, physical_name: str) -> float:
        return stored[instance].get(dead_letter_topic(physical_name), 0)

    for cluster, groups in _by_cluster(_chosen(wanted, Group.objects.all(), "group_id", worst)):
        series = {one: Series.into(cluster, dead_letter_topic(one.physical_name)) for one in groups}
        since = min(one.created_at for one in groups)
        begin_ms = wanted.begin_ms - minutes * _MINUTE_MS
        counted = count(cluster, list(series.values()), since, 1, begin_ms, wanted.end_ms)
        for group, one in series.items():
            values = [value or 0.0 for value in counted.values([one], "count")]
            ends = [start + _MINUTE_MS for start in counted.starts]
            sums = [sum(values[max(0, n - minutes + 1) : n + 1]) for n in range(len(values))]
            yield Line(group.group_id, list(zip(ends, sums, strict=True))[minutes:])


def _backlogs(wanted: _Range) -> Iterator[Line]:
    for group, behind in _furthest(wanted):
        if wanted.is_short:
            waiting = group_hours(group.instance.cluster, {group.physical_name: behind})[group.physical_name].backlog
            yield Line(group.group_id, _stepped(wanted, waiting))
        else:
            flow = group_flow(wanted.actor, group, None, Asked(10, "count", wanted.begin_ms, wanted.end_ms))
            ends = [min(start + flow.period_ms, wanted.end_ms) for start in flow.starts]
            yield Line(group.group_id, list(zip(ends, flow.lines.get("backlog", [None] * len(ends)), strict=True)))


def _delays(wanted: _Range) -> Iterator[Line]:
    """What waited at each step, counted back by what had come until then."""
    for group, behind in _furthest(wanted):
        cluster, name = group.instance.cluster, group.physical_name
        series = [f"in:{topic}" for topic in topics_by_group(cluster, [name])[name]]
        begin_ms = counted_since_ms(cluster, wanted.end_ms)
        # Of what is older than all that was counted it is not known by how much, but for what is an hour old.
        older = HOT_WINDOW_MS / 1000 if begin_ms <= wanted.end_ms - HOT_WINDOW_MS else None
        came = [one for of in Store(cluster.name).hot(series, begin_ms, wanted.end_ms) for one in of]
        came.sort(key=lambda one: -one.at_ms)
        points = _stepped(wanted, group_hours(cluster, {name: behind})[name].backlog)
        yield Line(group.group_id, [(at_ms, _age(came, waiting, at_ms, older)) for at_ms, waiting in points])


def _age(came: Sequence[HotSample], waiting: float | None, at_ms: int, older: float | None) -> float | None:
    if not waiting:
        return waiting
    age = age_s([one for one in came if one.at_ms <= at_ms], int(waiting), at_ms)
    return older if age is None else age


def _stepped(wanted: _Range, values: Sequence[float | None]) -> Points:
    last = wanted.end_ms
    return [(last - (len(values) - 1 - n) * _STEP_MS, value) for n, value in enumerate(values)]


def _held_back(wanted: _Range) -> Iterator[Line]:
    names = {counter_of_instance(one): one.name for one in wanted.instances}
    grown = counters.changes(list(names), wanted.end_ms)
    worst = heapq.nlargest(MOST, names, key=lambda one: sum(by for _at_ms, by in grown[one]))
    yield from (Line(names[one], _slid(wanted, grown[one])) for one in worst)


def _refused(wanted: _Range) -> Iterator[Line]:
    tenant = wanted.rule.tenant
    found = counters.changes([counter_of_account(tenant, reason) for reason in sorted(LIMITS)], wanted.end_ms)
    yield Line(tenant.name, _slid(wanted, [one for grown in found.values() for one in grown]))


def _statements(wanted: _Range) -> Iterator[Line]:
    since = datetime.fromtimestamp(wanted.begin_ms / 1000, UTC) - timedelta(minutes=wanted.rule.minutes)
    failed = QueryTask.objects.filter(tenant=wanted.rule.tenant, status=TaskStatus.FAILURE, update_time__gt=since)
    times = failed.order_by("-update_time").values_list("update_time", flat=True)[:10_000]
    yield Line(_("Failed statements"), _slid(wanted, [(int(at.timestamp() * 1000), 1) for at in times]))


def _slid(wanted: _Range, changes: Iterable[counters.Change]) -> Points:
    """How much came within the rule's minutes before each minute."""
    of_minutes: dict[int, int] = defaultdict(int)
    for at_ms, by in changes:
        of_minutes[-(-at_ms // _MINUTE_MS)] += by
    last, minutes = wanted.minutes, max(1, wanted.rule.minutes)
    return [
        (at, float(sum(of_minutes.get(number - n, 0) for n in range(minutes))))
        for at in last
        if (number := -(-at // _MINUTE_MS))
    ]


def _pipelines(wanted: _Range) -> Iterator[Line]:
    fits = matcher(wanted.rule.names)
    rows = Pipeline.objects.filter(tenant=wanted.rule.tenant, deleted_at=None).exclude(running_at=None)
    found = {one.pk: one for one in rows.order_by("name") if fits(one.name)}
    told = {pk: samples.delay_ms(found[pk].kind, now) or 0 for pk, now in samples.latest(list(found)).items()}
    for pk in heapq.nlargest(MOST, told, key=lambda pk: told[pk]):
        yield Line(found[pk].name, _delays_of(found[pk], (wanted.end_ms - wanted.begin_ms) // 1000))


def _delays_of(pipeline: Pipeline, seconds: int) -> Points:
    if pipeline.kind == Kind.JOB:
        told = [(one.at_ms, one.delay_ms) for one in samples.curve(pipeline.pk, seconds)]
    else:
        told = [(one.at_ms, one.behind_ms) for one in samples.counted(pipeline.pk, seconds)]
    return [(at_ms, None if delay is None else delay / 1000) for at_ms, delay in told]


def _furthest(wanted: _Range) -> list[tuple[Group, int]]:
    """The groups with the largest backlogs, and these."""
    backlogs = {one.pk: rates(one.cluster, topics=[]).backlog for one in wanted.instances}

    def behind(instance: int, physical_name: str) -> int:
        return backlogs[instance].get(physical_name, 0)

    groups = _chosen(wanted, Group.objects.all(), "group_id", behind)
    return [(one, behind(one.instance_id, one.physical_name)) for one in groups]


def _chosen(wanted: _Range, rows: QuerySet[_Row], name: str, worst: Callable[[int, str], float]) -> list[_Row]:
    """Those of the rule's things that are worst off now, at most MOST, the worst first.

    `worst` is given an instance's number and a physical name. Of all others only the names are read: an instance may
    have 20,000.
    """
    own = {one.pk: one for one in wanted.instances}
    fits = matcher(wanted.rule.names)
    every = rows.filter(instance__in=own).order_by(name).values_list("pk", "instance_id", "physical_name", name)
    worst_off = heapq.nlargest(MOST, (one for one in every if fits(one[3])), key=lambda one: worst(one[1], one[2]))
    found = rows.in_bulk([pk for pk, *_others in worst_off])
    for one in found.values():
        one.instance = own[one.instance_id]
    return [found[pk] for pk, *_others in worst_off if pk in found]


def _by_cluster(rows: Iterable[_Row]) -> Iterator[tuple[Cluster, list[_Row]]]:
    found: dict[Cluster, list[_Row]] = defaultdict(list)
    for one in rows:
        found[one.instance.cluster].append(one)
    yield from found.items()


_LINES: dict[Condition, Callable[[_Range], Iterator[Line]]] = {
    Condition.BACKLOG: _backlogs,
    Condition.STALLED: _backlogs,
    Condition.DELAY: _delays,
    Condition.DEAD_LETTERS: _letters,
    Condition.ABOVE: _rates,
    Condition.BELOW: _rates,
    Condition.THROTTLED: _held_back,
    Condition.REFUSED: _refused,
    Condition.PIPELINE_DELAY: _pipelines,
    Condition.STATEMENTS: _statements,
}
