"""Topics and what is published to them; and the account's own attributes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from brokercore.smq.wire.errors import Code, SmqError
from brokercore.smq.wire.messages import read_extra
from brokercore.smq.wire.queues import LOGGING, Range, read_ranges
from brokercore.smq.wire.xml import branch, document, leaf, read

#: The attributes that a request may set, by the names in its XML; bytes.
RANGES: Mapping[str, Range] = {"MaximumMessageSize": Range(1_024, 65_536, 65_536)}
#: How long the vendor keeps what is published, s. It is told, and cannot be set.
RETENTION_SECONDS = 86_400
#: Characters of a message's tag, and of a subscription's filter.
MAX_TAG = 16
_MAX_BUCKET = 255


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic as an answer tells it; `waiting` counts notifications that are not pushed yet. Times are epoch s."""

    name: str
    attributes: Mapping[str, int]
    is_logged: bool
    created: int
    modified: int
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class Publication:
    """A message that is to be published. `extra` is XML that comes back where it is received from a queue."""

    body: bytes
    tag: str = ""
    extra: bytes = b""


def read_attributes(body: bytes) -> dict[str, int]:
    """The attributes that a body names; LoggingEnabled is 0 or 1. Raises SmqError."""
    return read_ranges(body, "Topic", RANGES)


def with_defaults(given: Mapping[str, int]) -> dict[str, int]:
    """All attributes of a new topic."""
    return {name: one.default for name, one in RANGES.items()} | {LOGGING: 0} | dict(given)


def read_publication(body: bytes) -> Publication:
    """The message of a publish. Raises SmqError."""
    root = read(body, "Message")
    text = root.text_of("MessageBody")
    if not text:
        raise SmqError(Code.INVALID_ARGUMENT, "MessageBody is missing or empty.")
    attributes = root.find("MessageAttributes")
    for child in attributes.children if attributes else ():
        # For mail, SMS and mobile push, which nobody can subscribe to here: a publisher may send them all the same.
        try:
            json.loads(child.text)
        except (ValueError, RecursionError) as error:
            raise SmqError(
                Code.INVALID_ARGUMENT, f"{child.name[:50]} of MessageAttributes is not valid JSON."
            ) from error
    return Publication(text.encode(), read_tag(root.text_of("MessageTag") or "", "MessageTag"), read_extra(root))


def read_tag(text: str, element: str) -> str:
    """A tag, or nothing. Raises SmqError."""
    if len(text) > MAX_TAG:
        raise SmqError(Code.INVALID_ARGUMENT, f"{element} has {len(text)} characters; allowed are up to {MAX_TAG}.")
    if not text.isprintable():
        raise SmqError(Code.INVALID_ARGUMENT, f"{element} is {text!r}; allowed are characters that can be printed.")
    return text


def state_document(state: TopicState) -> bytes:
    """The answer of GetTopicAttributes."""
    return document("Topic", _state_leaves(state))


def list_document(urls: Iterable[str], next_marker: str, states: Mapping[str, TopicState] | None = None) -> bytes:
    """The answer of ListTopic: URLs, with their states when these were asked for."""
    entries = []
    for url in urls:
        state = states.get(url.rpartition("/")[2]) if states else None
        entries.append(branch("Topic", [leaf("TopicURL", url), *(_state_leaves(state) if state else ())]))
    marker = [leaf("NextMarker", next_marker)] if next_marker else []
    return document("Topics", [*entries, *marker])


def published_document(message_id: str, digest: bytes) -> bytes:
    """The answer of PublishMessage; `digest` is the MD5 of the body."""
    return document("Message", [leaf("MessageId", message_id), leaf("MessageBodyMD5", digest.hex().upper())])


def _state_leaves(state: TopicState) -> list[str]:
    return [
        leaf("TopicName", state.name),
        leaf("CreateTime", state.created),
        leaf("LastModifyTime", state.modified),
        *(leaf(name, state.attributes[name]) for name in RANGES),
        leaf("MessageRetentionPeriod", RETENTION_SECONDS),
        leaf("MessageCount", state.waiting),
        leaf(LOGGING, state.is_logged),
    ]


# --- The account


def read_account(body: bytes) -> str | None:
    """The bucket that a body names for logs; None when it names none. Raises SmqError."""
    bucket = read(body, "Account").text_of("LoggingBucket") if body.strip() else None
    if bucket is not None and len(bucket) > _MAX_BUCKET:
        raise SmqError(
            Code.INVALID_ARGUMENT, f"LoggingBucket has {len(bucket)} characters; allowed are up to {_MAX_BUCKET}."
        )
    return bucket


def account_document(bucket: str) -> bytes:
    """The answer of GetAccountAttributes."""
    return document("Account", [leaf("LoggingBucket", bucket)])


def order_document(order: str) -> bytes:
    """The answer of OpenService."""
    return document("OpenService", [leaf("OrderId", order)])
