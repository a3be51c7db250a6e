"""What the overview shows, only what the actor may see of it, and how full the brokers are."""

from __future__ import annotations

import heapq
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum

from django.utils.translation import gettext as _

from brokercore.client.errors import ClientError
from brokercore.policy import mq_resource
from console.accounts.actor import Actor, tenant_resource
from console.instances import queries
from console.instances.models import Cluster, Instance
from console.messaging.status import clients_of, oldest_waits_s
from console.metrics import totals
from console.metrics.queries import dead_letter_counts, delays, group_hours, rates
from console.metrics.store import HOT_WINDOW_MS
from console.metrics.totals import DAY_MS, Step, Totals, history
from console.sql.models import QueryTask
from console.sql.queries import visible_tasks
from console.topics.live import GroupHour
from console.topics.models import Group
from console.topics.queries import visible_groups_in
from console.web.languages import gettext_lazy

_TASKS = 6
#: Steps of the last hour that are its last quarter; those of a group's that are its last ten minutes, and one before.
_QUARTER, _RECENT_STEPS = 15, 6
_GROUPS = 8


@dataclass(frozen=True)
class Overview:
    """Numbers of the tenant; `totals` is None without the right to see trends."""

    instances: list[Instance]
    topics: int
    groups: int
    totals: Totals | None


def overview(actor: Actor) -> Overview:
    """Instances with their counts, live rates and backlog."""
    instances = [i for i in queries.instances_with_counts(actor.tenant) if _may_see(actor, i)]
    trend = actor.decide("mq:QueryTrend", tenant_resource(actor.tenant), owner=actor.tenant)
    return Overview(
        instances=instances,
        topics=sum(i.topic_count for i in instances),  # type: ignore[attr-defined]
        groups=sum(i.group_count for i in instances),  # type: ignore[attr-defined]
        totals=totals.now(actor.tenant) if trend.allowed else None,
    )


@dataclass(frozen=True)
class LastHour:
    """An account's last hour, oldest first, and what of it the first page says in numbers."""

    steps: list[Step]
    died: int
    backlog_grown: int | None
    """By how many messages the backlog has grown in 15 minutes; None while that is not known."""
    in_tps_yesterday: float | None
    """Messages a second in the same hour of the day before, where it was sampled."""

    @property
    def backlog_shrunk(self) -> int:
        """By how many messages it has become less."""
        return -(self.backlog_grown or 0)

    @property
    def lines(self) -> dict[str, list[float | None]]:
        """The values of each line."""
        return {what: [getattr(step, what) for step in self.steps] for what in ("in_tps", "out_tps", "backlog", "died")}


def last_hour(actor: Actor) -> LastHour:
    """What the account's messages did in the last hour."""
    steps = history(actor.tenant, "1h")
    known = [step.backlog for step in steps[-_QUARTER:] if step.backlog is not None]
    before = [step.in_tps for step in history(actor.tenant, "1h", before_ms=DAY_MS) if step.in_tps is not None]
    return LastHour(
        steps=steps,
        died=sum(step.died or 0 for step in steps),
        backlog_grown=known[-1] - known[0] if len(known) > 1 else None,
        in_tps_yesterday=sum(before) / len(before) if before else None,
    )


class Condition(Enum):
    """How a group does: what stands beside its name, and the colour of its lines."""

    STANDS = gettext_lazy("consumes nothing"), "red"
    BEHIND = gettext_lazy("falls behind"), "yellow"
    WELL = "", "green"

    @property
    def words(self) -> str:
        """What is said of it; nothing of one that does well."""
        return self.value[0]

    @property
    def colour(self) -> str:
        """Of its dot and its lines."""
        return self.value[1]


@dataclass(frozen=True)
class Behind:
    """A group and how many messages it is behind; messages a second that it consumes, None while that is not known.

    `letters` are in its dead-letter queue. `last_hour` is None where it was not asked for, and so is `delay_s`, the
    age of the oldest message that waits, and of a group that stands whether a client of it is connected.
    """

    group: Group
    backlog: int
    out_tps: float | None
    letters: int = 0
    last_hour: GroupHour | None = None
    delay_s: float | None = None
    online: bool | None = None

    @property
    def words(self) -> str:
        """What is said of it beside its name."""
        return _("offline") if self.online is False else self.condition.words

    @property
    def waits(self) -> str:
        """For how long its oldest message waits, as people say it; empty where none does or it is not known."""
        return waiting_words(self.delay_s)

    @property
    def condition(self) -> Condition:
        """Whether it consumes, and as fast as messages come."""
        if self.backlog and self.out_tps == 0:
            return Condition.STANDS
        known = [one for one in self.last_hour.backlog[-_RECENT_STEPS:] if one is not None] if self.last_hour else []
        grown = known[-1] - known[0] if known else 0
        return Condition.BEHIND if grown >= max(100, self.backlog / 10) else Condition.WELL


