"""What needs somebody now, the worst first, each with the page on which it is looked into (docs/use/metrics.md).

Only what the actor may see. What cannot be asked is named: a quiet list must not hide an outage.
"""

from __future__ import annotations

import heapq
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from enum import IntEnum

from django.db.models import Count
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from redis.exceptions import RedisError

from brokercore.client.errors import ClientError
from brokercore.names import dead_letter_topic
from console.accounts import access as accounts
from console.accounts.actor import Actor, tenant_resource
from console.accounts.credentials import last_uses
from console.accounts.models import AccessKey
from console.alarms import access as alarms
from console.alarms import queries as alarm_queries
from console.alarms.models import Severity as AlarmSeverity
from console.cluster import brokers
from console.inflow import access as inflow
from console.jobs import access as jobs
from console.messaging.status import clients_of
from console.metrics.queries import group_topics, messages_within, rates
from console.outbox.models import Notification, NotificationStatus
from console.overview import queries
from console.overview.queries import Behind
from console.pipelines.models import Kind, Pipeline, State
from console.sql.models import TaskStatus
from console.sql.queries import visible_tasks
from console.topics.models import Group
from console.topics.queries import visible_groups_in
from console.tracking import access as tracking
from console.tracking.models import State as TrackingState
from console.tracking.models import TrackingTask
from console.web.words import counted

#: Groups with the largest backlogs that are looked at; each may cost a question to a broker.
_GROUPS_ASKED = 20
#: Of a kind (groups that are offline, jobs that failed, …), so many are named.
_NAMED = 5
#: A backlog grows when it has so many messages, and such a part of itself, more than so long ago.
_GROWN_MESSAGES, _GROWN_PART, _GROWN_MS = 100, 0.1, 10 * 60_000
_HOUR_MS = 3600_000
_UNUSED = timedelta(days=90)
_LATE = timedelta(minutes=5)


class _UnsampledError(Exception):
    """There is no recent sample of a cluster on which the account has groups."""


_UNANSWERED = (ClientError, RedisError, _UnsampledError)


class Severity(IntEnum):
    """How bad it is; the page sorts by it."""

    CRITICAL, WARNING, NOTE = range(3)

    @property
    def colour(self) -> str:
        """Of the bar beside it."""
        return ("red", "yellow", "azure")[self]


@dataclass(frozen=True)
class Trouble:
    """One thing: a sentence with the number that matters, what else is known, and the next step."""

    severity: Severity
    title: str
    note: str
    url: str
    step: str


@dataclass(frozen=True)
class Attention:
    """What was found, the worst first, and what could not be looked at."""

    troubles: list[Trouble]
    unknown: list[str]


def attention(actor: Actor) -> Attention:
    """Everything that needs somebody now, as far as the actor may see it."""
    troubles: list[Trouble] = []
    unknown: list[str] = []
    ways: dict[str, Callable[[Actor], Iterable[Trouble]]] = {
        "alarms": _alarms,
        "groups": _groups,
        _("dead letters"): _dead_letters,
        "brokers": _brokers,
        _("SQL jobs and inflow tasks"): _pipelines,
        _("change tracking"): _tracking,
        "notifications": _notifications,
        "AccessKeys": _keys,
    }
    for what, way in ways.items():
        try:
            for one in way(actor):
                troubles.append(one)
        except _UNANSWERED:
            unknown.append(what)
    return Attention(sorted(troubles, key=lambda one: one.severity), unknown)


def _alarms(actor: Actor) -> Iterator[Trouble]:
    """Alarms that fire, the worst of them for all."""
    if not alarms.may(actor, alarms.QUERY):
        return
    firing = list(alarm_queries.firing(actor.tenant).filter(acknowledged_at=None)[:_GROUPS_ASKED])
    if firing:
        is_critical = any(one.severity == AlarmSeverity.CRITICAL for one in firing)
        title = ngettext("%(firing)s alarm fires", "%(firing)s alarms fire", len(firing)) % {"firing": len(firing)}
        severity = Severity.CRITICAL if is_critical else Severity.WARNING
        yield Trouble(severity, title, firing[0].told, reverse("alarms.list"), _("See alarms"))


