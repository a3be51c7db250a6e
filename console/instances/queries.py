"""Reads of instances. The tenant comes first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.apps import apps
from django.db.models import Count, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce

from console.accounts.models import Tenant
from console.accounts.organizations import ids_below
from console.instances.models import Cluster, Instance

if TYPE_CHECKING:
    from console.openapi.registry import Scope


def instances(tenant: Tenant) -> QuerySet[Instance]:
    """The tenant's instances by name, with all that a list shows."""
    return Instance.objects.filter(tenant=tenant).select_related(
        "cluster", "tenant__organization", "resource_set__organization"
    )


def instances_with_counts(tenant: Tenant) -> QuerySet[Instance]:
    """As `instances`, each with `topic_count` and `group_count`."""
    # Two joins would count every topic once for every group: twelve million rows for one large instance.
    return instances(tenant).annotate(topic_count=_count_of("topics.Topic"), group_count=_count_of("topics.Group"))


def _count_of(model: str) -> Coalesce:
    rows = apps.get_model(model).objects.filter(instance=OuterRef("pk")).order_by().values("instance")
    return Coalesce(Subquery(rows.annotate(number=Count("pk")).values("number")), 0)


def narrowed(instances: QuerySet[Instance], scope: Scope) -> QuerySet[Instance]:
    """The instances inside what the `x-acs-…` headers name.

    An instance belongs to the organization of its resource set, or else to that of its account; an organization
    means those below it as well.
    """
    if scope.organization is not None:
        inside = ids_below(scope.organization)
        instances = instances.filter(
            Q(resource_set__organization__in=inside) | Q(resource_set=None, tenant__organization__in=inside)
        )
    if scope.resource_set is not None:
        instances = instances.filter(resource_set=scope.resource_set)
    return instances


def clusters(region: str) -> QuerySet[Cluster]:
    """The clusters of a region."""
    return Cluster.objects.filter(region=region).order_by("name")
