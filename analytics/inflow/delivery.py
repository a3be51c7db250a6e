"""Events on their way to messages: pattern, transform, fields, then delivery with retries and dead letters.

An event that the pattern does not let through is counted and forgotten. One that cannot be transformed, built or
delivered has failed, after the retries that its policy allows where another try may help:

    faults allowed      it goes to the dead-letter topic or queue if the task has one, with the reason; else it is
                        discarded. What comes after it goes on.
    faults prohibited   what had been built before it is delivered, and the task stops (`Stopped`).

Where the task itself is wrong, as when its topic is not there, no event has failed: the task ends (`Misset`).

Delivery is at least once: a batch that is repeated delivers again what it had delivered before.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Protocol

from analytics.errors import AnalyticsError
from analytics.inflow import quick_json
from analytics.inflow.debezium import taken_key
from analytics.inflow.fields import MAX_BODY, EventRejected, Message
from analytics.inflow.pattern import Pattern
from analytics.inflow.transform import Event, Transform, Transformed, TransformFailed, route

LONGEST_PAUSE_S = 512.0
"""Before a further try."""
#: Messages and bytes of them that are delivered in one request where their order does not matter.
_MOST_MESSAGES, _MOST_BYTES = 500, 1 << 20
#: Of a reason in the properties of a dead letter, in characters.
_LONGEST_REASON = 1000
#: Of an attribute of an event of which a dead letter has no more, in characters.
_LONGEST_ATTRIBUTE = 1024
#: Bytes of an event that fits into a dead letter: beside it there are the properties.
_MOST_KEPT = MAX_BODY - (64 << 10)
REASON, TASK, TRIES, CUT = "INFLOW_REASON", "INFLOW_TASK", "INFLOW_TRIES", "INFLOW_CUT_BYTES"
"""Properties of a dead letter: why it failed, the task, how often it was tried, and how many bytes the event had of
which only the attributes are in the dead letter, since no message holds all of it."""

FAULT = "gantryfault"
"""The attribute of an event that says itself, in a sentence, why it cannot be delivered; its dead letter lacks it."""
PARTITION_KEY = "partitionkey"
"""The attribute that names what keeps its order (the partitioning extension of CloudEvents)."""


class RetryPolicy(StrEnum):
    """When a delivery that failed is tried again."""

    BACKOFF = "backoff"
    EXPONENTIAL = "exponential"

    @property
    def retries(self) -> int:
        """How many further tries there are."""
        return 3 if self is RetryPolicy.BACKOFF else 176

    def pauses_s(self, draw: Callable[[float, float], float] = random.uniform) -> Iterator[float]:
        """Seconds before each further try: random ones of 10 to 20, or 1, 2, 4, 8 … 256 and then always 512."""
        for number in range(self.retries):
            yield draw(10, 20) if self is RetryPolicy.BACKOFF else min(float(1 << number), LONGEST_PAUSE_S)


class Count(StrEnum):
    """What is counted of a task's events."""

    READ = "eventsRead"
    FILTERED = "eventsFiltered"
    TRANSFORMED = "eventsTransformed"
    DELIVERED = "messagesDelivered"
    RETRIED = "deliveriesRetried"
    FAILED = "eventsFailed"
    DEAD = "deadLetters"
    DISCARDED = "eventsDiscarded"


class Undelivered(AnalyticsError):  # noqa: N818
    """Messages were not taken; the message is a sentence.

    `done` tells which of them were taken all the same, by their places, and `refused` which will never be, each with
    the reason. Of the others `may_pass` tells whether another try may help, and `pause_s` how long to wait for it.
    """

    def __init__(
        self,
        message: str,
        *,
        may_pass: bool,
        done: Collection[int] = (),
        refused: Mapping[int, str] | None = None,
        pause_s: float = 0.0,
    ) -> None:
        super().__init__(message)
        self.may_pass, self.done = may_pass, frozenset(done)
        self.refused, self.pause_s = dict(refused or {}), pause_s


class Stopped(AnalyticsError):  # noqa: N818
    """An event failed, and the task allows no faults: it stops until somebody starts it again."""


class Misset(AnalyticsError):  # noqa: N818
    """What the task is set to cannot be, such as a topic that is not there or that it may not write to."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message, the topic that its event names (None: the task's), and the key of its order (empty: none)."""

    message: Message
    topic: str | None = None
    order: str = ""

    @property
    def size(self) -> int:
        """Bytes, about."""
        return len(self.message.body) + sum(len(name) + len(value) for name, value in self.message.properties.items())


class Builder(Protocol):
    """Makes messages of events."""

    def build(self, event: Mapping[str, Any]) -> Message:
        """The message of an event. Raises EventRejected."""


class Target(Protocol):
    """Where messages go. Safe in threads."""

    def send(self, messages: Sequence[Outgoing]) -> None:
        """Deliver all of them; those with the key of an order one after the other. Raises Undelivered and Misset."""

    def send_dead(self, body: bytes, properties: Mapping[str, str]) -> None:
        """Deliver an event that has failed to where dead letters go. Raises Undelivered and Misset."""