def _groups(actor: Actor) -> Iterator[Trouble]:
    """Groups that nobody consumes for, and those that fall behind."""
    if not _sees_trends(actor):
        return
    offline = slow = 0
    backlogs = queries.backlogs(actor, _GROUPS_ASKED)
    for one in backlogs.behind:
        if not one.backlog:
            break
        group = one.group
        url = reverse("messaging.status", args=[group.instance.instance_id, group.group_id])
        if not one.out_tps and clients_of(group) is None:
            offline += 1
            if offline <= _NAMED:
                title = ngettext(
                    "%(group_id)s is offline and %(backlog)s message waits",
                    "%(group_id)s is offline and %(backlog)s messages wait",
                    one.backlog,
                ) % {"group_id": group.group_id, "backlog": f"{one.backlog:,}"}
                yield Trouble(
                    Severity.CRITICAL,
                    title,
                    _rates_of(one),
                    url,
                    _("See group"),
                )
        elif (grown := _grown(group, one)) is not None:
            slow += 1
            if slow <= _NAMED:
                note = _("%(grown)s more than 10 minutes ago · %(one)s") % {
                    "grown": counted(grown, "message"),
                    "one": _rates_of(one),
                }
                title = _("%(group_id)s falls behind: %(backlog)s") % {
                    "group_id": group.group_id,
                    "backlog": counted(one.backlog, "message"),
                }
                yield Trouble(Severity.WARNING, title, note, url, _("See clients"))
    if backlogs.unsampled:
        raise _UnsampledError


def _grown(group: Group, one: Behind) -> int | None:
    """By how much the backlog has grown, when that is worth a look."""
    now_ms = int(time.time() * 1000)
    topics = group_topics(group)
    series = [f"in:{topic}" for topic in topics] + [f"out:{topic}@{group.physical_name}" for topic in topics]
    moved = messages_within(group.instance.cluster, series, now_ms - _GROWN_MS, now_ms)
    grown = sum(moved[: len(topics)]) - sum(moved[len(topics) :])
    return grown if grown >= max(_GROWN_MESSAGES, _GROWN_PART * one.backlog) else None


def _rates_of(one: Behind) -> str:
    """What it consumes, for how long its oldest message waits, and where it is."""
    told = []
    if one.out_tps is not None:
        told.append(_("consumes %(rate)s messages/s") % {"rate": f"{one.out_tps:,.4g}"})
    if waits := queries.waiting_words(queries.oldest_s(one)):
        told.append(_("the oldest waits %(waits)s") % {"waits": waits})
    told.append(_("instance %(name)s") % {"name": one.group.instance.name})
    return " · ".join(told)


def _dead_letters(actor: Actor) -> Iterator[Trouble]:
    """Groups whose messages died within the last hour, those with the most first."""
    if not _sees_trends(actor):
        return
    now_ms = int(time.time() * 1000)
    found: list[tuple[int, int, int]] = []
    is_sampled = True
    for cluster, instances in queries.by_cluster(actor).items():
        visible = visible_groups_in(actor, instances, "mq:QueryMessage").values_list("physical_name", "pk")
        letters = {dead_letter_topic(name): pk for name, pk in visible}
        told = rates(cluster, topics=list(letters), groups=[])
        is_sampled = is_sampled and (told.sampled_at is not None or not letters)
        stored = {name: n for name, n in told.stored.items() if n}
        died = messages_within(cluster, [f"in:{name}" for name in stored], now_ms - _HOUR_MS, now_ms)
        found += [(number, stored[name], letters[name]) for name, number in zip(stored, died, strict=True) if number]
    most = heapq.nlargest(_NAMED, found)
    groups = Group.objects.select_related("instance").in_bulk([pk for _unused, _unused, pk in most])
    for number, kept, group in ((number, kept, groups[pk]) for number, kept, pk in most if pk in groups):
        yield Trouble(
            Severity.CRITICAL,
            _("%(number)s in the last hour in %(group_id)s")
            % {"number": counted(number, "dead letter"), "group_id": group.group_id},
            _("%(kept)s kept in all · instance %(name)s") % {"kept": f"{kept:,}", "name": group.instance.name},
            reverse("messaging.dead_letters", args=[group.instance.instance_id, group.group_id]),
            _("Inspect"),
        )
    if not is_sampled:
        raise _UnsampledError


def _brokers(actor: Actor) -> Iterator[Trouble]:
    """Brokers that do not answer, and those that are nearly full."""
    if not actor.decide("mq:QueryInstance", tenant_resource(actor.tenant), owner=actor.tenant).allowed:
        return
    url = reverse("instances.overview") + "#storage"
    healths = brokers.seen_by(actor.tenant)
    for health in healths:
        if health.outage:
            title = _("Cluster %(name)s does not answer") % {"name": health.cluster.name}
            yield Trouble(Severity.CRITICAL, title, health.outage, url, _("See brokers"))
        for one in health.away:
            note = _("Its messages are kept, and delivered when it runs again")
            yield Trouble(
                Severity.CRITICAL, _("Broker %(one)s does not answer") % {"one": one.name}, note, url, _("See brokers")
            )
    for one in (broker for health in healths for broker in health.brokers):
        if one.percent >= 75 and not one.absence:
            severity = Severity.CRITICAL if one.percent >= 90 else Severity.WARNING
            note = _("A full store refuses new messages")
            yield Trouble(
                severity,
                _("Broker %(one)s is %(percent)s %% full") % {"one": one.name, "percent": one.percent},
                note,
                url,
                _("See brokers"),
            )


