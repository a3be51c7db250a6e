"""Reads of instances. The tenant comes first."""

from __future__ import annotations

from django.db.models import Q, QuerySet

from console.accounts.models import Tenant
from console.accounts.organizations import Scope, ids_below
from console.instances.contents import contents
from console.instances.models import Cluster, Instance


def instances(tenant: Tenant) -> QuerySet[Instance]:
    """The tenant's instances by name, with all that a list shows."""
    return Instance.objects.filter(tenant=tenant).select_related(
        "cluster", "tenant__organization", "resource_set__organization"
    )


def instances_with_counts(tenant: Tenant) -> QuerySet[Instance]:
    """As `instances`, each with `topic_count` and `group_count`."""
    return contents.get().counted(instances(tenant))


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
