"""What the visitor may do, so that no page offers what it would refuse: the decision is that of the view behind."""

from __future__ import annotations

from django import template

from brokercore.policy import mq_resource
from console.accounts.actor import Actor, service_resource, tenant_resource
from console.accounts.models import Tenant
from console.instances.models import Instance
from console.topics.access import may_create_group
from console.topics.models import Group, Topic

register = template.Library()

#: What changes brokers, and is refused on a read-only cluster whatever the policies say (`instances.broker.permit_of`).
_CHANGING = frozenset(
    {
        *("mq:CreateTopic", "mq:UpdateTopic", "mq:DeleteTopic", "mq:CreateGroup", "mq:UpdateGroup", "mq:DeleteGroup"),
        *("mq:PUB", "mq:ResendDeadLetter", "mq:ResetOffset"),
    }
)


@register.simple_tag(takes_context=True)
def may(context: template.Context, action: str, on: Topic | Group | Instance | str = "") -> bool:
    """Whether the visitor may do `action` on the topic, group or instance; nothing is recorded.

    Of an account's own services (`dla:QueryTask`) `on` is the path, `*` when it is left out; of `mq` without `on` it is
    what the account has not made yet, such as a new instance. The platform's administrator may do nothing of it.
    What changes brokers nobody may do on a read-only cluster.
    """
    actor: Actor | None = getattr(context["request"], "actor", None)
    if actor is None or actor.own_tenant is None or (action in _CHANGING and _is_read_only(on)):
        return False
    if isinstance(on, Instance) and action == "mq:CreateGroup":
        return may_create_group(actor, on)
    if isinstance(on, Group):
        resource, region = mq_resource(on.physical_name), on.instance.region
        return actor.decide(action, resource, owner=on.owner, holder=on.holder, region=region).allowed
    resource, owner = _resource(actor, action, on)
    region = on.region if isinstance(on, Instance) else on.instance.region if isinstance(on, Topic) else ""
    return actor.decide(action, resource, owner=owner, region=region).allowed


def _resource(actor: Actor, action: str, on: Topic | Instance | str) -> tuple[str, Tenant]:
    """What the action is on, and whose it is."""
    if isinstance(on, Topic):
        return mq_resource(on.physical_name), on.instance.tenant
    if isinstance(on, Instance):
        return mq_resource(on.instance_id), on.tenant
    service = action.partition(":")[0]
    path = tenant_resource(actor.tenant) if service == "mq" else service_resource(service, actor.tenant, on or "*")
    return path, actor.tenant


def _is_read_only(on: Topic | Group | Instance | str) -> bool:
    if isinstance(on, str):
        return False
    return (on if isinstance(on, Instance) else on.instance).cluster.read_only


@register.simple_tag(takes_context=True)
def hidden(context: template.Context, kind: str, instance: Instance | None = None) -> bool:
    """Whether the account has topics, groups (of the instance) or instances: an empty list is then no "none"."""
    actor: Actor = context["request"].actor
    if actor.is_account:
        return False
    if kind == "instances":
        return Instance.objects.filter(tenant=actor.tenant).exists()
    if kind == "groups":
        return Group.objects.filter(instance=instance, owner=actor.tenant).exists()
    return Topic.objects.filter(instance=instance, instance__tenant=actor.tenant).exists()
