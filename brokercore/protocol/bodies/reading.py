"""Typed access to members of JSON bodies: absent and null members have a default, as in Java."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from brokercore.protocol.errors import LenientJsonError
from brokercore.protocol.fastjson import ObjectKeyed, loads
from brokercore.protocol.message_queue import MessageQueue

_LONG_MIN, _LONG_MAX = -(2**63), 2**63 - 1


def read_object(data: bytes) -> dict[str, Any]:
    """The body as a JSON object. Raises LenientJsonError."""
    value = loads(data)
    if isinstance(value, ObjectKeyed) and not value:
        return {}
    if not isinstance(value, dict):
        raise LenientJsonError("the body is not a JSON object")
    return value


def text(data: Mapping[str, Any], name: str, default: str = "") -> str:
    """A text member."""
    value = data.get(name)
    return default if value is None else str(value)


def integer(data: Mapping[str, Any], name: str, default: int = 0) -> int:
    """A whole number of 64 bits; Java also writes numbers as text. Raises LenientJsonError."""
    value = data.get(name)
    return default if value is None else _long(value, name)


def integers(data: Mapping[str, Any], name: str) -> list[int]:
    """The whole numbers of a list member. Raises LenientJsonError."""
    value = data.get(name)
    return [_long(item, name) for item in value] if isinstance(value, list) else []


def strings(data: Mapping[str, Any], name: str) -> list[str]:
    """The texts of a list member."""
    value = data.get(name)
    return [str(item) for item in value] if isinstance(value, list) else []


def _long(value: Any, name: str) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        number = 1 << 64
    if not _LONG_MIN <= number <= _LONG_MAX:
        raise LenientJsonError(f"{name} is not a whole number: {str(value)[:40]!r}")
    return number


def number(data: Mapping[str, Any], name: str) -> float:
    """A number, 0 when absent. Raises LenientJsonError."""
    try:
        return float(data.get(name) or 0)
    except (TypeError, ValueError):
        raise LenientJsonError(f"{name} is not a number: {str(data.get(name))[:40]!r}") from None


def boolean(data: Mapping[str, Any], name: str, default: bool = False) -> bool:
    """A truth value, also when written as text."""
    value = data.get(name)
    if value is None:
        return default
    return value.lower() == "true" if isinstance(value, str) else bool(value)


def objects(data: Mapping[str, Any], name: str) -> Iterator[dict[str, Any]]:
    """The objects of a list member."""
    value = data.get(name)
    return (item for item in (value if isinstance(value, list) else []) if isinstance(item, dict))


def mapping(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    """An object member, {} when absent."""
    value = data.get(name)
    return value if isinstance(value, dict) else {}


def texts(value: Any) -> dict[str, str]:
    """An object of text values."""
    return {key: str(item) for key, item in value.items() if item is not None} if isinstance(value, dict) else {}


def by_queue(data: Mapping[str, Any], name: str) -> Iterable[tuple[MessageQueue, Any]]:
    """The entries of a map keyed by queues. Raises LenientJsonError for keys that are no queue."""
    value = data.get(name)
    if not isinstance(value, ObjectKeyed):
        if value:
            raise LenientJsonError(f"{name} is not a map keyed by queues")
        return []
    return [(MessageQueue.from_dict(key), item) for key, item in value if isinstance(key, dict)]
