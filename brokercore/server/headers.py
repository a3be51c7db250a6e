"""Typed access to the ext fields of a request: what is missing or no number is refused with one sentence."""

from __future__ import annotations

from collections.abc import Mapping

from brokercore.protocol.codes import ResponseCode
from brokercore.server.errors import Refusal

SEND_FIELDS = {
    "a": "producerGroup",
    "b": "topic",
    "c": "defaultTopic",
    "d": "defaultTopicQueueNums",
    "e": "queueId",
    "f": "sysFlag",
    "g": "bornTimestamp",
    "h": "flag",
    "i": "properties",
    "j": "reconsumeTimes",
    "k": "unitMode",
    "l": "maxReconsumeTimes",
    "m": "batch",
}
"""Header fields of SEND_MESSAGE_V2 and SEND_REPLY_MESSAGE_V2, and what the older requests call them."""

_LONG = range(-(2**63), 2**63)


def text(ext: Mapping[str, str], name: str) -> str:
    """A required text field."""
    value = ext.get(name)
    if value is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"the header field {name} is missing")
    return value


def integer(ext: Mapping[str, str], name: str, default: int | None = None) -> int:
    """A whole number of 64 bits; required when there is no default."""
    value = ext.get(name)
    if value is None or value == "":
        if default is None:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"the header field {name} is missing")
        return default
    try:
        number = int(value)
    except ValueError:
        number = 1 << 64
    if number not in _LONG:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"the header field {name} is not a whole number: {value[:40]!r}")
    return number


def boolean(ext: Mapping[str, str], name: str, default: bool = False) -> bool:
    """A truth value as Java writes it."""
    value = ext.get(name)
    return default if value is None else value.lower() == "true"
