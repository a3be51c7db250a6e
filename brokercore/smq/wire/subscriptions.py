"""Subscriptions of topics: where notifications go, which ones, in what form, and how often a push is tried."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, TypeVar
from urllib.parse import SplitResult, urlsplit

from brokercore.smq.wire.errors import Code, SmqError
from brokercore.smq.wire.requests import MAX_NAME, is_name
from brokercore.smq.wire.topics import read_tag
from brokercore.smq.wire.xml import Element, branch, document, leaf, read

Choice = TypeVar("Choice", bound=StrEnum)
_QUEUE = re.compile(r"acs:mns:([A-Za-z0-9-]{1,64}):([A-Za-z0-9_-]{1,64}):queues/(.+)")
_URL_CHARACTERS = re.compile(r"[!-~]+")
_MAX_URL = 1024
_ELSEWHERE = ("mail:", "sms:", "push:")


class Strategy(StrEnum):
    """How a push that failed is tried again."""

    BACKOFF = "BACKOFF_RETRY"
    """Three times, 10 to 20 s apart."""
    DECAY = "EXPONENTIAL_DECAY_RETRY"
    """176 times within a day: after 1, 2, 4 … 512 s, then every 512 s."""


class Format(StrEnum):
    """What a notification is: the message with what is known of it, or the published bytes alone."""

    XML = "XML"
    JSON = "JSON"
    SIMPLIFIED = "SIMPLIFIED"


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscription; an empty filter lets every message through. Times are epoch s.

    `id` is its own, also among subscriptions of the same name, one after the other.
    """

    id: str
    endpoint: str
    strategy: Strategy = Strategy.BACKOFF
    format: Format = Format.XML
    tag: str = ""
    created: int = 0
    modified: int = 0

    @property
    def queue(self) -> str:
        """The queue that is subscribed; empty when notifications are pushed."""
        return queue_of(self.endpoint)

    def takes(self, tag: str) -> bool:
        """Whether messages of this tag go there."""
        return not self.tag or self.tag == tag

    def kept(self) -> dict[str, str | int]:
        """The subscription as it is stored."""
        return asdict(self)

    @classmethod
    def read(cls, kept: Mapping[str, str | int]) -> Subscription:
        """The subscription of what is stored."""
        values: dict[str, Any] = dict(kept)
        values["strategy"], values["format"] = Strategy(values["strategy"]), Format(values["format"])
        return cls(**values)


@dataclass(frozen=True, slots=True)
class PushResult:
    """What became of a subscription's notifications since it was made.

    Of the last attempt: its time (epoch ms; 0: there was none), the receiver's status (0: it did not answer), and why
    it failed (empty: it did not). `delivered` notifications arrived, `failures` are attempts that failed, `dropped`
    notifications were given up, `waiting` ones are still to be pushed.
    """

    last_ms: int = 0
    status: int = 0
    error: str = ""
    delivered: int = 0
    failures: int = 0
    dropped: int = 0
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class SubscriptionState:
    """A subscription as an answer tells it."""

    account: str
    topic: str
    name: str
    subscription: Subscription
    result: PushResult = field(default_factory=PushResult)


# Requests


def read_subscription(body: bytes, subscription_id: str, now: int) -> Subscription:
    """The subscription that a body asks for; `now` is epoch s. Raises SmqError."""
    root = read(body, "Subscription")
    endpoint = (root.text_of("Endpoint") or "").strip()
    require_endpoint(endpoint)
    return Subscription(
        subscription_id,
        endpoint,
        _choice(root, "NotifyStrategy", Strategy, Strategy.BACKOFF),
        _choice(root, "NotifyContentFormat", Format, Format.XML),
        read_tag(root.text_of("FilterTag") or "", "FilterTag"),
        now,
        now,
    )


def read_change(body: bytes) -> dict[str, str]:
    """What a body changes of a subscription: its strategy and its filter. Raises SmqError."""
    if not body.strip():
        return {}
    root = read(body, "Subscription")
    for fixed in ("Endpoint", "NotifyContentFormat"):
        if root.find(fixed) is not None:
            raise SmqError(Code.INVALID_ARGUMENT, f"{fixed} of a subscription cannot be changed.")
    found: dict[str, str] = {}
    if root.find("NotifyStrategy") is not None:
        found["strategy"] = _choice(root, "NotifyStrategy", Strategy, Strategy.BACKOFF)
    tag = root.text_of("FilterTag")
    if tag is not None:
        found["tag"] = read_tag(tag, "FilterTag")
    return found


