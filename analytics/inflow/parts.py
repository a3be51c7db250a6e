"""Parts of a task's document as they are read: what is wrong is refused by its place, such as `source.messages`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from analytics.errors import AnalyticsError

_NAME = re.compile(r"[A-Za-z0-9_-]{1,127}")
#: Without `%`, which stands between an instance and a topic of it.
_TOPIC = re.compile(r"[A-Za-z0-9_-]{1,127}")


class TaskError(AnalyticsError):
    """The document is wrong. The message says where and what is allowed; `field` is the place, `source.messages`."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason.rstrip('.')}.")
        self.field = field


def known(what: str, found: Any, names: Sequence[str], place: str) -> None:
    """Refuse what is no object, and an object with other parts than these. `place` is where its parts stand."""
    if not isinstance(found, Mapping):
        raise TaskError(place.rstrip(".") or "task", f"it is an object with {', '.join(names)}")
    for name in found:
        if name not in names:
            shown = str(name)[:40].encode(errors="replace").decode()
            raise TaskError(f"{place}{shown}", f"{what} has no such part; it has {', '.join(names)}")


def whole(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """An object that has to be there."""
    found = document.get(name)
    if not isinstance(found, Mapping):
        raise TaskError(name, "it is needed, as an object")
    return found


def text(found: Mapping[str, Any], name: str, place: str, *, optional: bool = False) -> str:
    """A text without spaces around it; an optional one is empty where it is not there."""
    value = found.get(name)
    if value is None and optional:
        return ""
    if value is not None and not isinstance(value, str):
        raise TaskError(f"{place}{name}", "it is a text")
    if value is None or (not value.strip() and not optional):
        raise TaskError(f"{place}{name}", "a text is needed")
    return value.strip()


def plain_name(field: str, name: str) -> str:
    """The name of a task, a group, or what is named like them."""
    if not _NAME.fullmatch(name):
        raise TaskError(field, "a name has 1 to 127 letters, digits, '_' and '-'")
    return name


def topic(field: str, name: object) -> str:
    """The name of a topic."""
    if not isinstance(name, str) or not _TOPIC.fullmatch(name):
        raise TaskError(field, "a topic's name has 1 to 127 letters, digits, '_' and '-'")
    return name


def flag(found: Mapping[str, Any], name: str, place: str) -> bool:
    """True or false; false where it is not there."""
    value = found.get(name, False)
    if not isinstance(value, bool):
        raise TaskError(f"{place}{name}", "it is true or false")
    return value


def choice(found: Mapping[str, Any], name: str, choices: Sequence[str], place: str = "") -> str:
    """One of these; the first where it is not there."""
    value = found.get(name, choices[0])
    if value not in choices:
        raise TaskError(f"{place}{name}", f"it is {' or '.join(choices)}")
    return str(value)


def number(found: Mapping[str, Any], name: str, default: int, least: int, most: int, *, place: str) -> int:
    """A whole number within limits."""
    value = found.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise TaskError(f"{place}{name}", f"it is a whole number from {least:,} to {most:,}")
    return value
