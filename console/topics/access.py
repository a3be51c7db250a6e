"""The first line of every view of one topic or one group, and what the management API asks in its place."""

from __future__ import annotations

from typing import Any

from django.db.models import Q, QuerySet
from django.http import Http404

from brokercore.policy import mq_resource
from console.accounts.access import require
from console.accounts.actor import Actor
from console.accounts.http import Request
from console.instances import access as instances
from console.instances.models import Instance
from console.topics.models import Grant, Group, Topic, group_holder


def topic(request: Request, instance_id: str, name: str, action: str) -> Topic:
    """The topic, if the actor may do `action` on it; another tenant's that was not granted does not exist."""
    found = find_topic(request.actor, instance_id, name)
    if found is None:
        raise Http404("no such topic")
    require_topic(request.actor, action, found)
    return found


def group(request: Request, instance_id: str, group_id: str, action: str) -> Group:
    """The account's group, if the actor may do `action` on it.

    Another account's does not exist, nor does one that the account keeps from its RAM users (`Group.shared`).
    """
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
    found = (
        Group.objects.select_related("instance__tenant", "instance__cluster", "owner", "creator")
        .filter(owner=actor.tenant, instance__instance_id=instance_id, group_id=group_id)
        .first()
    )
    return found if found is not None and is_reachable(actor, found) else None


def is_reachable(actor: Actor, group: Group) -> bool:
    """True unless the account keeps its group from this RAM user (spec 6.3: the user's own, and shared ones)."""
    if actor.user is None or actor.is_account or group.shared:
        return True
    return group.creator_id == actor.user.pk


def new_group(request: Request, instance_id: str, name: str) -> Topic:
    """The granted topic for which the actor may create a group of its own in the owner's instance."""
    found = find_topic(request.actor, instance_id, name)
    if found is None or found.instance.tenant_id == request.actor.tenant.pk:
        raise Http404("no such shared topic")
    require_new_group(request.actor, found.instance)
    return found


def require_new_group(actor: Actor, instance: Instance) -> None:
    """Raise PermissionDenied unless the actor may create groups here.

    In another account's instance a group is judged as what it will be: one of the actor's own account.
    """
    require(actor, "mq:CreateGroup", **_new_group_of(actor, instance))


def may_create_group(actor: Actor, instance: Instance) -> bool:
    """What `require_new_group` decides, without a record of it."""
    return actor.decide("mq:CreateGroup", **_new_group_of(actor, instance)).allowed


def _new_group_of(actor: Actor, instance: Instance) -> dict[str, Any]:
    """The resource, owner and holder that stand for groups which the actor may come to make in the instance."""
    if instance.tenant_id == actor.tenant.pk:
        return {"resource": mq_resource(instance.instance_id), "owner": instance.tenant, "region": instance.region}
    creator = "" if actor.is_account or actor.user is None else actor.user.username
    holder = group_holder(actor.tenant.uid, creator, shared=False)
    resource = mq_resource(instance.physical_name("GID_*"))
    return {"resource": resource, "owner": actor.tenant, "holder": holder, "region": instance.region}


def standing(actor: Actor, topic: Topic) -> dict[str, Any]:
    """How the actor stands to a topic it may see: `owned`, and the grant it has as `relation`."""
    return {
        "owned": topic.instance.tenant == actor.tenant,
        "relation": received_grants(actor).filter(topic=topic).first(),
    }


def instance(request: Request, instance_id: str, action: str) -> Instance:
    """The actor's own instance, or one in which a topic was granted to it: for pages that ask for a topic next."""
    granted = received_grants(request.actor).filter(topic__instance__instance_id=instance_id)
    grant = (
        granted.exclude(topic__instance__tenant=request.actor.tenant)
        .select_related("topic__instance__tenant", "topic__instance__cluster")
        .first()
    )
    return grant.topic.instance if grant is not None else instances.instance(request, instance_id, action)


def uses_groups_without_policy(actor: Actor) -> bool:
    """True for a RAM user who made a group, or may make one where a topic was granted: it uses that as its maker."""
    if actor.user is None or actor.is_account or actor.own_tenant is None:
        return False
    return Group.objects.filter(creator=actor.user, owner=actor.tenant).exists() or received_grants(actor).exists()


def received_grants(actor: Actor) -> QuerySet[Grant]:
    """Grants to the actor's account or to the user itself."""
    holder = Q(tenant=actor.tenant)
    if actor.user is not None:
        holder |= Q(user=actor.user)
    return Grant.objects.filter(holder)


def require_topic(actor: Actor, action: str, topic: Topic) -> None:
    """Raise PermissionDenied with the decision's sentence unless the actor may do `action` on the topic."""
    instance = topic.instance
    require(actor, action, mq_resource(topic.physical_name), owner=instance.tenant, region=instance.region)


def require_group(actor: Actor, action: str, group: Group) -> None:
    """Raise PermissionDenied with the decision's sentence unless the actor may do `action` on the group."""
    resource, region = mq_resource(group.physical_name), group.instance.region
    require(actor, action, resource, owner=group.owner, holder=group.holder, region=region)
