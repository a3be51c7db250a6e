"""What each condition finds: the things of an account of which it holds now, the worst first (docs/use/alarms.md).

Judged on what a round has read (`readings`). What cannot be told raises Unknown; it is never taken for quiet.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.urls import reverse

from console.adoption.patterns import matcher
from console.alarms import sentences
from console.alarms.models import Condition, Rule
from console.alarms.readings import Named, Readings, Unknown, letters_of
from console.alarms.sentences import MOST_SAID, Facts
from console.pipelines import models as pipelines
from console.sql.models import QueryTask, TaskStatus
from console.topics.models import Group
from console.tracking.models import State as TrackingState
from console.tracking.models import TrackingTask

#: Of one rule so many things have an alarm at once, those that are worst off.
MOST = 50


@dataclass(frozen=True)
class Finding:
    """One thing of which a condition holds: which, what is said of it, how much, and where it is looked into."""

    kind: Condition
    subject: str
    facts: Facts
    value: float | None
    path: str

    @property
    def sentence(self) -> str:
        """What is said of it, in the current language."""
        return sentences.sentence(self.kind, self.facts)


def findings(rule: Rule, readings: Readings) -> list[Finding]:
    """The things of which the rule's condition holds now, at most MOST. Raises Unknown."""
    found = list(_JUDGES[rule.watched](rule, readings))
    found.sort(key=lambda one: -(one.value or 0))
    return found[:MOST]


def _backlog(rule: Rule, readings: Readings) -> Iterator[Finding]:
    for named in readings.of_groups(rule):
        backlog = readings.rates(named.instance).backlog
        for name, physical in _fitting(rule, named):
            behind = backlog.get(physical, 0)
            if behind and behind >= rule.threshold:
                yield _of_group(rule, named, name, behind, number=behind)


def _delay(rule: Rule, readings: Readings) -> Iterator[Finding]:
    for named in readings.of_groups(rule):
        backlog = readings.rates(named.instance).backlog
        behind = {name: number for name, physical in _fitting(rule, named) if (number := backlog.get(physical, 0))}
        for name, delay in readings.delays(named, behind).items():
            if delay.seconds >= rule.threshold:
                told = {"is_least": True} if delay.is_least else {}
                yield _of_group(rule, named, name, delay.seconds, seconds=delay.seconds, **told)


def _stalled(rule: Rule, readings: Readings) -> Iterator[Finding]:
    for named in readings.of_groups(rule):
        told = readings.rates(named.instance)
        for name, physical in _fitting(rule, named):
            behind = told.backlog.get(physical, 0)
            if behind and told.out_tps.get(physical) == 0:
                yield _of_group(rule, named, name, behind, number=behind)


def _offline(rule: Rule, readings: Readings) -> Iterator[Finding]:
    for named in readings.of_groups(rule):
        told = readings.rates(named.instance)
        # Who consumes is online: the brokers are asked for the others, and of many for those that are furthest behind.
        resting = {name: told.backlog.get(physical, 0) for name, physical in _fitting(rule, named)
                   if not told.out_tps.get(physical)}  # fmt: skip
        for name, group in _groups(named, resting):
            if not readings.is_online(group):
                yield _of_group(rule, named, name, resting[name], number=resting[name])


def _dead_letters(rule: Rule, readings: Readings) -> Iterator[Finding]:
    for named in readings.of_groups(rule):
        stored = readings.rates(named.instance).stored
        letters = letters_of(named)
        there = {name: letters[name] for name, _ in _fitting(rule, named) if stored.get(letters[name])}
        came = readings.came(named.instance, there.values(), rule.minutes)
        for name, topic in there.items():
            number = came[topic]
            if number and number >= rule.threshold:
                path = reverse("messaging.dead_letters", args=[named.instance.instance_id, name])
                facts = {"name": name, "instance": named.instance.name, "number": number, "minutes": rule.minutes}
                yield Finding(rule.watched, _subject("group", named, name), facts, number, path)


def _above(rule: Rule, readings: Readings) -> Iterator[Finding]:
    for named, name, rate in _rates(rule, readings):
        if rate >= rule.threshold:
            yield _of_topic(rule, named, name, rate)


def _below(rule: Rule, readings: Readings) -> Iterator[Finding]:
    for named, name, rate in _rates(rule, readings):
        if rate <= rule.threshold:
            yield _of_topic(rule, named, name, rate)


