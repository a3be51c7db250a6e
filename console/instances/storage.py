"""How full the brokers are: what they tell of themselves (GET_BROKER_RUNTIME_INFO)."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings

from console.instances import broker, queries
from console.instances.models import Cluster


@dataclass(frozen=True)
class BrokerStorage:
    """One broker. Sizes in bytes and `retention_hours` are known of embedded brokers only."""

    name: str
    version: str
    ratio: float
    used_bytes: int | None
    max_bytes: int | None
    retention_hours: float | None

    @property
    def percent(self) -> int:
        """How full, from 0 to 100."""
        return min(100, max(0, round(self.ratio * 100)))

    @property
    def colour(self) -> str:
        """Above 90 % the next thing that happens is refused sends."""
        return "red" if self.percent >= 90 else "yellow" if self.percent >= 75 else "primary"


def brokers() -> list[BrokerStorage]:
    """The brokers of all clusters of the region. Raises ClientError for an outage."""
    found = []
    for cluster in queries.clusters(settings.REGION):
        for name, table in sorted(broker.admin(cluster).runtime_info().items()):
            used, limit = _number(table.get("gantryStoreUsedBytes")), _number(table.get("gantryStoreMaxBytes"))
            found.append(
                BrokerStorage(
                    name=name,
                    version=table.get("brokerVersionDesc", ""),
                    ratio=used / limit if used is not None and limit else _ratio(table.get("commitLogDiskRatio")),
                    used_bytes=used,
                    max_bytes=limit,
                    retention_hours=_ratio(table.get("gantryRetentionHours")) or None,
                )
            )
    return found


def busiest_broker(cluster: Cluster) -> tuple[str, float]:
    """The broker of a cluster with the most messages a second, sent and received, and how many. Raises ClientError."""
    loads = {
        name: _first(table.get("putTps")) + _first(table.get("getTransferredTps") or table.get("getTransferedTps"))
        for name, table in broker.admin(cluster).runtime_info().items()
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
