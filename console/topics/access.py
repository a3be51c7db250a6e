"""The first line of every view of one topic or one group, and what the management API asks in its place."""

from __future__ import annotations

from django.db.models import Q, QuerySet
from django.http import Http404

from brokercore.policy import mq_resource
from console.accounts.access import require
from console.accounts.actor import Actor
from console.topics.models import Grant, Group, Topic
from console.web.http import Request


def topic(request: Request, instance_id: str, name: str, action: str) -> Topic:
    """The topic, if the actor may do `action` on it; another tenant's that was not granted does not exist."""
    found = find_topic(request.actor, instance_id, name)
    if found is None:
        raise Http404("no such topic")
    require_topic(request.actor, action, found)
    return found


def group(request: Request, instance_id: str, group_id: str, action: str) -> Group:
    """The tenant's group, if the actor may do `action` on it; another tenant's does not exist."""
    found = find_group(request.actor, instance_id, group_id)
    if found is None:
        raise Http404("no such group")
    require_group(request.actor, action, found)
    return found


def find_topic(actor: Actor, instance_id: str, name: str) -> Topic | None:
    """The topic of the actor's account, or one that another account granted to it."""
    mine = Q(instance__tenant=actor.tenant) | Q(pk__in=received_grants(actor).values("topic"))
    return (
        Topic.objects.select_related("instance__tenant", "instance__cluster")
        .filter(mine, instance__instance_id=instance_id, name=name)
        .first()
    )


def find_group(actor: Actor, instance_id: str, group_id: str) -> Group | None:
    """The group of the actor's account, in an instance of its own or of an account that granted it a topic."""
    return (
        Group.objects.select_related("instance__tenant", "instance__cluster", "owner", "creator")
        .filter(owner=actor.tenant, instance__instance_id=instance_id, group_id=group_id)
        .first()
    )


def received_grants(actor: Actor) -> QuerySet[Grant]:
    """Grants to the actor's account or to the user itself."""
    holder = Q(tenant=actor.tenant)
    if actor.user is not None:
        holder |= Q(user=actor.user)
    return Grant.objects.filter(holder)


def require_topic(actor: Actor, action: str, topic: Topic) -> None:
    """Raise PermissionDenied with the decision's sentence unless the actor may do `action` on the topic."""
    require(actor, action, mq_resource(topic.physical_name), owner=topic.instance.tenant)


def require_group(actor: Actor, action: str, group: Group) -> None:
    """Raise PermissionDenied with the decision's sentence unless the actor may do `action` on the group."""
    require(actor, action, mq_resource(group.physical_name), owner=group.owner, holder=group.holder)
