"""What the overview shows, only what the actor may see of it, and how full the brokers are."""

from __future__ import annotations

import heapq
from collections import defaultdict
from dataclasses import dataclass

from brokercore.policy import mq_resource
from console.accounts.actor import Actor, tenant_resource
from console.instances import queries
from console.instances.models import Cluster, Instance
from console.metrics.queries import Totals, live_totals, rates
from console.sql.models import QueryTask
from console.sql.queries import visible_tasks
from console.topics.models import Group
from console.topics.queries import visible_groups_in

_TASKS = 6
_GROUPS = 8
_DOES_NOT_ANSWER = "does not answer"
_STOPPED = "stopped"


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
        totals=live_totals(actor.tenant) if trend.allowed else None,
    )


@dataclass(frozen=True)
class Behind:
    """A group and how many messages it is behind; messages a second that it consumes, None while that is not known."""

    group: Group
    backlog: int
    out_tps: float | None


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


def tasks(actor: Actor) -> list[QueryTask]:
    """The latest query tasks the actor may see."""
    return list(visible_tasks(actor)[:_TASKS])


def _may_see(actor: Actor, instance: Instance) -> bool:
    return actor.decide("mq:QueryInstance", mq_resource(instance.instance_id), owner=actor.tenant).allowed
