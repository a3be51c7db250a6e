"""The client of the service's topics for Gantry's own code; what `brokercore.smq.client` says of errors holds here too.

client = TopicClient("http://127.0.0.1:8071", key_id, secret, account="1234567890123456")
client.create_topic("news")
client.subscribe("news", "orders", client.endpoint_of("orders", region="mq-private"))
client.publish("news", b"hello", tag="red")
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from brokercore.smq.client import MOST_LISTED, QueueClient
from brokercore.smq.wire.errors import Code, SmqError
from brokercore.smq.wire.queues import LOGGING
from brokercore.smq.wire.subscriptions import Format, PushResult, Strategy, Subscription, SubscriptionState
from brokercore.smq.wire.topics import RANGES, TopicState
from brokercore.smq.wire.xml import Element, document, leaf


class TopicClient(QueueClient):
    """The operations on the topics of one account, beside those on its queues."""

    # Topics

    def create_topic(self, name: str, attributes: Mapping[str, int] | None = None) -> bool:
        """Make a topic; what is not named has its default. False when it was there with the same attributes."""
        return self._ask("PUT", _path(name), _attributes(attributes or {})).status == 201

    def set_topic_attributes(self, name: str, attributes: Mapping[str, int]) -> None:
        """Change attributes of a topic; what is not named stays."""
        self._ask("PUT", f"{_path(name)}?metaoverride=true", _attributes(attributes))

    def topic(self, name: str) -> TopicState:
        """What a topic is."""
        return _topic(self._read(self._ask("GET", _path(name)), "Topic"))

    def topics(self, prefix: str = "", marker: str = "", most: int = MOST_LISTED) -> tuple[list[TopicState], str]:
        """Topics in order of their names, behind `marker`; and the marker of the next page, empty at the end."""
        root = self._read(self._ask("GET", "/topics", headers=_listing(prefix, marker, most)), "Topics")
        return [_topic(child) for child in root.children if child.name == "Topic"], root.text_of("NextMarker") or ""

    def delete_topic(self, name: str) -> None:
        """Remove a topic, its subscriptions, and what they wait for; nothing happens when there is none."""
        self._ask("DELETE", _path(name))

    def publish(self, topic: str, body: bytes, *, tag: str = "") -> str:
        """Bring a message, UTF-8 text, to the topic's subscribers; its ID."""
        try:
            text = body.decode()
        except UnicodeDecodeError as error:
            raise SmqError(Code.INVALID_ARGUMENT, "The body is not valid UTF-8; send bytes as Base64.") from error
        leaves = [leaf("MessageBody", text), *([leaf("MessageTag", tag)] if tag else ())]
        answer = self._ask("POST", _path(topic, "/messages"), document("Message", leaves))
        return _text(self._read(answer, "Message"), "MessageId")

    # Subscriptions

    def endpoint_of(self, queue: str, region: str) -> str:
        """The endpoint by which a queue of this client's account is subscribed."""
        return f"acs:mns:{region}:{self.account}:queues/{queue}"

    def subscribe(
        self,
        topic: str,
        name: str,
        endpoint: str,
        *,
        strategy: Strategy = Strategy.BACKOFF,
        form: Format = Format.XML,
        tag: str = "",
    ) -> bool:
        """Subscribe a queue or a URL; False when the same subscription was there."""
        leaves = [
            leaf("Endpoint", endpoint),
            leaf("NotifyStrategy", strategy),
            leaf("NotifyContentFormat", form),
            *([leaf("FilterTag", tag)] if tag else ()),
        ]
        return self._ask("PUT", _path(topic, "/subscriptions/", name), document("Subscription", leaves)).status == 201

    def set_subscription_attributes(
        self, topic: str, name: str, *, strategy: Strategy | None = None, tag: str | None = None
    ) -> None:
        """Change a subscription; what is None stays. An empty tag lets every message through."""
        leaves = [
            *([] if strategy is None else [leaf("NotifyStrategy", strategy)]),
            *([] if tag is None else [leaf("FilterTag", tag)]),
        ]
        target = f"{_path(topic, '/subscriptions/', name)}?metaoverride=true"
        self._ask("PUT", target, document("Subscription", leaves))

    def subscription(self, topic: str, name: str) -> SubscriptionState:
        """A subscription, with what became of its notifications."""
        return _subscription(self._read(self._ask("GET", _path(topic, "/subscriptions/", name)), "Subscription"))

    def subscriptions(
        self, topic: str, prefix: str = "", marker: str = "", most: int = MOST_LISTED
    ) -> tuple[list[SubscriptionState], str]:
        """Subscriptions in order of their names, as `topics`, with what became of notifications."""
        answer = self._ask("GET", _path(topic, "/subscriptions"), headers=_listing(prefix, marker, most))
        root = self._read(answer, "Subscriptions")
        found = [_subscription(child) for child in root.children if child.name == "Subscription"]
        return found, root.text_of("NextMarker") or ""

    def unsubscribe(self, topic: str, name: str) -> None:
        """End a subscription, and what it waits for; nothing happens when there is none."""
        self._ask("DELETE", _path(topic, "/subscriptions/", name))


def _path(topic: str, rest: str = "", subscription: str = "") -> str:
    if not topic:
        raise SmqError(Code.TOPIC_NAME_INVALID, "The topic's name is missing.")
    if rest.endswith("/") and not subscription:
        raise SmqError(Code.SUBSCRIPTION_NAME_INVALID, "The subscription's name is missing.")
    return f"/topics/{quote(topic, safe='')}{rest}{quote(subscription, safe='')}"


def _listing(prefix: str, marker: str, most: int) -> dict[str, str]:
    headers = {"x-mns-with-meta": "true", "x-mns-ret-number": str(most)}
    for header, value in (("x-mns-prefix", prefix), ("x-mns-marker", marker)):
        if value and not (value.isascii() and value.isprintable()):
            raise SmqError(Code.INVALID_ARGUMENT, f"No name begins with {value[:40]!r}.")
        headers |= {header: value} if value else {}
    return headers


def _attributes(attributes: Mapping[str, int]) -> bytes:
    flags = {LOGGING: bool(attributes[LOGGING])} if LOGGING in attributes else {}
    return document("Topic", (leaf(name, value) for name, value in {**attributes, **flags}.items()))


def _topic(element: Element) -> TopicState:
    return TopicState(
        _text(element, "TopicName"),
        {attribute: _number(element, attribute) for attribute in RANGES},
        _text(element, LOGGING) == "True",
        _number(element, "CreateTime"),
        _number(element, "LastModifyTime"),
        _number(element, "MessageCount"),
    )


def _subscription(element: Element) -> SubscriptionState:
    subscription = Subscription(
        "",
        _text(element, "Endpoint"),
        Strategy(_text(element, "NotifyStrategy")),
        Format(_text(element, "NotifyContentFormat")),
        _text(element, "FilterTag"),
        _number(element, "CreateTime"),
        _number(element, "LastModifyTime"),
    )
    result = PushResult(
        _number(element, "LastPushTime"),
        _number(element, "LastPushStatus"),
        _text(element, "LastPushError"),
        _number(element, "DeliveredCount"),
        _number(element, "FailureCount"),
        _number(element, "DroppedCount"),
        _number(element, "WaitingCount"),
    )
    account, topic, name = (_text(element, word) for word in ("TopicOwner", "TopicName", "SubscriptionName"))
    return SubscriptionState(account, topic, name, subscription, result)


def _text(element: Element, name: str) -> str:
    return element.text_of(name) or ""


def _number(element: Element, name: str) -> int:
    return int(element.text_of(name) or 0)
