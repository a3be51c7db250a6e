"""Reads of topics and groups. The tenant, or the actor whose rights narrow the list, comes first."""

from __future__ import annotations

from django.db.models import QuerySet

from brokercore.policy import mq_resource
from console.accounts.actor import Actor
from console.accounts.models import Tenant
from console.instances.models import Instance
from console.topics.access import received_grants
from console.topics.models import Group, Topic


def topics(tenant: Tenant, instance: Instance) -> QuerySet[Topic]:
    """The topics of one of the tenant's instances, by name."""
    return Topic.objects.filter(instance=instance, instance__tenant=tenant).order_by("name")


def groups(tenant: Tenant, instance: Instance) -> QuerySet[Group]:
    """The tenant's groups in an instance, by group ID; the instance is its own, or holds topics granted to it."""
    return Group.objects.filter(instance=instance, owner=tenant).order_by("group_id")


def visible_topics(actor: Actor, instance: Instance, action: str = "mq:QueryTopic") -> QuerySet[Topic]:
    """The topics of an instance on which the actor may do `action`."""
    found = topics(actor.tenant, instance)
    if actor.is_account:
        return found
    owner = instance.tenant
    rows = found.values_list("pk", "physical_name")
    return found.filter(
        pk__in=[pk for pk, name in rows if actor.decide(action, mq_resource(name), owner=owner).allowed]
    )


def granted_topics(actor: Actor, instance: Instance, action: str = "mq:QueryTopic") -> QuerySet[Topic]:
    """The topics of another account's instance that were granted and on which the actor may do `action`, by name."""
    found = Topic.objects.filter(instance=instance, pk__in=received_grants(actor).values("topic")).order_by("name")
    if actor.is_account:
        return found
    rows = found.values_list("pk", "physical_name")
    allowed = [pk for pk, name in rows if actor.decide(action, mq_resource(name), owner=instance.tenant).allowed]
    return found.filter(pk__in=allowed)


def visible_groups(actor: Actor, instance: Instance, action: str = "mq:QueryGroup") -> QuerySet[Group]:
    """The groups of an instance on which the actor may do `action`."""
    found = groups(actor.tenant, instance)
    if actor.is_account:
        return found
    rows = found.select_related("owner", "creator")
    return found.filter(
        pk__in=[
            group.pk
            for group in rows
            if actor.decide(action, mq_resource(group.physical_name), owner=group.owner, holder=group.holder).allowed
        ]
    )