@dataclass(frozen=True)
class Backlogs:
    """The groups that are furthest behind, of so many; `sampled_at` is None without a recent sample (epoch ms).

    `unsampled` says that there is none of a cluster on which some of them are.
    """

    behind: list[Behind]
    groups: int
    sampled_at: int | None
    unsampled: bool = False


def by_cluster(actor: Actor) -> dict[Cluster, list[Instance]]:
    """The account's instances that the actor may see, by the clusters on which they are."""
    found: dict[Cluster, list[Instance]] = defaultdict(list)
    for instance in queries.instances(actor.tenant).select_related("cluster"):
        if _may_see(actor, instance):
            found[instance.cluster].append(instance)
    return found


def backlogs(actor: Actor, most: int = _GROUPS) -> Backlogs:
    """The groups of the account that are furthest behind, the furthest first, as far as the actor may see them."""
    found: list[tuple[int, int, float | None]] = []
    number, sampled, unsampled = 0, [], False
    for cluster, instances in by_cluster(actor).items():
        told = rates(cluster, topics=[])
        names = list(visible_groups_in(actor, instances).values_list("physical_name", "pk"))
        number += len(names)
        if told.sampled_at is not None:
            sampled.append(told.sampled_at)
            found += [(told.backlog.get(name, 0), pk, told.out_tps.get(name)) for name, pk in names]
        elif names:
            unsampled = True
    first = heapq.nlargest(most, found, key=lambda one: one[0])
    groups = Group.objects.select_related("instance__cluster").in_bulk([pk for _, pk, _ in first])
    behind = [Behind(groups[pk], backlog, out) for backlog, pk, out in first if pk in groups]
    return Backlogs(behind, number, min(sampled, default=None), unsampled)


def waiting_words(delay_s: float | None) -> str:
    """A delay in words, to the minute: `18 min`; what is longer than samples are kept is more than an hour."""
    if delay_s is None:
        return ""
    if delay_s * 1000 >= HOT_WINDOW_MS:
        return _("more than an hour")
    return f"{int(delay_s)} s" if delay_s < 60 else f"{int(delay_s) // 60} min"


def _online(behind: Iterable[Behind]) -> dict[int, bool]:
    """Whether clients of the groups that stand are connected, as far as the brokers of their cluster tell it."""
    found: dict[int, bool] = {}
    for one in behind:
        if one.backlog and not one.out_tps:
            try:
                found[one.group.pk] = clients_of(one.group) is not None
            except ClientError:
                break  # the others would be waited for as long
    return found


def _ages_s(cluster: Cluster, behind: Iterable[Behind]) -> dict[int, float]:
    """How old the oldest waiting message of each of these groups of a cluster is, seconds, where that is known.

    What waited before anything was counted is looked at in the brokers, as far as they answer.
    """
    some = [one for one in behind if one.backlog]
    told = delays(cluster, {one.group.physical_name: one.backlog for one in some}, int(time.time() * 1000))
    found: dict[int, float] = {}
    is_answering = True
    for one in some:
        delay = told[one.group.physical_name]
        if not delay.is_least or delay.is_of_window:
            found[one.group.pk] = delay.seconds
        elif is_answering:
            try:
                age = oldest_waits_s(one.group)
            except ClientError:
                is_answering = False  # the others would be waited for as long
                continue
            if age is not None:
                found[one.group.pk] = age
    return found


def oldest_s(one: Behind) -> float | None:
    """How old the oldest waiting message of a group is, seconds; None where that is not known."""
    return _ages_s(one.group.instance.cluster, [one]).get(one.group.pk)


def groups_by_backlog(actor: Actor) -> Backlogs:
    """`backlogs`, with the dead letters, the last hour and the delay of each group, and whether it is offline."""
    found = backlogs(actor)
    of_cluster: dict[Cluster, list[Behind]] = defaultdict(list)
    for one in found.behind:
        of_cluster[one.group.instance.cluster].append(one)
    told: dict[int, Behind] = {}
    for cluster, some in of_cluster.items():
        hours = group_hours(cluster, {one.group.physical_name: one.backlog for one in some})
        letters, _ = dead_letter_counts(cluster, list(hours))
        ages, online = _ages_s(cluster, some), _online(some)
        for one in some:
            name = one.group.physical_name
            told[one.group.pk] = replace(
                one,
                letters=letters.get(name, 0),
                last_hour=hours[name],
                delay_s=ages.get(one.group.pk),
                online=online.get(one.group.pk),
            )
    return replace(found, behind=[told[one.group.pk] for one in found.behind])


def tasks(actor: Actor) -> list[QueryTask]:
    """The latest query tasks the actor may see."""
    return list(visible_tasks(actor)[:_TASKS])


def _may_see(actor: Actor, instance: Instance) -> bool:
    return actor.decide("mq:QueryInstance", mq_resource(instance.instance_id), owner=actor.tenant).allowed
