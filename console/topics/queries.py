"""Reads of topics and groups. The tenant comes first."""

from __future__ import annotations

from django.db.models import QuerySet

from console.accounts.models import Tenant
from console.instances.models import Instance
from console.topics.models import Group, Topic


def topics(tenant: Tenant, instance: Instance) -> QuerySet[Topic]:
    """The topics of one of the tenant's instances, by name."""
    return Topic.objects.filter(instance=instance, instance__tenant=tenant).order_by("name")


def groups(tenant: Tenant, instance: Instance) -> QuerySet[Group]:
    """The groups of one of the tenant's instances, by group ID."""
    return Group.objects.filter(instance=instance, instance__tenant=tenant).order_by("group_id")
