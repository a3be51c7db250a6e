"""What the visitor may do, so that no page offers what it would refuse: the decision is that of the view behind."""

from __future__ import annotations

from django import template

from brokercore.policy import mq_resource
from console.accounts.actor import Actor, service_resource, tenant_resource
from console.instances.models import Instance
from console.topics.models import Group, Topic

register = template.Library()


@register.simple_tag(takes_context=True)
def may(context: template.Context, action: str, on: Topic | Group | Instance | str = "") -> bool:
    """Whether the visitor may do `action` on the topic, group or instance; nothing is recorded.

    Of an account's own services (`dla:QueryTask`) `on` is the path, `*` when it is left out; of `mq` without `on` it is
    what the account has not made yet, such as a new instance. The platform's administrator may do nothing of it.
    """
    actor: Actor | None = getattr(context["request"], "actor", None)
    if actor is None or actor.own_tenant is None:
        return False
    if isinstance(on, Topic):
        return actor.decide(action, mq_resource(on.physical_name), owner=on.instance.tenant).allowed
    if isinstance(on, Group):
        return actor.decide(action, mq_resource(on.physical_name), owner=on.owner, holder=on.holder).allowed
    if isinstance(on, Instance):
        return actor.decide(action, mq_resource(on.instance_id), owner=on.tenant).allowed
    service = action.partition(":")[0]
    resource = tenant_resource(actor.tenant) if service == "mq" else service_resource(service, actor.tenant, on or "*")
    return actor.decide(action, resource, owner=actor.tenant).allowed


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
