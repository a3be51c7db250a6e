"""The first line of every view inside an instance."""

from __future__ import annotations

from django.http import Http404

from brokercore.policy import mq_resource
from console.accounts.access import require
from console.accounts.actor import Actor, tenant_resource
from console.accounts.http import Request
from console.instances.models import Instance


def may_create(actor: Actor, region: str) -> bool:
    """Whether the actor may make instances in a region; nothing is recorded."""
    owner = actor.tenant
    return actor.decide("mq:CreateInstance", tenant_resource(owner), owner=owner, region=region).allowed


def instance(request: Request, instance_id: str, action: str) -> Instance:
    """The tenant's instance, if the actor may do `action` on it; another tenant's does not exist."""
    found = (
        Instance.objects.select_related("tenant__organization", "cluster", "resource_set__organization")
        .filter(tenant=request.actor.tenant, instance_id=instance_id)
        .first()
    )
    if found is None:
        raise Http404("no such instance")
    require(request.actor, action, mq_resource(found.instance_id), owner=found.tenant, region=found.region)
    return found
