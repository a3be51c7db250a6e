"""Topics and groups that a task may read, as a form offers them: the account's own, and topics granted to it."""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import Q
from django.utils.translation import gettext as _

from brokercore.names import wrap
from console.accounts.actor import Actor
from console.instances.models import Instance
from console.pipelines import starts
from console.topics import access, queries
from console.topics.models import Topic
from console.web.errors import Refused

#: Of each instance; others are typed.
_MOST_OFFERED = 200


def instances(actor: Actor) -> list[Instance]:
    """The account's instances, and those that have a topic granted to it, by name."""
    granted = access.received_grants(actor).values("topic__instance")
    mine = Q(tenant=actor.tenant) | Q(pk__in=granted)
    return list(Instance.objects.select_related("tenant", "cluster").filter(mine).order_by("name").distinct())


def namespace(instance: Instance) -> str:
    """What a document calls an instance: nothing for one without a namespace."""
    return instance.instance_id if instance.independent_naming else ""


def topics(actor: Actor, found: Sequence[Instance]) -> list[tuple[str, str]]:
    """Topics that the actor may subscribe to, each with the name of its instance; of many the first ones."""
    return [
        (name, one.name)
        for one in found
        for name in queries.visible_topics(actor, one, starts.SUBSCRIBE).values_list("name", flat=True)[:_MOST_OFFERED]
    ]


def groups(actor: Actor, found: Sequence[Instance]) -> list[tuple[str, str]]:
    """Groups by which the actor may read, each with the name of its instance; of many the first ones."""
    return [
        (name, one.name)
        for one in found
        for name in queries.visible_groups(actor, one, starts.SUBSCRIBE).values_list("group_id", flat=True)[
            :_MOST_OFFERED
        ]
    ]


def require_topic(actor: Actor, action: str, namespace: str, name: str) -> Topic:
    """The topic, of the account or granted to it. Raises Refused, and PermissionDenied for who may not do `action`."""
    found = starts.find_topic(actor, wrap(namespace, name))
    if found is None:
        raise Refused(
            "TOPIC_NOT_FOUND", _("There is no topic %(name)s of the account's own.") % {"name": name}, "source.topic"
        )
    access.require_topic(actor, action, found)
    return found
