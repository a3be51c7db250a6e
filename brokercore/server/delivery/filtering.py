"""Which stored frames a subscription lets through, decided on the bytes: a frame is never decoded whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from brokercore.protocol.errors import MessageFormatError, SubscriptionError
from brokercore.protocol.filters import parse_tags
from brokercore.protocol.properties import decode_properties
from brokercore.protocol.sql92 import Filter, Look, parse_sql92
from brokercore.server.connections.fairness import Work

_BODY_SIZE_AT, _BODY_AT = 84, 88
_V1_LAST_BYTE = 0xA7


class Wanted(Protocol):
    """What one request wants."""

    def passes(self, frame: bytes, work: Work) -> bool | None:
        """Whether a stored frame passes; None when the slice ended first: ask again with the same frame."""


class _WantedTags:
    def __init__(self, tags: frozenset[bytes]) -> None:
        self._tags = tags

    def passes(self, frame: bytes, _work: Work) -> bool:
        return tag_of(frame) in self._tags


class _WantedProperties:
    def __init__(self, passes: Filter) -> None:
        self._filter = passes
        self._frame: bytes | None = None
        self._look = Look({})

    def passes(self, frame: bytes, work: Work) -> bool | None:
        if frame is not self._frame:
            self._frame, self._look = frame, Look(_properties(frame))
        outcome = self._filter.go_on(self._look, work.deadline)
        if outcome is not None:
            self._frame = None
        return outcome


class Sieve:
    """What a filter lets through of frames that were read, looked at in as many slices as it takes.

    It ends with the frames, when it has so many of them, or before one that would make them more than so many bytes.
    """

    __slots__ = ("_at", "_count", "_found", "_most_bytes", "_wanted", "following", "frames", "size")

    def __init__(self, wanted: Wanted, found: Sequence[tuple[int, bytes]], first: int, count: int, most_bytes: int):
        self._wanted, self._found, self._at = wanted, found, 0
        self._count, self._most_bytes = count, most_bytes
        self.frames: list[bytes] = []
        self.size = 0
        self.following = first
        """The offset behind the last frame that was looked at."""

    def go_on(self, work: Work) -> bool:
        """Look at more of them; False when the slice ended first."""
        while self._at < len(self._found):
            if work.is_over:
                return False
            offset, frame = self._found[self._at]
            passes = self._wanted.passes(frame, work)
            if passes is None:
                return False
            if passes:
                if self.frames and self.size + len(frame) > self._most_bytes:
                    break
                self.frames.append(frame)
                self.size += len(frame)
            self.following = offset + 1
            self._at += 1
            if len(self.frames) >= self._count:
                break
        return True


def wanted_frames(kind: str, expression: str | None) -> Wanted | None:
    """The test of frames for an expression of type TAG or SQL92, for one request; None lets everything through.

    Raises SubscriptionError for an expression that cannot be read, and for another type.
    """
    if kind == "SQL92":
        return _WantedProperties(parse_sql92(expression or ""))
    if kind not in ("TAG", ""):
        raise SubscriptionError(f"the broker filters by TAG and SQL92; {kind} expressions are not supported")
    tag_filter = parse_tags(expression)
    if tag_filter.everything:
        return None
    return _WantedTags(frozenset(tag.encode() for tag in tag_filter.tags))


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
