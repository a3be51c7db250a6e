"""What the wizard offers of the account: instances, topics, queues."""

from __future__ import annotations

from brokercore.smq.client import QueueServiceUnavailable
from console.accounts.actor import Actor
from console.instances.models import Instance
from console.instances.queries import instances
from console.queues import access as queue_access
from console.queues.client import queues_of
from console.topics import queries as topics
from console.topics.models import OrderType, Topic
from console.web.errors import Refused

ORDERED = (OrderType.PARTITIONALLY_ORDERED, OrderType.GLOBALLY_ORDERED)
"""Kinds of topics that keep an order."""
#: Topics that a form offers, of an instance, and queues; others are typed.
_MOST_OFFERED = 200


def own_instances(actor: Actor) -> list[Instance]:
    """The account's instances, by name."""
    return list(instances(actor.tenant).order_by("name"))


def offered_topics(actor: Actor) -> list[tuple[str, list[str]]]:
    """Topics to which the actor may publish, by instance; of many the first ones."""
    return [
        (
            one.name,
            list(topics.visible_topics(actor, one, "mq:PUB").values_list("name", flat=True)[:_MOST_OFFERED]),
        )
        for one in own_instances(actor)
    ]


def offered_queues(actor: Actor) -> list[str]:
    """Queues to which the actor may send, of many the first ones; none while the queue service is away."""
    if not queue_access.may(actor, "mns:ListQueue", ""):
        return []
    try:
        with queues_of(actor.tenant) as client:
            names, _ = client.queue_names(most=_MOST_OFFERED)
    except (QueueServiceUnavailable, Refused):
        return []
    return [name for name in names if queue_access.may(actor, "mns:SendMessage", name)]


def namespace_of(actor: Actor, instance_id: str) -> str:
    """What a document calls an instance of the account: nothing for one without a namespace."""
    found = next((one for one in own_instances(actor) if one.instance_id == instance_id), None)
    return instance_id if found is not None and found.independent_naming else ""


def instance_of(actor: Actor, namespace: str) -> str:
    """The instance that a document calls so; empty for none."""
    if namespace:
        return namespace
    return next((one.instance_id for one in own_instances(actor) if not one.independent_naming), "")


def is_ordered(actor: Actor, instance_id: str, topic: str) -> bool:
    """Whether a topic of the account is one for messages with an order."""
    kinds = Topic.objects.filter(instance__tenant=actor.tenant, instance__instance_id=instance_id, name=topic)
    return kinds.filter(order_type__in=ORDERED).exists()
