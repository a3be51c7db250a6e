"""What the overview shows, and only what the actor may see of it."""

from __future__ import annotations

from dataclasses import dataclass

from brokercore.policy import mq_resource
from console.accounts.actor import Actor, tenant_resource
from console.instances import queries
from console.instances.models import Instance
from console.metrics.queries import Totals, live_totals
from console.sql.models import QueryTask
from console.sql.queries import visible_tasks

_TASKS = 6


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


def tasks(actor: Actor) -> list[QueryTask]:
    """The latest query tasks the actor may see."""
    return list(visible_tasks(actor)[:_TASKS])


def _may_see(actor: Actor, instance: Instance) -> bool:
    return actor.decide("mq:QueryInstance", mq_resource(instance.instance_id), owner=actor.tenant).allowed
