"""Comparing a cluster with the database, and keeping what was found (docs/operate/drift.md).

Key space (Django's cache, in Redis):
  drifted:<cluster's primary key>            when it was compared, and of which accounts something differs
  drifted:<cluster's primary key>:<account>  what differs of an account (primary key), JSON; both stay
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson
from django.core.cache import cache
from django.utils import timezone

from brokercore.client.errors import ClientError
from console.accounts.models import Tenant
from console.drift.comparison import Difference, Expected, Kind, OnBrokers, Owner, State, compare
from console.instances import broker
from console.instances.models import Cluster, Instance
from console.topics.as_is import (
    CONSUMPTION,
    MODE,
    ORDER,
    QUEUES,
    RETRIES,
    TYPE,
    group_settings,
    group_settings_shown,
    mode_in_words,
    on_or_off,
    topic_settings,
    topic_settings_shown,
)
from console.topics.models import DeliveryOrder, Group, OrderType, Topic
from console.topics.services import MESSAGE_TYPES
from console.web import languages

Kept = str
"""A difference as it is kept: see `kept_of`. Thousands of texts are read in a moment; objects are not."""

_SEPARATOR = "\x1f"


@dataclass(frozen=True)
class Snapshot:
    """When a cluster was compared, and what differs of an account; `outage` says why nothing is known."""

    taken_at: datetime
    differences: list[Kept] = field(default_factory=list)
    outage: str = ""


def sweep(cluster: Cluster) -> None:
    """Compare now and keep the result, in English. An outage is a result too, never an empty list."""
    by_account: dict[int, list[Kept]] = {}
    outage = ""
    try:
        with languages.kept():
            found = _differences(cluster)
        for one in sorted(found, key=lambda difference: difference.physical_name):
            by_account.setdefault(one.tenant_id, []).append(kept_of(one))
    except ClientError as error:
        outage = error.user_message
    before = cache.get(_key(cluster)) or {"accounts": []}
    for tenant_id, rows in by_account.items():
        cache.set(_key(cluster, tenant_id), orjson.dumps(rows), timeout=None)
    head = {"taken_at": timezone.now(), "outage": outage, "accounts": list(by_account)}
    cache.set(_key(cluster), head, timeout=None)
    cache.delete_many([_key(cluster, tenant_id) for tenant_id in before["accounts"] if tenant_id not in by_account])


def last(cluster: Cluster, tenant: Tenant | None = None) -> Snapshot | None:
    """What the last sweep found, of an account what differs by name on the wire; None before the first."""
    head: dict[str, Any] | None = cache.get(_key(cluster))
    if head is None or "accounts" not in head:
        return None
    rows: list[Kept] = []
    if tenant is not None and tenant.pk in head["accounts"]:
        rows = orjson.loads(cache.get(_key(cluster, tenant.pk)) or b"[]")
    return Snapshot(head["taken_at"], rows, head["outage"])


def kept_of(one: Difference) -> Kept:
    """A difference as it is kept, without the account."""
    adopted = "1"[: one.adopted]
    return _SEPARATOR.join((one.physical_name, one.kind, one.state, one.name, one.instance_id, adopted, *one.details))


def difference_of(kept: Kept, tenant: Tenant) -> Difference:
    """The difference of an account that was kept."""
    physical_name, kind, state, name, instance_id, adopted, *details = kept.split(_SEPARATOR)
    return Difference(
        Kind(kind), State(state), physical_name, name, instance_id, tenant.pk, tuple(details), bool(adopted)
    )


def name_of(kept: Kept) -> str:
    """Its name on the wire."""
    return kept[: kept.index(_SEPARATOR)]


def is_adopted(kept: Kept) -> bool:
    """Whether it was taken over from the cluster as it was."""
    return kept.split(_SEPARATOR, 6)[5] == "1"


def kind_and_state(kept: Kept) -> tuple[str, str]:
    """What drifted, and how."""
    _, kind, state, _ = kept.split(_SEPARATOR, 3)
    return kind, state


def _key(cluster: Cluster, tenant_id: int | None = None) -> str:
    return f"drifted:{cluster.pk}" if tenant_id is None else f"drifted:{cluster.pk}:{tenant_id}"


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
    adopted = _adopted(Topic, cluster)
    return {
        name: {
            topic: (topic_settings_shown if topic in adopted else topic_settings)(config)
            for topic, config in configs.items()
        }
        for name, configs in broker.admin(cluster).topics.configs_by_broker().items()
    }


def _groups_of(cluster: Cluster) -> OnBrokers:
    adopted = _adopted(Group, cluster)
    return {
        name: {
            group: (group_settings_shown if group in adopted else group_settings)(config)
            for group, config in configs.items()
        }
        for name, configs in broker.admin(cluster).groups.configs_by_broker().items()
    }


def _adopted(model: type[Topic] | type[Group], cluster: Cluster) -> set[str]:
    """What was taken over as it was: its brokers may say more than its row can."""
    rows = model.objects.filter(cluster=cluster, adopted=True).order_by()
    return set(rows.values_list("physical_name", flat=True))


def _expected_topics(cluster: Cluster) -> list[Expected]:
    rows = Topic.objects.filter(instance__cluster=cluster).values_list(
        "physical_name",
        "name",
        "instance__instance_id",
        "instance__tenant_id",
        "queues",
        "perm",
        "order_type",
        "adopted",
    )
    return [
        Expected(
            physical,
            name,
            instance,
            tenant,
            {QUEUES: queues, MODE: mode_in_words(perm), TYPE: MESSAGE_TYPES[OrderType(order_type)]},
            everywhere=order_type != OrderType.GLOBALLY_ORDERED,
            adopted=adopted,
        )
        for physical, name, instance, tenant, queues, perm, order_type, adopted in rows
    ]


def _expected_groups(cluster: Cluster) -> list[Expected]:
    rows = Group.objects.filter(instance__cluster=cluster).values_list(
        "physical_name", "group_id", "instance__instance_id", "owner_id", "read_enabled", "retry_max_times",
        "delivery_order", "adopted",
    )  # fmt: skip
    return [
        Expected(
            physical,
            name,
            instance,
            owner,
            {CONSUMPTION: on_or_off(enabled), RETRIES: retries, ORDER: on_or_off(order == DeliveryOrder.ORDERLY)},
            adopted=adopted,
        )
        for physical, name, instance, owner, enabled, retries, order, adopted in rows
    ]
