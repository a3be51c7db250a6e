"""Which stored frames a subscription lets through, decided on the bytes: a frame is never decoded whole."""

from __future__ import annotations

from collections.abc import Callable

from brokercore.protocol.errors import MessageFormatError, SubscriptionError
from brokercore.protocol.filters import parse_tags
from brokercore.protocol.properties import decode_properties
from brokercore.protocol.sql92 import parse_sql92

Wanted = Callable[[bytes], bool]

_BODY_SIZE_AT, _BODY_AT = 84, 88
_V1_LAST_BYTE = 0xA7


def wanted_frames(kind: str, expression: str | None) -> Wanted | None:
    """The test of a frame for an expression of type TAG or SQL92; None lets everything through.

    Raises SubscriptionError for an expression that cannot be read, and for another type.
    """
    if kind == "SQL92":
        passes = parse_sql92(expression or "")
        return lambda frame: passes(_properties(frame))
    if kind not in ("TAG", ""):
        raise SubscriptionError(f"the broker filters by TAG and SQL92; {kind} expressions are not supported")
    tag_filter = parse_tags(expression)
    if tag_filter.everything:
        return None
    tags = frozenset(tag.encode() for tag in tag_filter.tags)
    return lambda frame: tag_of(frame) in tags


def tag_of(frame: bytes) -> bytes:
    """The TAGS property of a stored frame."""
    at = _properties_at(frame)
    if frame.startswith(b"TAGS\x01", at):
        start = at + 5
    else:
        found = frame.find(b"\x02TAGS\x01", at)
        if found < 0:
            return b""
        start = found + 6
    end = frame.find(b"\x02", start)
    return frame[start:] if end < 0 else frame[start:end]


def _properties(frame: bytes) -> dict[str, str]:
    """All properties; none when they are no UTF-8, so that no comparison holds."""
    try:
        return decode_properties(frame[_properties_at(frame) :])
    except MessageFormatError:
        return {}


def _properties_at(frame: bytes) -> int:
    """Where the property string begins; it ends with the frame."""
    at = _BODY_AT + int.from_bytes(frame[_BODY_SIZE_AT:_BODY_AT], "big")
    if frame[7] == _V1_LAST_BYTE:
        at += 1 + frame[at]
    else:
        at += 2 + int.from_bytes(frame[at : at + 2], "big")
    return at + 2