def _rates(rule: Rule, readings: Readings) -> Iterator[tuple[Named, str, float]]:
    for named in readings.of_topics(rule):
        moving = readings.rates(named.instance).in_tps
        for name, physical in _fitting(rule, named):
            rate = moving.get(physical, 0.0)
            if rate is None:  # it cannot be told of this one
                raise Unknown
            yield named, name, rate


def _storage(rule: Rule, readings: Readings) -> Iterator[Finding]:
    for health in readings.healths(rule.tenant):
        if health.outage:
            raise Unknown
        for one in health.brokers:
            if not one.absence and one.percent >= rule.threshold:
                yield _of_broker(rule, health.cluster.name, one.name, one.percent, percent=one.percent)


def _away(rule: Rule, readings: Readings) -> Iterator[Finding]:
    for health in readings.healths(rule.tenant):
        name = health.cluster.name
        if health.outage:
            yield Finding(rule.watched, f"cluster:{name}", {"cluster": name}, None, _storage_page())
        for one in health.brokers:
            if one.absence:
                yield _of_broker(rule, name, one.name, None)


def _throttled(rule: Rule, readings: Readings) -> Iterator[Finding]:
    for instance, number in readings.held_back(rule).items():
        if number and number >= rule.threshold:
            path = reverse("instances.detail", args=[instance.instance_id])
            facts = {"name": instance.name, "number": number, "minutes": rule.minutes}
            yield Finding(rule.watched, f"instance:{instance.instance_id}", facts, number, path)


def _refused(rule: Rule, readings: Readings) -> Iterator[Finding]:
    reasons = {reason: number for reason, number in readings.refused(rule).items() if number}
    number = sum(reasons.values())
    if number and number >= rule.threshold:
        most_first = sorted(reasons, key=lambda one: -reasons[one])
        facts = {"account": rule.tenant.name, "number": number, "minutes": rule.minutes, "reasons": most_first}
        yield Finding(rule.watched, "account", facts, number, _limits_page())


def _room(rule: Rule, readings: Readings) -> Iterator[Finding]:
    percent = readings.stored_percent(rule.tenant)
    if percent is not None and percent >= rule.threshold:
        facts = {"account": rule.tenant.name, "percent": percent}
        yield Finding(rule.watched, "account", facts, round(percent, 1), _limits_page())


def _pipeline(rule: Rule, readings: Readings) -> Iterator[Finding]:
    for one in _pipelines(rule, readings):
        if one.state == pipelines.State.FAILED:
            yield _of_pipeline(rule, one, None, reason=one.reason[:MOST_SAID])


def _stopped(rule: Rule, readings: Readings) -> Iterator[Finding]:
    for one in _pipelines(rule, readings):
        if one.state not in pipelines.BUSY and one.state != pipelines.State.DRAFT:
            yield _of_pipeline(rule, one, None, state=one.state)


def _pipeline_delay(rule: Rule, readings: Readings) -> Iterator[Finding]:
    for one in _pipelines(rule, readings):
        delay = readings.pipeline_delay_ms(one) if one.state == pipelines.State.RUNNING else None
        if delay is not None and delay >= rule.threshold * 1000:
            yield _of_pipeline(rule, one, delay / 1000, seconds=delay / 1000)


def _pipelines(rule: Rule, readings: Readings) -> Iterator[pipelines.Pipeline]:
    fits = matcher(rule.names)
    return (one for one in readings.pipelines(rule) if fits(one.name))


def _of_pipeline(rule: Rule, one: pipelines.Pipeline, value: float | None, **facts: Any) -> Finding:
    page = "jobs.detail" if one.kind == pipelines.Kind.JOB else "inflow.detail"
    told = {"name": one.name, "kind": one.kind} | facts
    return Finding(rule.watched, f"{one.kind}:{one.name}", told, value, reverse(page, args=[one.name]))


def _tracking(rule: Rule, _: Readings) -> Iterator[Finding]:
    fits = matcher(rule.names)
    for one in TrackingTask.objects.filter(tenant=rule.tenant, state=TrackingState.FAILED).order_by("name"):
        if fits(one.name):
            yield _of_tracking(rule, one, None, reason=one.sentence[:MOST_SAID])


def _tracking_delay(rule: Rule, readings: Readings) -> Iterator[Finding]:
    fits = matcher(rule.names)
    rows = TrackingTask.objects.filter(tenant=rule.tenant, state=TrackingState.NORMAL, lag_ms__isnull=False)
    for one in rows.order_by("name"):
        delay = _lag_s(one, readings.now_ms)
        if fits(one.name) and delay and delay >= rule.threshold:
            yield _of_tracking(rule, one, delay, seconds=delay)