class Waits(Protocol):
    """What waits before a further try, and shows that it does."""

    def take(self, seconds: float, tries: int, reason: str) -> None:
        """Wait, after so many tries. Raises what ends the task."""

    def end(self) -> None:
        """There will be no further try, whatever the last one came to; also where none was waited for."""


@dataclass(frozen=True)
class Flow:
    """What a task does with its events."""

    task: str
    builder: Builder
    pattern: Pattern = field(default_factory=lambda: Pattern.compile(""))
    transform: Transform | None = None
    retry: RetryPolicy = RetryPolicy.BACKOFF
    allows_faults: bool = True
    has_dead_letters: bool = False
    #: Whether messages of one primary key keep their order.
    is_ordered: bool = False
    #: The topics that a transformed event may name.
    routes: frozenset[str] = frozenset()
    #: What makes of an event of the source those that the task is about, where they have another form; it raises
    #: EventRejected. Each may have the key of its message, if it has none of its own, in the field KEY (`debezium`).
    records: Callable[[Event], list[Event]] | None = None


@dataclass(frozen=True, slots=True)
class _Piece:
    """A message on its way, and the event that it was made of."""

    outgoing: Outgoing
    origin: bytes


class Delivery:
    """Delivers the batches of one task."""

    def __init__(self, flow: Flow, target: Target, waits: Waits) -> None:
        self._flow, self._target, self._waits = flow, target, waits
        self.counts: Counter[str] = Counter()

    def deliver(self, batch: Sequence[bytes]) -> None:
        """Deliver a batch of events, each JSON. Raises Stopped and Misset, and what the waits raise."""
        self.counts[Count.READ] += len(batch)
        chunk: list[_Piece] = []
        size = 0
        events, origins, stopped = self._passing(batch)
        try:
            for piece in self._built(events, origins):
                if chunk and (len(chunk) >= _MOST_MESSAGES or size + piece.outgoing.size > _MOST_BYTES):
                    full, chunk, size = chunk, [], 0
                    self._send(full)
                chunk.append(piece)
                size += piece.outgoing.size
        except Stopped:
            self._send(chunk)
            raise
        self._send(chunk)
        if stopped is not None:
            raise stopped

    # Made of events

    def _passing(self, batch: Sequence[bytes]) -> tuple[list[Event], list[bytes], Stopped | None]:
        """The events that pass the pattern, and their texts; up to one at which the task stops."""
        events: list[Event] = []
        origins: list[bytes] = []
        for content in batch:
            try:
                event = self._read(content)
                found = [] if event is None else self._in_its_form(event, content)
            except Stopped as stopped:
                return events, origins, stopped
            for one in found:
                if self._flow.pattern.matches(one):
                    events.append(one)
                    origins.append(content)
                else:
                    self.counts[Count.FILTERED] += 1
        return events, origins, None

    def _read(self, content: bytes) -> Event | None:
        """The event of a text; None for one that has failed: it is none, or says itself what is wrong with it."""
        try:
            event = quick_json.loads(content)
        except (ValueError, RecursionError):
            event = None
        if not isinstance(event, dict):
            self._fail(content, "The event is no JSON object.", 0)
            return None
        if fault := event.pop(FAULT, None):
            self._fail(text_of(event), str(fault), 0)
            return None
        return event

    def _in_its_form(self, event: Event, origin: bytes) -> list[Event]:
        if self._flow.records is None:
            return [event]
        try:
            return self._flow.records(event)
        except EventRejected as error:
            self._fail(origin, error.user_message, 0)
            return []

    def _built(self, events: list[Event], origins: list[bytes]) -> Iterator[_Piece]:
        """The messages of the events, in their order; what fails is dealt with on the way."""
        for event, origin in self._transformed(events, origins):
            try:
                topic, found = route(event)
                if topic is not None and topic not in self._flow.routes:
                    raise TransformFailed(f"The event names the topic {topic}, which is none of the task's routes.")
                key = None if self._flow.records is None else taken_key(found)
                message = self._flow.builder.build(found)
                if key is not None and message.key is None:
                    message = replace(message, key=key)
                yield _Piece(Outgoing(message, topic, self._order(found, key)), origin)
            except (EventRejected, TransformFailed) as error:
                self._fail(origin, error.user_message, 0)

    def _order(self, event: Event, record_key: str | None) -> str:
        """The key whose messages keep their order: that of the event, of its record or row, else the subject."""
        if not self._flow.is_ordered:
            return ""
        if record_key is not None:
            return record_key
        data = event.get("data")
        key = event.get(PARTITION_KEY) or (data.get("primaryKey") if isinstance(data, dict) else None)
        subject = str(event.get("subject") or "")
        return f"{subject} {json.dumps(key, sort_keys=True)}" if key else subject or "all"

    def _transformed(self, events: list[Event], origins: list[bytes]) -> Iterator[tuple[Event, bytes]]:
        if self._flow.transform is None:
            yield from zip(events, origins, strict=True)
            return
        while events:
            try:
                made = self._with_retries(self._flow.transform, events)
            except TransformFailed as error:
                tries = 1 + self._flow.retry.retries if error.retryable else 1
                failed = range(len(events)) if error.index is None else [error.index]
                for place in failed:
                    self._fail(origins[place], error.user_message, tries)
                events = [event for place, event in enumerate(events) if place not in failed]
                origins = [origin for place, origin in enumerate(origins) if place not in failed]
                continue
            for index, reason in sorted(made.failed.items()):
                self._fail(origins[index], reason, 1)
            self.counts[Count.TRANSFORMED] += len(made.events)
            places = {str(event["id"]): place for place, event in enumerate(events) if "id" in event}
            for event, origin in zip(made.events, made.origins, strict=True):
                found = places.get(str(event.get("id"))) if origin is None else origin
                yield event, text_of(event) if found is None else origins[found]
            return

    def _with_retries(self, transform: Transform, events: list[Event]) -> Transformed:
        pauses = self._flow.retry.pauses_s()
        tries = 0
        try:
            while True:
                tries += 1
                try:
                    return transform.apply(events)
                except TransformFailed as error:
                    if not error.retryable or (pause := next(pauses, None)) is None:
                        raise
                    self._take(pause, tries, error.user_message)
        finally:
            self._waits.end()

    # Delivered

    def _send(self, chunk: list[_Piece]) -> None:
        """Deliver a chunk. What is refused for good is halved until only what is wrong of it fails."""
        pauses = self._flow.retry.pauses_s()
        tries = 0
        try:
            while chunk:
                tries += 1
                try:
                    self._target.send([piece.outgoing for piece in chunk])
                except Undelivered as error:
                    self.counts[Count.DELIVERED] += len(error.done)
                    for place, reason in sorted(error.refused.items()):
                        self._fail(chunk[place].origin, reason, tries)
                    settled = error.done | error.refused.keys()
                    chunk = [piece for place, piece in enumerate(chunk) if place not in settled]
                    if error.refused and not error.may_pass:
                        continue  # the others were behind these
                    if not error.may_pass and len(chunk) > 1:
                        break
                    if not error.may_pass or (pause := next(pauses, None)) is None:
                        self._waits.end()
                        for piece in chunk:
                            self._fail(piece.origin, error.user_message, tries)
                        return
                    self._take(_pause(pause, error), tries, error.user_message)
                else:
                    self.counts[Count.DELIVERED] += len(chunk)
                    return
        finally:
            self._waits.end()
        if not chunk:
            return
        half = len(chunk) // 2
        for part in (chunk[:half], chunk[half:]):
            self._send(part)

    def _take(self, pause: float, tries: int, reason: str) -> None:
        self.counts[Count.RETRIED] += 1
        self._waits.take(pause, tries, reason)

    def _fail(self, origin: bytes, reason: str, tries: int) -> None:
        """An event has failed for good. Raises Stopped where no faults are allowed, or its dead letter is not taken."""
        self.counts[Count.FAILED] += 1
        if not self._flow.allows_faults:
            raise Stopped(f"An event could not be delivered, and the task allows no faults: {reason}")
        if not self._flow.has_dead_letters:
            self.counts[Count.DISCARDED] += 1
            return
        properties = {TASK: self._flow.task, REASON: _plain(reason), TRIES: str(tries)}
        if len(origin) > _MOST_KEPT:
            properties[CUT] = str(len(origin))
            origin = attributes_of(origin)
        try:
            self._bury(origin, properties)
        except Undelivered as error:
            raise Stopped(
                f"A dead letter could not be kept: {error.user_message} Its event had failed: {reason}"
            ) from error
        self.counts[Count.DEAD] += 1

    def _bury(self, body: bytes, properties: Mapping[str, str]) -> None:
        pauses = self._flow.retry.pauses_s()
        tries = 0
        try:
            while True:
                tries += 1
                try:
                    self._target.send_dead(body, properties)
                    return
                except Undelivered as error:
                    if not error.may_pass or (pause := next(pauses, None)) is None:
                        raise
                    self._take(_pause(pause, error), tries, error.user_message)
        finally:
            self._waits.end()


def _pause(pause_s: float, error: Undelivered) -> float:
    """What the policy says, or longer where the other side asks for it; no longer than any pause of a policy."""
    return max(pause_s, min(error.pause_s, LONGEST_PAUSE_S))


def attributes_of(event: bytes, most: int = _MOST_KEPT) -> bytes:
    """Of an event that no message can hold, what tells which one it is; of too much of that the id."""
    try:
        found = json.loads(event)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        return event[:_LONGEST_REASON]
    told = {name: value for name, value in found.items() if isinstance(value, str) and len(value) <= _LONGEST_ATTRIBUTE}
    text = text_of(told)
    return text if len(text) <= most else text_of({"id": told.get("id", "")})


def _plain(reason: str) -> str:
    """A reason as a property of a message: no control characters, and not longer than one may be."""
    return "".join(one if one.isprintable() else " " for one in reason)[:_LONGEST_REASON]


def text_of(event: Mapping[str, Any]) -> bytes:
    """An event as a log has it: compact JSON."""
    return json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")
