"""Reads of instances. The tenant comes first."""

from __future__ import annotations

from django.db.models import Count, QuerySet
from django.db.models.functions import Coalesce

from console.accounts.models import Tenant
from console.instances.models import Cluster, Instance


def instances(tenant: Tenant) -> QuerySet[Instance]:
    """The tenant's instances by name, with all that a list shows."""
    return Instance.objects.filter(tenant=tenant).select_related(
        "cluster", "tenant__organization", "resource_set__organization"
    )


def instances_with_counts(tenant: Tenant) -> QuerySet[Instance]:
    """As `instances`, each with `topic_count` and `group_count`."""
    return instances(tenant).annotate(
        topic_count=Coalesce(Count("topics", distinct=True), 0), group_count=Coalesce(Count("groups", distinct=True), 0)
    )


def clusters(region: str) -> QuerySet[Cluster]:
    """The clusters of a region."""
    return Cluster.objects.filter(region=region).order_by("name")