def _pipelines(actor: Actor) -> Iterator[Trouble]:
    """SQL jobs and inflow tasks that failed."""
    failed = Pipeline.objects.filter(tenant=actor.tenant, state=State.FAILED, deleted_at=None).order_by("name")
    for one in failed.defer("draft")[:_GROUPS_ASKED]:
        is_job = one.kind == Kind.JOB
        may = jobs.may(actor, jobs.QUERY, one.name) if is_job else inflow.may(actor, inflow.QUERY, one.name)
        if may:
            page = "jobs.detail" if is_job else "inflow.detail"
            title = (_("SQL job %(name)s has failed") if is_job else _("Inflow task %(name)s has failed")) % {
                "name": one.name
            }
            yield Trouble(Severity.CRITICAL, title, one.reason[:200], reverse(page, args=[one.name]), _("See why"))


def _tracking(actor: Actor) -> Iterator[Trouble]:
    """Change tracking tasks that cannot read their database."""
    for task in TrackingTask.objects.filter(tenant=actor.tenant, state=TrackingState.FAILED).order_by("name")[:_NAMED]:
        if tracking.may(actor, tracking.QUERY, task.task_id):
            title = _("Changes of the database of %(task)s are not read") % {"task": task.name}
            url = reverse("tracking.detail", args=[task.task_id])
            yield Trouble(Severity.CRITICAL, title, task.sentence[:200], url, _("See how to mend it"))


def _notifications(actor: Actor) -> Iterator[Trouble]:
    """Notices of statements that do not reach their topics and queues, and statements that failed in the last hour."""
    now = timezone.now()
    visible = visible_tasks(actor)
    ids = visible.filter(notification__isnull=False).values("notification")
    sent = Notification.objects.filter(pk__in=ids)
    late = sent.filter(
        status__in=[NotificationStatus.PENDING, NotificationStatus.SENDING], created_at__lt=now - _LATE
    ).count()
    given_up = sent.filter(status=NotificationStatus.FAILURE, ended_at__gt=now - timedelta(days=1)).count()
    url = reverse("sql.tasks")
    if late:
        title = _("%(late)s not delivered yet") % {"late": counted(late, "notification")}
        note = _("Tried again until a day is over")
        yield Trouble(Severity.WARNING, title, note, url, _("See statements"))
    if given_up:
        title = _("%(given_up)s given up in the last day") % {"given_up": counted(given_up, "notification")}
        yield Trouble(Severity.WARNING, title, _("The statement's page sends it again"), url, _("See statements"))
    failures = visible.filter(status=TaskStatus.FAILURE, update_time__gt=now - timedelta(hours=1))
    if number := failures.aggregate(number=Count("pk"))["number"]:
        title = _("%(number)s failed in the last hour") % {"number": counted(number, "statement")}
        yield Trouble(Severity.NOTE, title, "", f"{url}?status={TaskStatus.FAILURE}", _("See statements"))


def _keys(actor: Actor) -> Iterator[Trouble]:
    """AccessKeys that nobody has used for long: each is one more to be stolen."""
    if not accounts.may(actor, "ram:ListAccessKeys", "user/*"):
        return
    before = timezone.now() - _UNUSED
    keys = list(
        AccessKey.objects.filter(user__tenant=actor.tenant, enabled=True, created_at__lt=before)
        .exclude(last_used_at__gte=before)
        .select_related("user")
        .order_by("created_at")
    )
    used = {number for number, use in last_uses(keys).items() if use.at >= before}
    holders = Counter(key.user.username for key in keys if key.user is not None and key.access_key_id not in used)
    for username, number in holders.most_common(_NAMED):
        title = ngettext(
            "%(number)s AccessKey of %(username)s was not used for 90 days",
            "%(number)s AccessKeys of %(username)s were not used for 90 days",
            number,
        ) % {"number": number, "username": username}
        url = reverse("accounts.user", args=[username])
        yield Trouble(Severity.NOTE, title, _("Disable or delete what nothing needs"), url, _("Review"))


def _sees_trends(actor: Actor) -> bool:
    return actor.decide("mq:QueryTrend", tenant_resource(actor.tenant), owner=actor.tenant).allowed
