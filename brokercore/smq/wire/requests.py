"""Which operation a request asks for: its method, its path, and what stands in its query."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from urllib.parse import unquote

from brokercore.smq.wire.errors import Code, SmqError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*")
#: Characters of a queue's name, and of the name of a topic or a subscription.
MAX_NAME, MAX_TOPIC_NAME = 120, 255
_REMEMBERED = 1024
"""Paths that are not taken apart again for each request."""


class Operation(Enum):
    """An operation, by the vendor's name; `right` is the action that policies know it by."""

    CREATE_QUEUE = "CreateQueue"
    SET_QUEUE_ATTRIBUTES = "SetQueueAttributes"
    GET_QUEUE_ATTRIBUTES = "GetQueueAttributes"
    LIST_QUEUE = "ListQueue"
    DELETE_QUEUE = "DeleteQueue"
    SEND_MESSAGE = "SendMessage"
    RECEIVE_MESSAGE = "ReceiveMessage"
    PEEK_MESSAGE = "PeekMessage"
    CHANGE_MESSAGE_VISIBILITY = "ChangeMessageVisibility"
    DELETE_MESSAGE = "DeleteMessage"
    CREATE_TOPIC = "CreateTopic"
    SET_TOPIC_ATTRIBUTES = "SetTopicAttributes"
    GET_TOPIC_ATTRIBUTES = "GetTopicAttributes"
    LIST_TOPIC = "ListTopic"
    DELETE_TOPIC = "DeleteTopic"
    PUBLISH_MESSAGE = "PublishMessage"
    SUBSCRIBE = "Subscribe"
    SET_SUBSCRIPTION_ATTRIBUTES = "SetSubscriptionAttributes"
    GET_SUBSCRIPTION_ATTRIBUTES = "GetSubscriptionAttributes"
    LIST_SUBSCRIPTION_BY_TOPIC = "ListSubscriptionByTopic"
    UNSUBSCRIBE = "Unsubscribe"
    GET_ACCOUNT_ATTRIBUTES = "GetAccountAttributes"
    SET_ACCOUNT_ATTRIBUTES = "SetAccountAttributes"
    OPEN_SERVICE = "OpenService"

    @property
    def right(self) -> str:
        """The action of policies."""
        return f"mns:{self.value}"


@dataclass(slots=True)
class Call:
    """An operation with the names in its path and the parameters of its query."""

    operation: Operation
    name: str = ""
    """Of the queue or the topic; empty for lists and the account's own operations."""
    subscription: str = ""
    query: Mapping[str, str] = field(default_factory=dict)
    """By lower-case names."""

    @property
    def resource(self) -> str:
        """The path that policies name, such as `/queues/orders/messages`."""
        match self.operation:
            case (
                Operation.SEND_MESSAGE
                | Operation.RECEIVE_MESSAGE
                | Operation.PEEK_MESSAGE
                | Operation.CHANGE_MESSAGE_VISIBILITY
                | Operation.DELETE_MESSAGE
            ):
                return f"/queues/{self.name}/messages"
            case Operation.PUBLISH_MESSAGE:
                return f"/topics/{self.name}/messages"
            case _ if self.operation.value.endswith(("Queue", "QueueAttributes")):
                return f"/queues/{self.name}"
            case _ if self.subscription or self.operation is Operation.LIST_SUBSCRIPTION_BY_TOPIC:
                return f"/topics/{self.name}/subscriptions/{self.subscription}"
            case _ if self.operation.value.endswith(("Topic", "TopicAttributes")):
                return f"/topics/{self.name}"
            case _:
                return "/"

    def number(self, parameter: str, least: int, most: int, default: int) -> int:
        """A whole number of the query. Raises SmqError."""
        text = self.query.get(parameter.lower(), "")
        if not text:
            return default
        if not text.isascii() or not text.isdecimal() or len(text) > 18 or not least <= int(text) <= most:
            raise SmqError(
                Code.INVALID_ARGUMENT,
                f"{parameter} is {text[:40]!r}; allowed are whole numbers from {least} to {most}.",
            )
        return int(text)


