"""Changes of the queue service's topics, each written down. Raise Refused and QueueServiceUnavailable."""

from __future__ import annotations

from collections.abc import Mapping

from django.conf import settings

from brokercore.smq.wire.subscriptions import Format, Strategy
from console.accounts.actor import Actor
from console.audit import record as audit
from console.queues.access import require_queue
from console.queues.client import topics_of
from console.queues.topics import access


def create_topic(*, actor: Actor, name: str, attributes: Mapping[str, int]) -> bool:
    """Make a topic; what is not named has its default. False when it was there with the same attributes."""
    with topics_of(actor.tenant) as client:
        made = client.create_topic(name, attributes)
    if made:
        resource = _resource(actor, "mns:CreateTopic", name)
        audit.record(actor, "queues.topic.create", resource, detail=dict(attributes))
    return made


def set_topic(*, actor: Actor, name: str, attributes: Mapping[str, int]) -> None:
    """Change attributes of a topic; what is not named stays."""
    with topics_of(actor.tenant) as client:
        client.set_topic_attributes(name, attributes)
    resource = _resource(actor, "mns:SetTopicAttributes", name)
    audit.record(actor, "queues.topic.update", resource, detail=dict(attributes))


def delete_topic(*, actor: Actor, name: str) -> None:
    """Delete a topic with its subscriptions, and what they wait for."""
    with topics_of(actor.tenant) as client:
        client.topic(name)
        client.delete_topic(name)
    audit.record(actor, "queues.topic.delete", _resource(actor, "mns:DeleteTopic", name))


def publish_message(*, actor: Actor, name: str, body: str, tag: str = "") -> str:
    """Publish a text; the message's ID."""
    with topics_of(actor.tenant) as client:
        message_id = client.publish(name, body.encode(), tag=tag)
    resource = _resource(actor, "mns:PublishMessage", name)
    audit.record(actor, "queues.topic.publish", resource, detail={"message_id": message_id})
    return message_id


def subscribe(
    *, actor: Actor, topic: str, name: str, receiver: str, strategy: Strategy, form: Format, tag: str = ""
) -> bool:
    """Subscribe a queue of the account by its name, or a URL. False when the same subscription was there.

    Raises PermissionDenied unless the actor may send to the queue: a topic gives nobody a right.
    """
    is_url = "://" in receiver
    if not is_url:
        require_queue(actor, "mns:SendMessage", receiver)
    with topics_of(actor.tenant) as client:
        endpoint = receiver if is_url else client.endpoint_of(receiver, settings.REGION)
        made = client.subscribe(topic, name, endpoint, strategy=strategy, form=form, tag=tag)
    if made:
        detail = {"endpoint": endpoint, "strategy": strategy, "format": form, "tag": tag}
        audit.record(actor, "queues.topic.subscribe", _resource(actor, "mns:Subscribe", topic, name), detail=detail)
    return made


def set_subscription(
    *, actor: Actor, topic: str, name: str, strategy: Strategy | None = None, tag: str | None = None
) -> None:
    """Change how pushes are tried again and which messages come; what is None stays, an empty tag lets all through."""
    with topics_of(actor.tenant) as client:
        client.set_subscription_attributes(topic, name, strategy=strategy, tag=tag)
    detail = {key: value for key, value in {"strategy": strategy, "tag": tag}.items() if value is not None}
    resource = _resource(actor, "mns:SetSubscriptionAttributes", topic, name)
    audit.record(actor, "queues.subscription.update", resource, detail=detail)


def unsubscribe(*, actor: Actor, topic: str, name: str) -> None:
    """End a subscription, and what it waits for."""
    with topics_of(actor.tenant) as client:
        client.subscription(topic, name)
        client.unsubscribe(topic, name)
    audit.record(actor, "queues.topic.unsubscribe", _resource(actor, "mns:Unsubscribe", topic, name))


def _resource(actor: Actor, action: str, topic: str, subscription: str = "") -> str:
    return access.resource(actor.tenant, action, topic, subscription)
