"""What the overview shows, only what the actor may see of it, and how full the brokers are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.conf import settings

from brokercore.client import Admin
from brokercore.policy import mq_resource
from console.accounts.actor import Actor, tenant_resource
from console.instances import broker, queries
from console.instances.models import Cluster, Instance
from console.metrics.queries import Totals, live_totals
from console.sql.models import QueryTask
from console.sql.queries import visible_tasks

_TASKS = 6
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


def tasks(actor: Actor) -> list[QueryTask]:
    """The latest query tasks the actor may see."""
    return list(visible_tasks(actor)[:_TASKS])


def _may_see(actor: Actor, instance: Instance) -> bool:
    return actor.decide("mq:QueryInstance", mq_resource(instance.instance_id), owner=actor.tenant).allowed


@dataclass(frozen=True)
class BrokerStorage:
    """One broker. Sizes in bytes are known of embedded brokers only."""

    name: str
    version: str
    ratio: float
    used_bytes: int | None
    max_bytes: int | None
    retention_hours: float | None
    absence: str = ""
    """Why nothing is known of it now; empty for a broker that answers."""

    @property
    def percent(self) -> int:
        """How full, from 0 to 100."""
        return min(100, max(0, round(self.ratio * 100)))

    @property
    def colour(self) -> str:
        """Above 90 % the next thing that happens is refused sends."""
        return "red" if self.percent >= 90 else "yellow" if self.percent >= 75 else "primary"


def brokers() -> list[BrokerStorage]:
    """The brokers of all clusters of the region, those that are away too. Raises ClientError for an outage."""
    found = []
    for cluster in queries.clusters(settings.REGION):
        admin = broker.admin(cluster)
        tables = admin.brokers.runtime_info()
        away = dict.fromkeys(admin.brokers.cluster().brokers, _DOES_NOT_ANSWER) | _told(tables)
        found += [_storage(admin, name, table) for name, table in tables.items()]
        found += [
            BrokerStorage(name, "", 0.0, None, None, None, absence=absence)
            for name, absence in away.items()
            if name not in tables
        ]
    return sorted(found, key=lambda one: one.name)


def _told(tables: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Which brokers embedded ones know to be away, and how (`broker-b=silent broker-c=stopped`)."""
    told = (entry.rpartition("=") for table in tables.values() for entry in table.get("gantryBrokers", "").split())
    return {name: _STOPPED if state == "stopped" else _DOES_NOT_ANSWER for name, _, state in told}


def _storage(admin: Admin, name: str, table: Mapping[str, str]) -> BrokerStorage:
    used, limit = _number(table.get("gantryStoreUsedBytes")), _number(table.get("gantryStoreMaxBytes"))
    return BrokerStorage(
        name=name,
        version=table.get("brokerVersionDesc", ""),
        ratio=used / limit if used is not None and limit else _ratio(table.get("commitLogDiskRatio")),
        used_bytes=used,
        max_bytes=limit,
        retention_hours=_retention_hours(admin, name, table),
    )


def _retention_hours(admin: Admin, name: str, table: Mapping[str, str]) -> float | None:
    """How long messages are kept; brokers of Apache RocketMQ have it in their settings."""
    told = table.get("gantryRetentionHours") or admin.brokers.config(name).get("fileReservedTime")
    return _ratio(told) or None


def busiest_broker(cluster: Cluster) -> tuple[str, float]:
    """The broker of a cluster with the most messages a second, sent and received, and how many. Raises ClientError."""
    loads = {
        name: _first(table.get("putTps")) + _first(table.get("getTransferredTps") or table.get("getTransferedTps"))
        for name, table in broker.admin(cluster).brokers.runtime_info().items()
    }
    name = max(loads, key=lambda name: loads[name], default="")
    return name, loads.get(name, 0.0)


def _first(rates: str | None) -> float:
    """Brokers tell a rate over 10 seconds, a minute and ten minutes."""
    return _ratio((rates or "0").split()[0])


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None


def _ratio(text: str | None) -> float:
    try:
        return float(text or 0)
    except ValueError:
        return 0.0