_O = Operation
_QUEUE = {"GET": _O.GET_QUEUE_ATTRIBUTES, "PUT": _O.CREATE_QUEUE, "DELETE": _O.DELETE_QUEUE}
_MESSAGES = {
    "POST": _O.SEND_MESSAGE,
    "GET": _O.RECEIVE_MESSAGE,
    "PUT": _O.CHANGE_MESSAGE_VISIBILITY,
    "DELETE": _O.DELETE_MESSAGE,
}
_TOPIC = {"GET": _O.GET_TOPIC_ATTRIBUTES, "PUT": _O.CREATE_TOPIC, "DELETE": _O.DELETE_TOPIC}
_SUBSCRIPTION = {"GET": _O.GET_SUBSCRIPTION_ATTRIBUTES, "PUT": _O.SUBSCRIBE, "DELETE": _O.UNSUBSCRIBE}
#: Operations by the words of the path, `*` for a name, and the method.
_ROUTES: dict[tuple[str, ...], dict[str, Operation]] = {
    (): {"GET": _O.GET_ACCOUNT_ATTRIBUTES, "PUT": _O.SET_ACCOUNT_ATTRIBUTES},
    ("queues",): {"GET": _O.LIST_QUEUE},
    ("queues", "*"): _QUEUE,
    ("queues", "*", "messages"): _MESSAGES,
    ("topics",): {"GET": _O.LIST_TOPIC},
    ("topics", "*"): _TOPIC,
    ("topics", "*", "messages"): {"POST": _O.PUBLISH_MESSAGE},
    ("topics", "*", "subscriptions"): {"GET": _O.LIST_SUBSCRIPTION_BY_TOPIC},
    ("topics", "*", "subscriptions", "*"): _SUBSCRIPTION,
    ("commonbuy", "openservice"): {"POST": _O.OPEN_SERVICE},
}
#: What `metaoverride=true` makes of a creation.
_OVERRIDES = {
    _O.CREATE_QUEUE: _O.SET_QUEUE_ATTRIBUTES,
    _O.CREATE_TOPIC: _O.SET_TOPIC_ATTRIBUTES,
    _O.SUBSCRIBE: _O.SET_SUBSCRIPTION_ATTRIBUTES,
}


def read_call(method: str, target: str) -> Call:
    """The operation of a request line; `target` is the path with its query. Raises SmqError."""
    path, _, query_text = target.partition("?")
    operation, name, subscription = _route(method, path)
    # SDKs spell the same parameter in different cases.
    pairs = [pair.partition("=") for pair in query_text.split("&") if pair]
    # None of them encodes a value, so a plus sign is one.
    query = {unquote(parameter).lower(): unquote(value) for parameter, _, value in pairs}
    if not path.strip("/") and "accountmeta" not in query:
        raise SmqError(Code.INVALID_REQUEST_URL, "The path / is asked for with ?accountmeta=true.")
    if query.get("metaoverride", "").lower() == "true":
        operation = _OVERRIDES.get(operation, operation)
    if operation is _O.RECEIVE_MESSAGE and query.get("peekonly", "").lower() == "true":
        operation = _O.PEEK_MESSAGE
    return Call(operation, name, subscription, query)


@lru_cache(_REMEMBERED)
def _route(method: str, path: str) -> tuple[Operation, str, str]:
    """The operation, whatever the query makes of it, and the names in the path. Raises SmqError."""
    words = tuple(unquote(word) for word in path.split("/") if word)
    pattern = tuple(
        "*" if number % 2 and words[0] in ("queues", "topics") else word for number, word in enumerate(words)
    )
    operation = _ROUTES.get(pattern, {}).get(method)
    if operation is None:
        raise SmqError(Code.INVALID_REQUEST_URL, f"There is no operation {method[:10]} {path[:200]}.")
    if len(words) > 1 and pattern[1] == "*":
        _require_name(words[1], *(_QUEUE_NAMES if words[0] == "queues" else _TOPIC_NAMES))
    if len(words) > 3:
        _require_name(words[3], *_SUBSCRIPTION_NAMES)
    name = words[1] if len(words) > 1 and pattern[1] == "*" else ""
    return operation, name, words[3] if len(words) > 3 else ""


_QUEUE_NAMES = MAX_NAME, Code.QUEUE_NAME_LENGTH_ERROR, Code.INVALID_QUEUE_NAME
_TOPIC_NAMES = MAX_TOPIC_NAME, Code.TOPIC_NAME_LENGTH_ERROR, Code.TOPIC_NAME_INVALID
_SUBSCRIPTION_NAMES = MAX_TOPIC_NAME, Code.SUBSCRIPTION_NAME_LENGTH_ERROR, Code.SUBSCRIPTION_NAME_INVALID


def is_name(name: str) -> bool:
    """Whether something may be called so, if it is short enough."""
    return _NAME.fullmatch(name) is not None


def _require_name(name: str, most: int, too_long: Code, invalid: Code) -> None:
    if len(name) > most:
        raise SmqError(too_long, f"The name has {len(name)} characters; allowed are 1 to {most}.")
    if not is_name(name):
        raise SmqError(
            invalid,
            f"The name {name!r} is not allowed: it is made of letters, digits and hyphens, a letter or digit first.",
        )
