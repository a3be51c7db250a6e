"""Reads of the queue service's topics. The account comes first. Raise Refused and QueueServiceUnavailable."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from brokercore.smq.client import MOST_LISTED
from brokercore.smq.wire.errors import Code, SmqError
from brokercore.smq.wire.subscriptions import SubscriptionState
from brokercore.smq.wire.topics import TopicState
from console.accounts.models import Tenant
from console.queues.client import topics_of

MOST_NAMES = 10_000
"""Topics that a list knows of; nobody pages through more."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The topics whose names have a text; `is_cut` when the account has more than are listed."""

    rows: list[TopicState]
    is_cut: bool


def topic(tenant: Tenant, name: str) -> TopicState:
    """What a topic is."""
    with topics_of(tenant) as client:
        return client.topic(name)


def listing(tenant: Tenant, text: str = "") -> Listing:
    """The topics whose names have `text` in them, in any case, by name."""
    with topics_of(tenant) as client:
        found, marker = client.topics(most=MOST_LISTED)
        while marker and len(found) < MOST_NAMES:
            more, marker = client.topics(marker=marker, most=MOST_LISTED)
            found += more
    return Listing([one for one in found if text.lower() in one.name.lower()], bool(marker))


def subscriptions(tenant: Tenant, topic: str) -> list[SubscriptionState]:
    """Who gets what is published, by name, and what became of it."""
    with topics_of(tenant) as client:
        return client.subscriptions(topic)[0]


def subscription(tenant: Tenant, topic: str, name: str) -> SubscriptionState:
    """One of them."""
    with topics_of(tenant) as client:
        return client.subscription(topic, name)


def subscribed(tenant: Tenant, queue: str, topics: Iterable[str]) -> list[SubscriptionState]:
    """By which of these topics a queue gets messages; a topic that is gone meanwhile is left out."""
    found: list[SubscriptionState] = []
    with topics_of(tenant) as client:
        for topic in topics:
            try:
                found += [one for one in client.subscriptions(topic)[0] if one.subscription.queue == queue]
            except SmqError as error:
                if error.code is not Code.TOPIC_NOT_EXIST:
                    raise
    return found
