"""The first line of every view of one topic or one group."""

from __future__ import annotations

from django.http import Http404

from brokercore.policy import mq_resource
from console.accounts.access import require
from console.topics.models import Group, Topic
from console.web.http import Request


def topic(request: Request, instance_id: str, name: str, action: str) -> Topic:
    """The tenant's topic, if the actor may do `action` on it; another tenant's does not exist."""
    found = (
        Topic.objects.select_related("instance__tenant", "instance__cluster")
        .filter(instance__tenant=request.actor.tenant, instance__instance_id=instance_id, name=name)
        .first()
    )
    if found is None:
        raise Http404("no such topic")
    require(request.actor, action, mq_resource(found.physical_name), owner=found.instance.tenant)
    return found


def group(request: Request, instance_id: str, group_id: str, action: str) -> Group:
    """The tenant's group, if the actor may do `action` on it; another tenant's does not exist."""
    found = (
        Group.objects.select_related("instance__tenant", "instance__cluster")
        .filter(instance__tenant=request.actor.tenant, instance__instance_id=instance_id, group_id=group_id)
        .first()
    )
    if found is None:
        raise Http404("no such group")
    require(request.actor, action, mq_resource(found.physical_name), owner=found.instance.tenant)
    return found
