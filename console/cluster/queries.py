"""What the page of the cluster shows: its brokers, asked now, and how far the rights there are."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Count, QuerySet

from console.accounts.credentials import usable_keys
from console.cluster.brokers import Health, health_of
from console.cluster.models import ClusterUser, State, Synchronisation
from console.instances.models import Cluster


@dataclass(frozen=True)
class Overview:
    """A cluster with its brokers of now; `synchronisation` is None before the first look."""

    health: Health
    synchronisation: Synchronisation | None = None
    synced: int = 0
    pending: int = 0
    refused: int = 0
    temporary: int = 0
    """Temporary keys of now, which are never carried over."""


def clusters() -> QuerySet[Cluster]:
    """Every cluster of every region, the first one first, with `instance_count`."""
    return Cluster.objects.order_by("pk").annotate(instance_count=Count("instances"))


def cluster(number: int) -> Cluster | None:
    """The cluster of this row, with `instance_count`."""
    return clusters().filter(pk=number).first()


def users(cluster: Cluster, text: str) -> QuerySet[ClusterUser]:
    """The users there that stand for keys; of ended keys only those that are still to be deleted."""
    rows = ClusterUser.objects.filter(cluster=cluster).exclude(state=State.ENDED)
    return rows.filter(access_key_id__icontains=text) | rows.filter(account__icontains=text) if text else rows


def overview(cluster: Cluster) -> Overview:
    """A cluster, asked now. A cluster that does not answer is told, and is no exception."""
    counts = dict(ClusterUser.objects.filter(cluster=cluster).values_list("state").annotate(Count("pk")))
    return Overview(
        health_of(cluster),
        Synchronisation.objects.filter(cluster=cluster).first(),
        synced=counts.get(State.SYNCED, 0),
        pending=counts.get(State.PENDING, 0) + counts.get(State.ENDING, 0),
        refused=counts.get(State.REFUSED, 0),
        temporary=0 if cluster.embedded else usable_keys().exclude(security_token="").count(),
    )
