"""Topics of the queue service: what is published goes to queues of the account and to HTTP endpoints."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from brokercore.smq.wire.requests import MAX_TOPIC_NAME
from brokercore.smq.wire.subscriptions import Format, Strategy, SubscriptionState
from brokercore.smq.wire.topics import MAX_TAG, RANGES, TopicState
from console.openapi.envelope import FIELD, Page, cut
from console.openapi.operations import attributes
from console.openapi.registry import (
    NOTHING,
    Boolean,
    Call,
    ListPage,
    ListSize,
    Nothing,
    OrNothing,
    Parameters,
    Result,
    operation,
)
from console.queues.topics import access, queries, services
from console.web.errors import Refused

_SIZE = RANGES["MaximumMessageSize"]
_MISSES = ("BIZ_QUEUE_TOPIC_NOT_FOUND",)
TopicName = Annotated[
    str, Field(min_length=1, max_length=MAX_TOPIC_NAME, description="Name of the topic.", examples=["news"])
]
SubscriptionName = Annotated[
    str, Field(min_length=1, max_length=MAX_TOPIC_NAME, description="Name of the subscription.", examples=["orders"])
]
Tag = Annotated[str, Field(max_length=MAX_TAG)]


class TopicOnly(Parameters):
    topic: TopicName


class TopicAttributes(TopicOnly):
    maximumMessageSize: Annotated[
        Annotated[int, Field(ge=_SIZE.least, le=_SIZE.most)] | None, OrNothing,
        Field(description=f"Bytes of a body, at most; default: {_SIZE.default}."),
    ] = None  # fmt: skip
    loggingEnabled: Annotated[Boolean | None, Field(description="Whether the topic is logged.")] = None


class TopicList(Parameters):
    topic: Annotated[
        str, Field(max_length=MAX_TOPIC_NAME, description="Part of the names looked for, in any case.")
    ] = ""
    currentPage: ListPage = 1
    pageSize: Annotated[ListSize, Field(description="Topics a page, 1 to 100.")] = 20


class TopicPublish(TopicOnly):
    body: Annotated[
        str,
        StringConstraints(strip_whitespace=False, min_length=1, max_length=_SIZE.most),
        Field(description="The body: text of at most the topic's size, without control characters."),
    ]
    tag: Annotated[Tag, Field(description="Subscriptions with a filter get messages with this very tag.")] = ""


class SubscriptionOnly(TopicOnly):
    subscription: SubscriptionName


class Subscribe(SubscriptionOnly):
    receiver: str = Field(
        min_length=1, max_length=1024, description="The name of a queue of the account, or a URL that takes POST."
    )
    tag: Annotated[Tag, Field(description="Only messages with this tag; left out: all.")] = ""
    strategy: Literal["BACKOFF_RETRY", "EXPONENTIAL_DECAY_RETRY"] = Field(
        default="BACKOFF_RETRY", description="How a push that failed is tried again."
    )
    format: Literal["XML", "JSON", "SIMPLIFIED"] = Field(
        default="XML", description="What is sent: the message with what is known of it, or the body alone."
    )


class SubscriptionSet(SubscriptionOnly):
    strategy: Literal["BACKOFF_RETRY", "EXPONENTIAL_DECAY_RETRY"] | None = Field(
        default=None, description="How a push that failed is tried again."
    )
    tag: Annotated[Tag | None, Field(description="Only messages with this tag; empty: all.")] = None


class QueueTopicDo(Result):
    """A topic of the queue service."""

    topic: str
    maximumMessageSize: int = Field(description="Bytes of a body, at most.")
    loggingEnabled: bool
    waiting: int = Field(description="Notifications that are still to be pushed.")
    createTime: int = Field(description="Milliseconds since the epoch.")
    lastModifyTime: int = Field(description="Milliseconds since the epoch.")


class PublishedMessage(Result):
    """What became of a publish."""

    messageId: str


class SubscriptionDo(Result):
    """A subscription, and what became of its notifications."""

    subscription: str
    receiver: str = Field(description="The name of a queue of the account, or a URL.")
    tag: str = Field(description="The tag that it is filtered by; empty: none.")
    strategy: str = Field(description="How a push that failed is tried again.")
    format: str = Field(description="XML, JSON or SIMPLIFIED.")
    delivered: int = Field(description="Notifications that arrived.")
    failures: int = Field(description="Attempts that failed.")
    dropped: int = Field(description="Notifications that were given up.")
    waiting: int = Field(description="Notifications that are still to be pushed.")
    lastPushTime: int = Field(description="Of the last attempt, ms; 0 without one.")
    lastPushStatus: int = Field(description="The receiver's status then; 0 without an answer.")
    lastPushError: str = Field(description="Why that attempt failed; empty: it did not.")


@operation(
    "queueTopic/list",
    service="Queue topic",
    summary="Topics of the queue service, page by page",
    description="By name. A page past the end is empty and reports the true total.",
    parameters=TopicList,
    result=QueueTopicDo,
    paged=True,
    needs=("mns:ListTopic",),
    extension=True,
)
def list_topics(call: Call, parameters: TopicList) -> Page:
    tenant = access.require_topic(call.actor, "mns:ListTopic", "")
    found = queries.listing(tenant, parameters.topic).rows
    return Page.of(parameters, [_described(one) for one in cut(parameters, found)], len(found))


@operation(
    "queueTopic/create",
    service="Queue topic",
    summary="Create a topic of the queue service",
    description="Letters, digits and hyphens, a letter or digit first. A topic that is there with the same attributes "
    "is left as it is.",
    parameters=TopicAttributes,
    result=Nothing,
    needs=("mns:CreateTopic",),
    changes=True,
    errors=("BIZ_QUEUE_TOPIC_EXISTED", "BIZ_QUEUE_QUOTA_EXCEEDED"),
    extension=True,
)
def create(call: Call, parameters: TopicAttributes) -> dict[str, Any]:
    access.require_topic(call.actor, "mns:CreateTopic", parameters.topic)
    services.create_topic(actor=call.actor, name=parameters.topic, attributes=attributes.given(parameters, "topic"))
    return NOTHING


@operation(
    "queueTopic/set",
    service="Queue topic",
    summary="Change attributes of a topic of the queue service",
    description="Omitted attributes keep their values.",
    parameters=TopicAttributes,
    result=Nothing,
    needs=("mns:SetTopicAttributes",),
    changes=True,
    errors=_MISSES,
    extension=True,
)
def set_attributes(call: Call, parameters: TopicAttributes) -> dict[str, Any]:
    access.require_topic(call.actor, "mns:SetTopicAttributes", parameters.topic)
    services.set_topic(actor=call.actor, name=parameters.topic, attributes=attributes.needed(parameters, "topic"))
    return NOTHING


@operation(
    "queueTopic/delete",
    service="Queue topic",
    summary="Delete a topic of the queue service, and its subscriptions",
    parameters=TopicOnly,
    result=Nothing,
    needs=("mns:DeleteTopic",),
    changes=True,
    errors=_MISSES,
    extension=True,
)
def delete(call: Call, parameters: TopicOnly) -> dict[str, Any]:
    access.require_topic(call.actor, "mns:DeleteTopic", parameters.topic)
    services.delete_topic(actor=call.actor, name=parameters.topic)
    return NOTHING


@operation(
    "queueTopic/publish",
    service="Queue topic",
    summary="Publish a message to all subscribers",
    parameters=TopicPublish,
    result=PublishedMessage,
    needs=("mns:PublishMessage",),
    changes=True,
    errors=(*_MISSES, "BIZ_QUEUE_QUOTA_EXCEEDED"),
    extension=True,
)
def publish(call: Call, parameters: TopicPublish) -> PublishedMessage:
    access.require_topic(call.actor, "mns:PublishMessage", parameters.topic)
    message_id = services.publish_message(
        actor=call.actor, name=parameters.topic, body=parameters.body, tag=parameters.tag
    )
    return PublishedMessage(messageId=message_id)


@operation(
    "queueTopic/subscriptions",
    service="Queue topic",
    summary="Subscriptions of a topic, and what became of their notifications",
    parameters=TopicOnly,
    result=list[SubscriptionDo],
    needs=("mns:ListSubscriptionByTopic",),
    errors=_MISSES,
    extension=True,
)
def subscriptions(call: Call, parameters: TopicOnly) -> list[SubscriptionDo]:
    tenant = access.require_topic(call.actor, "mns:ListSubscriptionByTopic", parameters.topic)
    return [_subscription(one) for one in queries.subscriptions(tenant, parameters.topic)]


@operation(
    "queueTopic/subscribe",
    service="Queue topic",
    summary="Subscribe a queue or a URL",
    description="For a queue the caller needs `mns:SendMessage` on it too: a topic gives nobody a right.",
    parameters=Subscribe,
    result=Nothing,
    needs=("mns:Subscribe",),
    changes=True,
    errors=(*_MISSES, "BIZ_QUEUE_SUBSCRIPTION_EXISTED"),
    extension=True,
)
def subscribe(call: Call, parameters: Subscribe) -> dict[str, Any]:
    access.require_topic(call.actor, "mns:Subscribe", parameters.topic, parameters.subscription)
    services.subscribe(
        actor=call.actor,
        topic=parameters.topic,
        name=parameters.subscription,
        receiver=parameters.receiver,
        strategy=Strategy(parameters.strategy),
        form=Format(parameters.format),
        tag=parameters.tag,
    )
    return NOTHING


@operation(
    "queueTopic/setSubscription",
    service="Queue topic",
    summary="Change a subscription",
    description="Omitted attributes keep their values. Receiver and format cannot be changed.",
    parameters=SubscriptionSet,
    result=Nothing,
    needs=("mns:SetSubscriptionAttributes",),
    changes=True,
    errors=(*_MISSES, "BIZ_QUEUE_SUBSCRIPTION_NOT_FOUND"),
    extension=True,
)
def set_subscription(call: Call, parameters: SubscriptionSet) -> dict[str, Any]:
    access.require_topic(call.actor, "mns:SetSubscriptionAttributes", parameters.topic, parameters.subscription)
    if parameters.strategy is None and parameters.tag is None:
        raise Refused(FIELD, "Neither a strategy nor a tag is given.", "strategy")
    services.set_subscription(
        actor=call.actor,
        topic=parameters.topic,
        name=parameters.subscription,
        strategy=None if parameters.strategy is None else Strategy(parameters.strategy),
        tag=parameters.tag,
    )
    return NOTHING


@operation(
    "queueTopic/unsubscribe",
    service="Queue topic",
    summary="End a subscription",
    parameters=SubscriptionOnly,
    result=Nothing,
    needs=("mns:Unsubscribe",),
    changes=True,
    errors=(*_MISSES, "BIZ_QUEUE_SUBSCRIPTION_NOT_FOUND"),
    extension=True,
)
def unsubscribe(call: Call, parameters: SubscriptionOnly) -> dict[str, Any]:
    access.require_topic(call.actor, "mns:Unsubscribe", parameters.topic, parameters.subscription)
    services.unsubscribe(actor=call.actor, topic=parameters.topic, name=parameters.subscription)
    return NOTHING


def _described(state: TopicState) -> QueueTopicDo:
    return QueueTopicDo(
        topic=state.name,
        maximumMessageSize=state.attributes["MaximumMessageSize"],
        loggingEnabled=state.is_logged,
        waiting=state.waiting,
        createTime=state.created * 1000,
        lastModifyTime=state.modified * 1000,
    )


def _subscription(state: SubscriptionState) -> SubscriptionDo:
    own, result = state.subscription, state.result
    return SubscriptionDo(
        subscription=state.name,
        receiver=own.queue or own.endpoint,
        tag=own.tag,
        strategy=own.strategy,
        format=own.format,
        delivered=result.delivered,
        failures=result.failures,
        dropped=result.dropped,
        waiting=result.waiting,
        lastPushTime=result.last_ms,
        lastPushStatus=result.status,
        lastPushError=result.error,
    )
