"""Tag expressions: `*`, `tagA`, `tagA || tagB`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from brokercore.protocol.errors import SubscriptionError
from brokercore.protocol.ids import java_string_hash

EVERYTHING = "*"

MAX_EXPRESSION = 16 * 1024
"""Longest expression in characters."""


@dataclass(frozen=True, slots=True)
class TagFilter:
    """What a tag expression lets through. A broker compares `codes`, a client compares the `tags` themselves."""

    everything: bool
    tags: frozenset[str] = frozenset()
    codes: frozenset[int] = frozenset()

    def matches(self, tag: str) -> bool:
        """True when a message with this tag ("" for none) passes."""
        return self.everything or tag in self.tags

    def matches_code(self, code: int) -> bool:
        """True when a message with this tag code (0 for none) passes, hash collisions included."""
        return self.everything or code in self.codes


@lru_cache(maxsize=256)
def parse_tags(expression: str | None) -> TagFilter:
    """Read a tag expression; None, "" and "*" let everything through. Raises SubscriptionError."""
    if expression is None or expression in {"", EVERYTHING}:
        return TagFilter(everything=True)
    if len(expression) > MAX_EXPRESSION:
        raise SubscriptionError(f"the tags have {len(expression)} characters; {MAX_EXPRESSION} are allowed")
    tags = frozenset(tag for part in expression.split("||") if (tag := part.strip()))
    if not tags:
        raise SubscriptionError(f"the tag expression {expression!r} names no tag")
    return TagFilter(False, tags, frozenset(java_string_hash(tag) for tag in tags))


def tag_code(tag: str | None) -> int:
    """The code a broker filters by: the hash of the whole TAGS property, 0 without one."""
    return java_string_hash(tag) if tag else 0