def _choice(root: Element, name: str, kind: type[Choice], default: Choice) -> Choice:
    text = (root.text_of(name) or "").strip()
    if not text:
        return default
    try:
        return kind(text)
    except ValueError:
        raise SmqError(Code.INVALID_ARGUMENT, f"{name} is {text[:40]!r}; allowed are {', '.join(kind)}.") from None


# Endpoints


def queue_of(endpoint: str) -> str:
    """The queue of an endpoint; empty when it is a URL."""
    found = _QUEUE.fullmatch(endpoint)
    return found[3] if found else ""


def account_of(endpoint: str) -> str:
    """Whose queue an endpoint is; empty when it is a URL."""
    found = _QUEUE.fullmatch(endpoint)
    return found[2] if found else ""


def require_endpoint(endpoint: str) -> None:
    """Refuse what no notification can go to. Raises SmqError."""
    if not endpoint:
        raise SmqError(Code.INVALID_ARGUMENT, "Endpoint is missing or empty.")
    if endpoint.startswith(_ELSEWHERE):
        raise _invalid(f"Endpoint {endpoint[:80]!r} is mail, SMS or mobile push, which this service does not deliver.")
    if queue := queue_of(endpoint):
        if len(queue) > MAX_NAME or not is_name(queue):
            raise _invalid(f"Endpoint {endpoint[:80]!r} names no queue that can be.")
        return
    if not endpoint.startswith(("http://", "https://")):
        raise _invalid(
            f"Endpoint is {endpoint[:80]!r}; allowed are http://…, https://… "
            "and acs:mns:<region>:<account>:queues/<queue>."
        )
    if len(endpoint) > _MAX_URL or not _URL_CHARACTERS.fullmatch(endpoint):
        raise _invalid(f"The URL of Endpoint is made of up to {_MAX_URL} visible ASCII characters.")
    parts = _split(endpoint)
    if not parts.hostname or parts.username is not None or parts.fragment or "#" in endpoint:
        raise _invalid("The URL of Endpoint has a host, and neither a user nor a fragment.")


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        if parts.port == 0:
            raise ValueError
    except ValueError:
        raise _invalid(f"Endpoint {url[:80]!r} is not a valid URL: check its host and its port.") from None
    return parts


def _invalid(message: str) -> SmqError:
    return SmqError(Code.ENDPOINT_INVALID, message)


# Answers


def state_document(state: SubscriptionState) -> bytes:
    """The answer of GetSubscriptionAttributes, with what became of its pushes."""
    return document("Subscription", _leaves(state))


def list_document(urls: Mapping[str, SubscriptionState], next_marker: str, *, with_meta: bool) -> bytes:
    """The answer of ListSubscriptionByTopic: URLs, with attributes when these were asked for."""
    entries: Iterable[str] = (
        branch("Subscription", [leaf("SubscriptionURL", url), *(_leaves(state) if with_meta else ())])
        for url, state in urls.items()
    )
    marker = [leaf("NextMarker", next_marker)] if next_marker else []
    return document("Subscriptions", [*entries, *marker])


def _leaves(state: SubscriptionState) -> list[str]:
    one, result = state.subscription, state.result
    return [
        leaf("SubscriptionName", state.name),
        leaf("Subscriber", state.account),
        leaf("TopicOwner", state.account),
        leaf("TopicName", state.topic),
        leaf("Endpoint", one.endpoint),
        leaf("NotifyStrategy", one.strategy),
        leaf("NotifyContentFormat", one.format),
        *([leaf("FilterTag", one.tag)] if one.tag else ()),  # SDKs stumble over empty elements in lists
        leaf("CreateTime", one.created),
        leaf("LastModifyTime", one.modified),
        leaf("DeliveredCount", result.delivered),
        leaf("FailureCount", result.failures),
        leaf("DroppedCount", result.dropped),
        leaf("WaitingCount", result.waiting),
        *([leaf("LastPushTime", result.last_ms), leaf("LastPushStatus", result.status)] if result.last_ms else ()),
        *([leaf("LastPushError", result.error)] if result.error else ()),
    ]
