"""Attributes of queues: their ranges, how they are read from a request and told in an answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from brokercore.smq.wire.errors import Code, SmqError
from brokercore.smq.wire.xml import Element, branch, document, leaf, read


@dataclass(frozen=True, slots=True)
class Range:
    """What a number may be, and what it is when nothing is said."""

    least: int
    most: int
    default: int


#: The attributes that a request may set, by the names in its XML; seconds and bytes.
RANGES: Mapping[str, Range] = {
    "DelaySeconds": Range(0, 604_800, 0),
    "MaximumMessageSize": Range(1_024, 65_536, 65_536),
    "MessageRetentionPeriod": Range(60, 604_800, 345_600),
    "VisibilityTimeout": Range(1, 43_200, 30),
    "PollingWaitSeconds": Range(0, 30, 0),
}
LOGGING = "LoggingEnabled"


@dataclass(frozen=True, slots=True)
class QueueState:
    """A queue as an answer tells it: its attributes, its counters, and when it was made and changed (epoch s)."""

    name: str
    attributes: Mapping[str, int]
    is_logged: bool
    created: int
    modified: int
    active: int = 0
    inactive: int = 0
    delayed: int = 0
    oldest_ms: int = 0
    """When the oldest message in it was sent, epoch ms; 0 when it is empty."""
    sent: int = 0
    """Messages since the queue was made; so is `received`, which counts a message each time it is received."""
    received: int = 0


def read_attributes(body: bytes) -> dict[str, int]:
    """The attributes that a body names; LoggingEnabled is 0 or 1. Raises SmqError."""
    return read_ranges(body, "Queue", RANGES)


def read_ranges(body: bytes, root: str, ranges: Mapping[str, Range]) -> dict[str, int]:
    """The numbers and the LoggingEnabled that a body of this root names. Raises SmqError."""
    if not body.strip():
        return {}
    found: dict[str, int] = {}
    for child in read(body, root).children:
        if child.name in ranges:
            found[child.name] = _number(child, ranges[child.name])
        elif child.name == LOGGING:
            found[LOGGING] = int(_flag(child))
    return found


def with_defaults(given: Mapping[str, int]) -> dict[str, int]:
    """All attributes of a new queue."""
    return {name: one.default for name, one in RANGES.items()} | {LOGGING: 0} | dict(given)


def _number(element: Element, allowed: Range) -> int:
    text = element.text.strip()
    if not text.isascii() or not text.isdecimal() or len(text) > 18 or not allowed.least <= int(text) <= allowed.most:
        raise SmqError(
            Code.INVALID_ARGUMENT,
            f"{element.name} is {text[:40]!r}; allowed are whole numbers from {allowed.least} to {allowed.most}.",
        )
    return int(text)


def _flag(element: Element) -> bool:
    text = element.text.strip().lower()
    if text not in ("true", "false"):
        raise SmqError(Code.INVALID_ARGUMENT, f"{element.name} is {text[:40]!r}; allowed are True and False.")
    return text == "true"


def state_document(state: QueueState) -> bytes:
    """The answer of GetQueueAttributes."""
    return document("Queue", _state_leaves(state))


def list_document(urls: Iterable[str], next_marker: str, states: Mapping[str, QueueState] | None = None) -> bytes:
    """The answer of ListQueue: URLs, with their states when these were asked for."""
    entries = []
    for url in urls:
        state = states.get(url.rpartition("/")[2]) if states else None
        entries.append(branch("Queue", [leaf("QueueURL", url), *(_state_leaves(state) if state else ())]))
    marker = [leaf("NextMarker", next_marker)] if next_marker else []
    return document("Queues", [*entries, *marker])


def _state_leaves(state: QueueState) -> list[str]:
    return [
        leaf("QueueName", state.name),
        leaf("CreateTime", state.created),
        leaf("LastModifyTime", state.modified),
        *(leaf(name, state.attributes[name]) for name in RANGES),
        leaf("ActiveMessages", state.active),
        leaf("InactiveMessages", state.inactive),
        leaf("DelayMessages", state.delayed),
        leaf("OldestMessageTime", state.oldest_ms),
        leaf("SentMessages", state.sent),
        leaf("ReceivedMessages", state.received),
        leaf(LOGGING, state.is_logged),
    ]
