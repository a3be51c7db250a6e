"""Transforms: a batch of events becomes another batch of events, before it is delivered.

There are two kinds, which do what the third step of a task offers: split an event into several, map it to another form,
enrich it, drop it, or send it to a topic of its own.

    Expression     JMESPath or JSONata over each event, in a process of its own (`expressions`)
    HttpFunction   a request with the batch to a function of the task's owner (`http_function`)

An event that is to go to another topic than the task's has the topic's name in the field `gantrytopic`. By its form
that is an extension attribute of CloudEvents, so that an event that has it is still one. It is not delivered.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from analytics.errors import AnalyticsError

Event = dict[str, Any]
"""A JSON object."""
TOPIC_FIELD = "gantrytopic"
#: What one batch may become: bytes of JSON, events, and objects and arrays in them, each of which takes memory.
MOST_BYTES, MOST_EVENTS, MOST_PARTS = 32 << 20, 100_000, 2_000_000
_TOPIC = re.compile(r"[A-Za-z0-9_-]{1,127}")
_LONGEST_SHOWN = 40
_KINDS = {
    dict: "an object",
    list: "an array",
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
}
_NOTHING = object()


class TransformFailed(AnalyticsError):  # noqa: N818
    """A batch could not be transformed; the message is a sentence for the task's owner.

    `retryable` tells whether the same batch may be transformed later. `index` is the event of the batch that is to
    blame, where that is known: the others may be given again without it.
    """

    def __init__(self, message: str, *, retryable: bool = False, index: int | None = None) -> None:
        super().__init__(message)
        self.retryable, self.index = retryable, index


@dataclass(slots=True)
class Transformed:
    """What a batch has become."""

    events: list[Event] = field(default_factory=list)
    #: For each of the events, of which event of the batch it was made, counted from 0; None where that is not known.
    origins: list[int | None] = field(default_factory=list)
    #: Events of the batch that could not be transformed and are in no other way part of the result; why, as a sentence.
    failed: dict[int, str] = field(default_factory=dict)
    _bytes: int = 0
    _parts: int = 0

    def add(self, content: bytes, origin: int | None, who: str) -> None:
        """Take over what `who` has made: of one event JSON of an object, an array of objects or null, else an array.

        Raises TransformFailed, with the event as its index if what is wrong is about that event alone.
        """
        self._bytes += len(content)
        self._parts += content.count(b"{") + content.count(b"[")
        if self._bytes > MOST_BYTES or self._parts > MOST_PARTS:
            raise TransformFailed(
                f"{_begun(who)} made more than {MOST_BYTES >> 20} MiB of JSON, or {MOST_PARTS:,} objects and arrays, of"
                " the batch; a smaller batch may be what it takes."
            )
        try:
            made = json.loads(content)
        except (ValueError, RecursionError) as error:  # no JSON, no UTF-8, a number of thousands of digits
            raise TransformFailed(f"What {who} made is no JSON: {_first_line(error)}.", index=origin) from error
        found = made if isinstance(made, list) else [made]
        wrong = next((one for one in found if not isinstance(one, dict)), _NOTHING)
        if origin is None:
            allowed, is_allowed = "an array of objects is", isinstance(made, list) and wrong is _NOTHING
        else:
            allowed, is_allowed = "an object, an array of objects or null is", made is None or wrong is _NOTHING
        if not is_allowed:
            what = f"an array with {_kind(wrong)}" if isinstance(made, list) else _kind(made)
            raise TransformFailed(f"{_begun(who)} made {what}: {allowed} allowed.", index=origin)
        events = [] if made is None else found
        if len(self.events) + len(events) > MOST_EVENTS:
            raise TransformFailed(f"{_begun(who)} made more than {MOST_EVENTS:,} events of the batch.")
        self.events += events
        self.origins += [origin] * len(events)


class Transform(Protocol):
    """A transform. Safe in threads."""

    def apply(self, events: Sequence[Event]) -> Transformed:
        """What a batch becomes. Raises TransformFailed."""

    def close(self) -> None:
        """End what belongs to it; the next call begins it anew."""


def route(event: Event) -> tuple[str | None, Event]:
    """The topic that a transformed event names, None for the task's own, and the event as it is delivered.

    Raises TransformFailed for a name that no topic has.
    """
    if TOPIC_FIELD not in event:
        return None, event
    topic = event[TOPIC_FIELD]
    rest = {name: value for name, value in event.items() if name != TOPIC_FIELD}
    if topic is None:
        return None, rest
    if not isinstance(topic, str) or not _TOPIC.fullmatch(topic):
        shown = json.dumps(topic)[:_LONGEST_SHOWN]
        raise TransformFailed(
            f"The event names the topic {shown} in {TOPIC_FIELD}: 1 to 127 letters, digits, '_' and '-' are allowed."
        )
    return topic, rest


def pieces(events: Sequence[Event], most_bytes: int) -> Iterator[tuple[int, list[bytes]]]:
    """A batch as JSON, so many bytes at a time or one event, and which event each piece begins with."""
    begin, size = 0, 0
    piece: list[bytes] = []
    for place, event in enumerate(events):
        # Not orjson: numbers of more than 64 bits are passed on as they are.
        content = json.dumps(event, separators=(",", ":"), allow_nan=False).encode()
        if piece and size + len(content) > most_bytes:
            yield begin, piece
            begin, size, piece = place, 0, []
        piece.append(content)
        size += len(content)
    if piece:
        yield begin, piece


def _begun(words: str) -> str:
    return words[0].upper() + words[1:]


def _kind(value: object) -> str:
    return _KINDS.get(type(value), "null")


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:120] or type(error).__name__
