"""What the page of the cluster shows: its brokers, asked now, and how far the rights there are."""

from __future__ import annotations

from dataclasses import dataclass, field

from django.conf import settings
from django.db.models import Count, QuerySet

from brokercore.client.errors import ClientError
from console.accounts.credentials import usable_keys
from console.cluster.models import ClusterUser, State, Synchronisation
from console.instances import broker
from console.instances.models import Cluster


@dataclass(frozen=True)
class BrokerLine:
    """One broker; slaves have no version, since only masters are asked."""

    name: str
    address: str
    version: str = ""


@dataclass(frozen=True)
class Overview:
    """A cluster. `outage` says why its brokers are not known, `synchronisation` is None before the first look."""

    cluster: Cluster
    outage: str = ""
    brokers: list[BrokerLine] = field(default_factory=list)
    synchronisation: Synchronisation | None = None
    synced: int = 0
    pending: int = 0
    refused: int = 0
    temporary: int = 0
    """Temporary keys of now, which are never carried over."""


def overviews() -> list[Overview]:
    """Every cluster of the region."""
    return [_overview(cluster) for cluster in Cluster.objects.filter(region=settings.REGION).order_by("name")]


def users(text: str) -> QuerySet[ClusterUser]:
    """The users that stand for keys; of ended keys only those that are still to be deleted."""
    rows = ClusterUser.objects.select_related("cluster").exclude(state=State.ENDED)
    return rows.filter(access_key_id__icontains=text) | rows.filter(account__icontains=text) if text else rows


def _overview(cluster: Cluster) -> Overview:
    outage, brokers = "", list[BrokerLine]()
    try:
        brokers = _brokers(cluster)
    except ClientError as error:
        outage = error.user_message
    counts = dict(ClusterUser.objects.filter(cluster=cluster).values_list("state").annotate(Count("pk")))
    return Overview(
        cluster,
        outage,
        brokers,
        Synchronisation.objects.filter(cluster=cluster).first(),
        synced=counts.get(State.SYNCED, 0),
        pending=counts.get(State.PENDING, 0) + counts.get(State.ENDING, 0),
        refused=counts.get(State.REFUSED, 0),
        temporary=0 if settings.EMBEDDED_BROKER else usable_keys().exclude(security_token="").count(),
    )


def _brokers(cluster: Cluster) -> list[BrokerLine]:
    admin = broker.admin(cluster)
    versions = {name: table.get("brokerVersionDesc", "") for name, table in admin.brokers.runtime_info().items()}
    addresses = admin.brokers.addresses()
    return [BrokerLine(name, address, versions.get(name, "")) for name, address in sorted(addresses.items())]
