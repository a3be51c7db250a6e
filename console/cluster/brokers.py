"""The brokers of a cluster, asked now: whether they answer, what they run, how full and how busy they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from django.db.models import Q

from brokercore.client import Admin
from brokercore.client.errors import ClientError, NoPermission
from console.accounts.models import Tenant
from console.instances import broker
from console.instances.models import Cluster, Origin
from console.web.languages import gettext_lazy


class Absence(StrEnum):
    """Why nothing is known of a broker now; falsy for one that answers. Its values are those of the API."""

    NONE = ""
    SILENT = "does not answer"
    STOPPED = "stopped"
    SLAVE = "slave"
    """Slaves are not asked."""

    @property
    def words(self) -> str:
        """What people read."""
        return _WORDS[self]

    @property
    def colour(self) -> str:
        """Red where it should answer."""
        return "red" if self is Absence.SILENT else "secondary"


_WORDS = {
    Absence.NONE: "",
    Absence.SILENT: gettext_lazy("does not answer"),
    Absence.STOPPED: gettext_lazy("stopped"),
    Absence.SLAVE: gettext_lazy("slave"),
}


@dataclass(frozen=True)
class BrokerFigures:
    """One master. Sizes in bytes are known of embedded brokers only; rates are messages a second over ten seconds."""

    name: str
    version: str
    ratio: float
    used_bytes: int | None
    max_bytes: int | None
    retention_hours: float | None
    absence: Absence = Absence.NONE
    address: str = ""
    received: float = 0.0
    sent: float = 0.0

    @property
    def percent(self) -> int:
        """How full, from 0 to 100."""
        return min(100, max(0, round(self.ratio * 100)))

    @property
    def colour(self) -> str:
        """Above 90 % the next thing that happens is refused sends."""
        return "red" if self.percent >= 90 else "yellow" if self.percent >= 75 else "primary"


@dataclass(frozen=True)
class Health:
    """What a cluster's brokers said. `outage` is why nothing is known of them now; empty otherwise."""

    cluster: Cluster
    brokers: list[BrokerFigures]
    outage: str = ""

    @property
    def colour(self) -> str:
        """Red when nothing answers, yellow when some broker does not."""
        if self.outage:
            return "red"
        return "yellow" if self.away else "green"

    @property
    def away(self) -> list[BrokerFigures]:
        """Brokers that should be there and are not; one that was stopped is none."""
        return [one for one in self.brokers if one.absence is Absence.SILENT]

    @property
    def versions(self) -> list[str]:
        """What the brokers run, each version once."""
        return sorted({one.version for one in self.brokers if one.version})

    @property
    def received(self) -> float:
        """Messages a second that arrive."""
        return sum(one.received for one in self.brokers)

    @property
    def sent(self) -> float:
        """Messages a second that leave."""
        return sum(one.sent for one in self.brokers)

    @property
    def fullest(self) -> BrokerFigures | None:
        """The broker whose store is the fullest."""
        return max((one for one in self.brokers if not one.absence), key=lambda one: one.ratio, default=None)


def health_of(cluster: Cluster) -> Health:
    """Ask a cluster; one that does not answer is told, and is no exception."""
    try:
        return Health(cluster, brokers_of(cluster))
    except ClientError as error:
        return Health(cluster, [], error.user_message)


def seen_by(tenant: Tenant) -> list[Health]:
    """The clusters that an account has instances on, and the first one.

    Of several each that does not answer is told; where there is but one, that is an outage. Raises ClientError.
    """
    mine = Q(instances__tenant=tenant) | ~Q(origin=Origin.ADDED)
    found = list(Cluster.objects.filter(mine).distinct().order_by("name"))
    if len(found) == 1:
        return [Health(found[0], brokers_of(found[0]))]
    return [health_of(cluster) for cluster in found]


def brokers_of(cluster: Cluster) -> list[BrokerFigures]:
    """The brokers of a cluster by name, those that are away too. Raises ClientError for an outage."""
    admin = broker.admin(cluster)
    tables, addresses = admin.brokers.runtime_info(), admin.brokers.addresses()
    away = {name: Absence.SLAVE if "/" in name else Absence.SILENT for name in addresses} | _told(tables)
    found = [_figures(admin, name, addresses.get(name, ""), table) for name, table in tables.items()]
    found += [
        BrokerFigures(name, "", 0.0, None, None, None, absence=absence, address=addresses.get(name, ""))
        for name, absence in away.items()
        if name not in tables
    ]
    return sorted(found, key=lambda one: one.name)


def busiest_broker(cluster: Cluster) -> tuple[str, float]:
    """The broker of a cluster with the most messages a second, sent and received, and how many. Raises ClientError."""
    tables = broker.admin(cluster).brokers.runtime_info()
    loads = {name: _received(table) + _sent(table) for name, table in tables.items()}
    name = max(loads, key=lambda name: loads[name], default="")
    return name, loads.get(name, 0.0)


def _told(tables: Mapping[str, Mapping[str, str]]) -> dict[str, Absence]:
    """Which brokers embedded ones know to be away, and how (`broker-b=silent broker-c=stopped`)."""
    told = (entry.rpartition("=") for table in tables.values() for entry in table.get("gantryBrokers", "").split())
    return {name: Absence.STOPPED if state == "stopped" else Absence.SILENT for name, _, state in told}


def _figures(admin: Admin, name: str, address: str, table: Mapping[str, str]) -> BrokerFigures:
    used, limit = _number(table.get("gantryStoreUsedBytes")), _number(table.get("gantryStoreMaxBytes"))
    return BrokerFigures(
        name=name,
        version=table.get("brokerVersionDesc", ""),
        ratio=used / limit if used is not None and limit else _ratio(table.get("commitLogDiskRatio")),
        used_bytes=used,
        max_bytes=limit,
        retention_hours=_retention_hours(admin, name, table),
        address=address,
        received=_received(table),
        sent=_sent(table),
    )


def _retention_hours(admin: Admin, name: str, table: Mapping[str, str]) -> float | None:
    """How long messages are kept; brokers of Apache RocketMQ have it in their settings, if these may be read."""
    told = table.get("gantryRetentionHours")
    if not told:
        try:
            told = admin.brokers.config(name).get("fileReservedTime")
        except NoPermission:
            return None
    return _ratio(told) or None


def _received(table: Mapping[str, str]) -> float:
    return _first(table.get("putTps"))


def _sent(table: Mapping[str, str]) -> float:
    return _first(table.get("getTransferredTps") or table.get("getTransferedTps"))


def _first(rates: str | None) -> float:
    """Brokers tell a rate over 10 seconds, a minute and ten minutes; older ones blanks until they have counted."""
    return _ratio(next(iter((rates or "").split()), "0"))


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None


def _ratio(text: str | None) -> float:
    try:
        return float(text or 0)
    except ValueError:
        return 0.0
