"""What a new instance still lacks until its first message is consumed; each step ticks itself."""

from __future__ import annotations

from dataclasses import dataclass

from django.urls import reverse
from django.utils.translation import gettext as _

from console.accounts.actor import Actor
from console.instances.context import may_open
from console.instances.models import Instance
from console.metrics.queries import has_consumed, rates
from console.topics.models import Group, Topic

#: Topics and groups that are looked at; an instance with more has its first steps behind it.
_MOST = 50


@dataclass(frozen=True)
class FirstStep:
    """One step: what is done, why, whether it is, and where to do it, for who may."""

    title: str
    why: str
    is_done: bool
    url: str = ""


def first_steps(actor: Actor, instance: Instance) -> list[FirstStep]:
    """The steps of an instance; none once all are done, or where they are not for the actor to do."""
    if instance.tenant_id != actor.tenant.pk or instance.cluster.read_only:
        return []
    topics = list(Topic.objects.filter(instance=instance).values_list("physical_name", flat=True)[: _MOST + 1])
    groups = list(Group.objects.filter(instance=instance).values_list("physical_name", flat=True)[: _MOST + 1])
    if len(topics) > _MOST or len(groups) > _MOST:
        return []
    holds = any(rates(instance.cluster, topics=topics, groups=[]).stored.values())
    consumed = has_consumed(instance.cluster, groups)
    here = [instance.instance_id]
    wanted = [
        (_("Create a topic"), _("Messages are sent to topics."), bool(topics), "mq:CreateTopic", "topics.create"),
        (_("Create a group"), _("Clients of one kind share a group."), bool(groups), "mq:CreateGroup", "groups.create"),
        (
            _("Send the first message"),
            _("By your client; its settings are there to copy."),
            holds,
            "",
            "instances.client",
        ),
        (_("Consume it"), _("Start a consumer of the group."), consumed, "", "instances.client"),
    ]
    if all(is_done for _unused, _unused, is_done, _unused, _unused in wanted):
        return []
    return [
        FirstStep(title, why, is_done, reverse(url, args=here) if not is_done and _may(actor, action, instance) else "")
        for title, why, is_done, action, url in wanted
    ]


def _may(actor: Actor, action: str, instance: Instance) -> bool:
    return not action or may_open(actor, action, instance.instance_id)
