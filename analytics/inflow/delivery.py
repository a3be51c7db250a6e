"""Events on their way to messages: pattern, transform, fields, then delivery with retries and dead letters.

An event that the pattern does not let through is counted and forgotten. One that cannot be transformed, built or
delivered has failed, after the retries that its policy allows where another try may help:

    faults allowed      it goes to the dead-letter topic if the task has one, with the reason in its properties; else it
                        is discarded. What comes after it goes on.
    faults prohibited   nothing of the batch behind it is delivered, and the task stops (`Stopped`).

Delivery is at least once: a batch that is repeated delivers again what it had delivered before.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from analytics.errors import AnalyticsError
from analytics.inflow.fields import EventRejected, Fields, Message
from analytics.inflow.pattern import Pattern
from analytics.inflow.transform import Event, Transform, Transformed, TransformFailed, route

#: Messages and bytes of them that are delivered in one request where their order does not matter.
_MOST_MESSAGES, _MOST_BYTES = 500, 1 << 20
#: Of a reason in the properties of a dead letter, in characters.
_LONGEST_REASON = 1000
REASON, TASK, TRIES = "INFLOW_REASON", "INFLOW_TASK", "INFLOW_TRIES"
"""Properties of a dead letter: why it failed, the task, and how often its delivery was tried."""


class RetryPolicy(StrEnum):
    """When a delivery that failed is tried again."""

    BACKOFF = "backoff"
    EXPONENTIAL = "exponential"

    def pauses_s(self, draw: Callable[[float, float], float] = random.uniform) -> Iterator[float]:
        """Seconds before each further try: 3 random ones of 10 to 20, or 176 that grow from 1 to 512."""
        if self is RetryPolicy.BACKOFF:
            for _ in range(3):
                yield draw(10, 20)
        else:
            for number in range(176):
                yield float(min(1 << min(number, 9), 512))


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
    """Messages were not taken. `may_pass` tells whether another try may help; the message is a sentence."""

    def __init__(self, message: str, *, may_pass: bool) -> None:
        super().__init__(message)
        self.may_pass = may_pass


class Stopped(AnalyticsError):  # noqa: N818
    """An event failed, and the task allows no faults: it stops until somebody starts it again."""


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


class Target(Protocol):
    """Where messages go. Safe in threads."""

    def send(self, messages: Sequence[Outgoing]) -> None:
        """Deliver all of them; those with the key of an order one after the other. Raises Undelivered."""

    def send_dead(self, body: bytes, properties: Mapping[str, str]) -> None:
        """Deliver an event to the dead-letter topic. Raises Undelivered."""


class Wait(Protocol):
    """Waits before a further try."""

    def __call__(self, seconds: float, tries: int, reason: str) -> None:
        """After so many tries. Raises what ends the task."""


@dataclass(frozen=True)
class Flow:
    """What a task does with its events."""

    task: str
    fields: Fields
    pattern: Pattern = field(default_factory=lambda: Pattern.compile(""))
    transform: Transform | None = None
    retry: RetryPolicy = RetryPolicy.BACKOFF
    allows_faults: bool = True
    has_dead_letters: bool = False
    #: Whether messages of one primary key keep their order.
    is_ordered: bool = False


@dataclass(slots=True)
class _Piece:
    """A message on its way, and the event that it was made of."""

    outgoing: Outgoing
    origin: bytes


class Delivery:
    """Delivers the batches of one task."""

    def __init__(self, flow: Flow, target: Target, wait: Wait) -> None:
        self._flow, self._target, self._wait = flow, target, wait
        self.counts: Counter[str] = Counter()

    def deliver(self, batch: Sequence[bytes]) -> None:
        """Deliver a batch of events, each the JSON of an object. Raises Stopped, and what the wait raises."""
        self.counts[Count.READ] += len(batch)
        events: list[Event] = []
        origins: list[bytes] = []
        for content in batch:
            event = json.loads(content)
            if self._flow.pattern.matches(event):
                events.append(event)
                origins.append(content)
        self.counts[Count.FILTERED] += len(batch) - len(events)
        for chunk in self._chunks(self._built(events, origins)):
            self._send(chunk)

    # Made of events

    def _built(self, events: list[Event], origins: list[bytes]) -> Iterator[_Piece]:
        """The messages of the events, in their order; what fails is dealt with on the way."""
        for event, origin in self._transformed(events, origins):
            try:
                topic, found = route(event)
                yield _Piece(Outgoing(self._flow.fields.build(found), topic, self._order(found)), origin)
            except (EventRejected, TransformFailed) as error:
                self._fail(origin, error.user_message, 0)

    def _order(self, event: Event) -> str:
        """The key whose messages keep their order: the table and its primary key, else the subject."""
        if not self._flow.is_ordered:
            return ""
        data = event.get("data")
        key = data.get("primaryKey") if isinstance(data, dict) else None
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
                if error.index is None:
                    for origin in origins:
                        self._fail(origin, error.user_message, 1)
                    return
                blamed = origins[error.index]
                events = events[: error.index] + events[error.index + 1 :]
                origins = origins[: error.index] + origins[error.index + 1 :]
                self._fail(blamed, error.user_message, 1)
                continue
            for index, reason in sorted(made.failed.items()):
                self._fail(origins[index], reason, 1)
            self.counts[Count.TRANSFORMED] += len(made.events)
            whole = b"[" + b",".join(origins) + b"]"
            for event, source in zip(made.events, made.origins, strict=True):
                yield event, whole if source is None else origins[source]
            return

    def _with_retries(self, transform: Transform, events: list[Event]) -> Transformed:
        for tries, pause in enumerate(self._flow.retry.pauses_s(), 1):
            try:
                return transform.apply(events)
            except TransformFailed as error:
                if not error.retryable:
                    raise
                self.counts[Count.RETRIED] += 1
                self._wait(pause, tries, error.user_message)
        return transform.apply(events)

    # Delivered

    def _chunks(self, pieces: Iterator[_Piece]) -> Iterator[list[_Piece]]:
        chunk: list[_Piece] = []
        size = 0
        for piece in pieces:
            if chunk and (len(chunk) >= _MOST_MESSAGES or size + piece.outgoing.size > _MOST_BYTES):
                yield chunk
                chunk, size = [], 0
            chunk.append(piece)
            size += piece.outgoing.size
        if chunk:
            yield chunk

    def _send(self, chunk: list[_Piece]) -> None:
        """Deliver a chunk; refused for good, one message after the other, so that only a bad one fails."""
        try:
            self._insist(lambda: self._target.send([piece.outgoing for piece in chunk]))
        except Undelivered as error:
            if len(chunk) == 1 or error.may_pass:
                for piece in chunk:
                    self._fail(piece.origin, error.user_message, self._tries(error))
                return
            for piece in chunk:
                self._send([piece])
        else:
            self.counts[Count.DELIVERED] += len(chunk)

    def _insist(self, send: Callable[[], None]) -> None:
        for tries, pause in enumerate(self._flow.retry.pauses_s(), 1):
            try:
                send()
            except Undelivered as error:
                if not error.may_pass:
                    raise
                self.counts[Count.RETRIED] += 1
                self._wait(pause, tries, error.user_message)
            else:
                return
        send()

    def _tries(self, error: Undelivered) -> int:
        return 1 + sum(1 for _ in self._flow.retry.pauses_s()) if error.may_pass else 1

    def _fail(self, origin: bytes, reason: str, tries: int) -> None:
        """An event has failed for good. Raises Stopped where no faults are allowed."""
        self.counts[Count.FAILED] += 1
        if not self._flow.allows_faults:
            raise Stopped(f"An event could not be delivered, and the task allows no faults: {reason}")
        if not self._flow.has_dead_letters:
            self.counts[Count.DISCARDED] += 1
            return
        properties = {TASK: self._flow.task, REASON: _plain(reason), TRIES: str(tries)}
        try:
            self._insist(lambda: self._target.send_dead(origin, properties))
        except Undelivered as error:
            raise Stopped(
                f"A dead letter could not be kept: {error.user_message} Its event failed: {reason}"
            ) from error
        self.counts[Count.DEAD] += 1


def _plain(reason: str) -> str:
    """A reason as a property of a message: no control characters, and not longer than one may be."""
    return "".join(one if one.isprintable() else " " for one in reason)[:_LONGEST_REASON]


def text_of(event: Mapping[str, Any]) -> bytes:
    """An event as a log has it: compact JSON."""
    return json.dumps(event, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
