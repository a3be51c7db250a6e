"""Who subscribes to what at this moment, as the brokers know it (topic/subDetail, group/subDetail)."""

from __future__ import annotations

from dataclasses import dataclass

from brokercore.client.errors import ConsumerNotOnline
from brokercore.policy import mq_resource
from console.accounts.actor import Actor
from console.instances import broker
from console.messaging.names import RETRY_PREFIX, shown_name
from console.topics.models import Group, Topic


@dataclass(frozen=True)
class OnlineSubscriber:
    """A group with clients online that subscribe to a topic."""

    group_id: str
    expression: str
    message_model: str


@dataclass(frozen=True)
class GroupSubscriptions:
    """What the clients of an online group subscribe to: expressions by topic, without namespace."""

    message_model: str
    topics: dict[str, str]


def online_subscribers(actor: Actor, topic: Topic) -> list[OnlineSubscriber]:
    """The actor's own groups, as far as it may see them, that are online and subscribe to the topic, by group ID.

    Raises ClientError. One call a group, so a topic with very many groups takes its time.
    """
    admin = broker.admin(topic.instance.cluster)
    names = admin.groups_of_topic(topic.physical_name)
    groups = Group.objects.filter(owner=actor.tenant, physical_name__in=names).select_related("owner", "creator")
    found = []
    for group in groups.order_by("group_id"):
        resource = mq_resource(group.physical_name)
        if not actor.decide("mq:QueryGroup", resource, owner=group.owner, holder=group.holder).allowed:
            continue
        try:
            connection = admin.consumer_connection(group.physical_name)
        except ConsumerNotOnline:
            continue
        subscription = connection.subscriptions.get(topic.physical_name)
        if subscription is not None:
            found.append(OnlineSubscriber(group.group_id, subscription.expression, connection.message_model))
    return found


def group_subscriptions(group: Group) -> GroupSubscriptions | None:
    """What the group subscribes to, its own retry topic left out; None while no client is online."""
    try:
        connection = broker.admin(group.instance.cluster).consumer_connection(group.physical_name)
    except ConsumerNotOnline:
        return None
    topics = {
        shown_name(group.instance, name): subscription.expression
        for name, subscription in sorted(connection.subscriptions.items())
        if not name.startswith(RETRY_PREFIX)
    }
    return GroupSubscriptions(connection.message_model, topics)