def _of_tracking(rule: Rule, one: TrackingTask, value: float | None, **facts: Any) -> Finding:
    page = reverse("tracking.detail", args=[one.task_id])
    return Finding(rule.watched, f"tracking:{one.task_id}", {"name": one.name} | facts, value, page)


def _lag_s(task: TrackingTask, now_ms: int) -> float:
    """What its process told last, and for how long that has been silent; seconds."""
    lag_ms = task.lag_ms or 0
    if not task.is_held and task.heartbeat_at is not None:
        lag_ms += max(0, now_ms - int(task.heartbeat_at.timestamp() * 1000))
    return lag_ms / 1000


def _statements(rule: Rule, readings: Readings) -> Iterator[Finding]:
    since = datetime.fromtimestamp(readings.now_ms / 1000, UTC) - timedelta(minutes=max(1, rule.minutes))
    failed = QueryTask.objects.filter(tenant=rule.tenant, status=TaskStatus.FAILURE, update_time__gt=since).count()
    if failed and failed >= rule.threshold:
        page = f"{reverse('sql.tasks')}?status={TaskStatus.FAILURE}"
        yield Finding(rule.watched, "sql", {"number": failed, "minutes": rule.minutes}, failed, page)


def _fitting(rule: Rule, named: Named) -> Iterator[tuple[str, str]]:
    """Names that the rule means, with their physical names."""
    words = rule.names.split()
    if not any(character in rule.names for character in "*?"):
        yield from ((word, named.physical[word]) for word in words if word in named.physical)
    elif words == ["*"]:
        yield from named.physical.items()
    else:
        fits = matcher(rule.names)
        yield from ((name, physical) for name, physical in named.physical.items() if fits(name))


def _groups(named: Named, wanted: dict[str, int]) -> Iterator[tuple[str, Group]]:
    """The rows of groups, at most MOST, those first that are furthest behind."""
    furthest = heapq.nlargest(MOST, wanted, key=lambda name: wanted[name])
    rows = Group.objects.filter(instance=named.instance, group_id__in=furthest)
    for group in sorted(rows, key=lambda one: -wanted[one.group_id]):
        group.instance = named.instance
        yield group.group_id, group


def _of_group(rule: Rule, named: Named, name: str, value: float, **facts: Any) -> Finding:
    path = reverse("messaging.status", args=[named.instance.instance_id, name])
    told = {"name": name, "instance": named.instance.name} | facts
    return Finding(rule.watched, _subject("group", named, name), told, value, path)


def _of_topic(rule: Rule, named: Named, name: str, rate: float) -> Finding:
    path = reverse("metrics.topic", args=[named.instance.instance_id, name])
    facts = {"name": name, "instance": named.instance.name, "rate": rate}
    return Finding(rule.watched, _subject("topic", named, name), facts, rate, path)


def _of_broker(rule: Rule, cluster: str, name: str, value: float | None, **facts: Any) -> Finding:
    told = {"cluster": cluster, "broker": name} | facts
    return Finding(rule.watched, f"broker:{cluster}:{name}", told, value, _storage_page())


def _subject(kind: str, named: Named, name: str) -> str:
    return f"{kind}:{named.instance.instance_id}:{name}"


def _storage_page() -> str:
    return reverse("instances.overview") + "#storage"


def _limits_page() -> str:
    return reverse("instances.overview") + "#limits"


_JUDGES: dict[Condition, Callable[[Rule, Readings], Iterator[Finding]]] = {
    Condition.BACKLOG: _backlog,
    Condition.DELAY: _delay,
    Condition.STALLED: _stalled,
    Condition.OFFLINE: _offline,
    Condition.DEAD_LETTERS: _dead_letters,
    Condition.ABOVE: _above,
    Condition.BELOW: _below,
    Condition.STORAGE: _storage,
    Condition.AWAY: _away,
    Condition.THROTTLED: _throttled,
    Condition.REFUSED: _refused,
    Condition.ROOM: _room,
    Condition.PIPELINE: _pipeline,
    Condition.STOPPED: _stopped,
    Condition.PIPELINE_DELAY: _pipeline_delay,
    Condition.TRACKING: _tracking,
    Condition.TRACKING_DELAY: _tracking_delay,
    Condition.STATEMENTS: _statements,
}
