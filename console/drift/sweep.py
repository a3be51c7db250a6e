"""Comparing a cluster with the database, and keeping what was found (docs/operate/drift.md).

Key space (Django's cache, in Redis):
  drift:<cluster's primary key>  the last snapshot, as plain values; stays until the next one
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from django.core.cache import cache
from django.utils import timezone

from brokercore.client.errors import ClientError
from console.drift.comparison import Difference, Expected, Kind, OnBrokers, Owner, State, compare
from console.instances import broker
from console.instances.models import Cluster, Instance
from console.topics.models import Group, OrderType, Permission, Topic
from console.topics.services import MESSAGE_TYPES

QUEUES, MODE, TYPE, CONSUMPTION, RETRIES = "queues", "mode", "message type", "consumption", "redeliveries"


@dataclass(frozen=True)
class Snapshot:
    """What differed on a cluster at a moment; `outage` says why nothing is known."""

    taken_at: datetime
    differences: list[Difference] = field(default_factory=list)
    outage: str = ""


def sweep(cluster: Cluster) -> Snapshot:
    """Compare now and keep the result. An outage is a result too, never an empty list."""
    try:
        snapshot = Snapshot(timezone.now(), _differences(cluster))
    except ClientError as error:
        snapshot = Snapshot(timezone.now(), outage=error.user_message)
    cache.set(_key(cluster), asdict(snapshot), timeout=None)
    return snapshot


def last(cluster: Cluster) -> Snapshot | None:
    """What the last sweep found, None before the first."""
    kept: dict[str, Any] | None = cache.get(_key(cluster))
    if kept is None:
        return None
    rows = [
        Difference(**(row | {"kind": Kind(row["kind"]), "state": State(row["state"])})) for row in kept["differences"]
    ]
    return Snapshot(kept["taken_at"], rows, kept["outage"])


def _key(cluster: Cluster) -> str:
    return f"drift:{cluster.pk}"


def _differences(cluster: Cluster) -> list[Difference]:
    """Brokers first: what is created meanwhile is then in the database as well, and not taken for an unknown one."""
    topics, groups = _topics_of(cluster), _groups_of(cluster)
    owners = {
        instance_id: Owner(instance_id, tenant_id)
        for instance_id, tenant_id in Instance.objects.filter(cluster=cluster, independent_naming=True).values_list(
            "instance_id", "tenant_id"
        )
    }
    return compare(Kind.TOPIC, _expected_topics(cluster), topics, owners) + compare(
        Kind.GROUP, _expected_groups(cluster), groups, owners
    )


def _topics_of(cluster: Cluster) -> OnBrokers:
    return {
        name: {
            topic: {QUEUES: config.write_queues, MODE: _mode(config.perm), TYPE: config.message_type}
            for topic, config in configs.items()
        }
        for name, configs in broker.admin(cluster).topics.configs_by_broker().items()
    }


def _groups_of(cluster: Cluster) -> OnBrokers:
    return {
        name: {
            group: {CONSUMPTION: _on(config.consume_enable), RETRIES: config.retry_max_times}
            for group, config in configs.items()
        }
        for name, configs in broker.admin(cluster).groups.configs_by_broker().items()
    }


def _expected_topics(cluster: Cluster) -> list[Expected]:
    rows = Topic.objects.filter(instance__cluster=cluster).values_list(
        "physical_name", "name", "instance__instance_id", "instance__tenant_id", "queues", "perm", "order_type"
    )
    return [
        Expected(
            physical,
            name,
            instance,
            tenant,
            {QUEUES: queues, MODE: _mode(perm), TYPE: MESSAGE_TYPES[OrderType(order_type)]},
            everywhere=order_type != OrderType.GLOBALLY_ORDERED,
        )
        for physical, name, instance, tenant, queues, perm, order_type in rows
    ]


def _expected_groups(cluster: Cluster) -> list[Expected]:
    rows = Group.objects.filter(instance__cluster=cluster).values_list(
        "physical_name", "group_id", "instance__instance_id", "owner_id", "read_enabled", "retry_max_times"
    )
    return [
        Expected(physical, name, instance, owner, {CONSUMPTION: _on(enabled), RETRIES: retries})
        for physical, name, instance, owner, enabled, retries in rows
    ]


def _mode(perm: int) -> str:
    """Bit 4 read, bit 2 write; a broker may have neither."""
    return str(dict(Permission.choices).get(perm & Permission.READ_WRITE, "neither read nor write")).lower()


def _on(enabled: bool) -> str:
    return "on" if enabled else "off"
