"""What the wizard offers to write to: topics of the account and topics granted to it, by instance; queues."""

from __future__ import annotations

from brokercore.smq.client import QueueServiceUnavailable
from console.accounts.actor import Actor
from console.inflow import readable
from console.pipelines import starts
from console.queues import access as queue_access
from console.queues.client import queues_of
from console.topics import access
from console.topics import queries as topics
from console.topics.models import OrderType
from console.web.errors import Refused

ORDERED = (OrderType.PARTITIONALLY_ORDERED, OrderType.GLOBALLY_ORDERED)
"""Kinds of topics that keep an order."""
#: Topics that a form offers, of an instance, and queues; others are typed.
_MOST_OFFERED = 200


def instances(actor: Actor) -> list[tuple[str, str]]:
    """The account's instances, and those that have a topic granted to it: ID, and what a form calls it."""
    return [(one.instance_id, f"{one.name} ({one.instance_id})") for one in readable.instances(actor)]


def offered_topics(actor: Actor) -> list[tuple[str, list[str]]]:
    """Topics to which the actor may publish, by instance; of many the first ones."""
    return [
        (
            one.name,
            list(topics.visible_topics(actor, one, starts.PUBLISH).values_list("name", flat=True)[:_MOST_OFFERED]),
        )
        for one in readable.instances(actor)
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
    """What a document calls an instance that is offered: nothing for one without a namespace."""
    return next((readable.namespace(one) for one in readable.instances(actor) if one.instance_id == instance_id), "")


def instance_of(actor: Actor, namespace: str, topic: str) -> str:
    """The instance of a document's topic; empty for one that there is not, or is granted no more."""
    if namespace:
        return namespace
    found = starts.find_topic(actor, topic)
    return "" if found is None else found.instance.instance_id


def is_ordered(actor: Actor, instance_id: str, topic: str) -> bool:
    """Whether a topic, of the account or granted to it, is one for messages with an order."""
    found = access.find_topic(actor, instance_id, topic)
    return found is not None and found.order_type in ORDERED
