"""Events on their way to messages: pattern, transform, fields, then delivery with retries and dead letters.

An event that the pattern does not let through is counted and forgotten. One that cannot be transformed, built or
delivered has failed, after the retries that its policy allows where another try may help:

    faults allowed      it goes to the dead-letter topic or queue if the task has one, with the reason; else it is
                        discarded. What comes after it goes on.
    faults prohibited   what had been built before it is delivered, and the task stops (`Stopped`).

Where the task itself is wrong, as when its topic is not there, no event has failed: the task ends (`Misset`).

Delivery is at least once: a batch that is repeated delivers again what it had delivered before.

While one request is answered the messages of the next are built. There is one at a time, so messages keep their order,
and what fails is dealt with when all before it has been answered.
"""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import StrEnum
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

from analytics.errors import AnalyticsError
from analytics.inflow import quick_json
from analytics.inflow.debezium import taken_key
from analytics.inflow.fields import MAX_BODY, EventRejected, Message
from analytics.inflow.pattern import Pattern
from analytics.inflow.transform import TOPIC_FIELD, Event, Transform, Transformed, TransformFailed, route

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


class Outgoing(NamedTuple):
    """A message, the topic that its event names (None: the task's), and the key of its order (empty: none)."""

    message: Message
    topic: str | None = None
    order: str = ""

    @property
    def size(self) -> int:
        """Bytes, about."""
        body, properties = self.message.body, self.message.properties
        return len(body) + (sum(map(len, properties)) + sum(map(len, properties.values())) if properties else 0)


class Builder(Protocol):
    """Makes messages of events."""

    def build(self, event: Mapping[str, Any], text: bytes | None = None) -> Message:
        """The message of an event, whose `text` is its JSON where that is known. Raises EventRejected."""


class Target(Protocol):
    """Where messages go. Safe in threads."""

    def send(self, messages: Sequence[Outgoing]) -> None:
        """Deliver all of them; those with the key of an order one after the other. Raises Undelivered and Misset."""

    def send_dead(self, body: bytes, properties: Mapping[str, str]) -> None:
        """Deliver an event that has failed to where dead letters go. Raises Undelivered and Misset."""


class Waits(Protocol):
    """What waits before a further try, and shows that it does. Used by one thread at a time."""

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


class _Piece(NamedTuple):
    """A message on its way, and the event that it was made of."""

    outgoing: Outgoing
    origin: bytes


class _Read(NamedTuple):
    """An event that passes, the text that it was read from, and whether that is its JSON as it will be delivered."""

    event: Event
    origin: bytes
    is_text: bool = False


class Delivery:
    """Delivers the batches of one task; a context manager, which ends when all of them are delivered."""

    def __init__(self, flow: Flow, target: Target, waits: Waits) -> None:
        self._flow, self._target, self._waits = flow, target, waits
        self._counts: Counter[str] = Counter()
        self._counting = threading.Lock()
        #: What is built and not sent yet, and its bytes.
        self._chunk: list[_Piece] = []
        self._size = 0
        self._sender: ThreadPoolExecutor | None = None
        #: The request that is being answered, and whether one has failed: what is behind it is not delivered then.
        self._sending: Future[None] | None = None
        self._has_failed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            if error is None:
                self.finish()
        finally:
            if self._sender is not None:
                self._sender.shutdown()

    @property
    def counts(self) -> Counter[str]:
        """What was counted until now, by the names of `Count`."""
        with self._counting:
            return self._counts.copy()

    def deliver(self, batch: Sequence[bytes]) -> None:
        """Take a batch of events, each JSON, and deliver it, up to what `finish` waits for.

        Raises Stopped and Misset, and what the waits raise, for events of this batch and of those before it.
        """
        self._count(Count.READ, len(batch))
        read, stopped = self._passing(batch)
        try:
            for piece in self._built(read):
                size = piece.outgoing.size
                if self._chunk and (len(self._chunk) >= _MOST_MESSAGES or self._size + size > _MOST_BYTES):
                    self._begin_sending()
                self._chunk.append(piece)
                self._size += size
        except Stopped:
            self.finish()
            raise
        if stopped is not None:
            self.finish()
            raise stopped

    def finish(self) -> None:
        """Wait until all is delivered. Raises what `deliver` does."""
        self._wait()
        self._send(self._taken())

    def _begin_sending(self) -> None:
        self._wait()
        if self._sender is None:
            self._sender = ThreadPoolExecutor(1, "deliver")
        self._sending = self._sender.submit(self._send, self._taken())

    def _taken(self) -> list[_Piece]:
        """What is built, which is no longer kept here."""
        chunk, self._chunk, self._size = self._chunk, [], 0
        return chunk

    def _wait(self) -> None:
        """Until no request is being answered. Raises what it has failed with."""
        sending, self._sending = self._sending, None
        if sending is None:
            return
        try:
            sending.result()
        except BaseException:
            self._has_failed = True
            self._taken()
            raise

    def _count(self, name: Count, number: int = 1) -> None:
        with self._counting:
            self._counts[name] += number

    # Made of events

    def _passing(self, batch: Sequence[bytes]) -> tuple[list[_Read], Stopped | None]:
        """The events that pass the pattern; up to one at which the task stops."""
        passing: list[_Read] = []
        filtered = 0
        stopped = None
        matches, is_plain = self._flow.pattern.matches, self._flow.records is None
        for content in batch:
            try:
                event, is_text = quick_json.read(content)
            except (ValueError, RecursionError):
                event, is_text = None, False
            found: Iterable[_Read]
            if is_plain and isinstance(event, dict) and FAULT not in event:
                found = (_Read(event, content, is_text),)
            else:
                try:
                    found = self._looked_into(event, content)
                except Stopped as error:
                    if self._has_failed:
                        raise
                    stopped = error
                    break
            for one in found:
                if matches(one.event):
                    passing.append(one)
                else:
                    filtered += 1
        if filtered:
            self._count(Count.FILTERED, filtered)
        return passing, stopped

    def _looked_into(self, event: Any, content: bytes) -> list[_Read]:
        """The events of what a text says; none where it has failed: it is no event, or says itself what is wrong."""
        if not isinstance(event, dict):
            self._refuse(content, "The event is no JSON object.")
            return []
        if FAULT in event and (fault := event.pop(FAULT)):
            self._refuse(text_of(event), str(fault))
            return []
        if self._flow.records is None:
            return [_Read(event, content)]
        try:
            return [_Read(one, content) for one in self._flow.records(event)]
        except EventRejected as error:
            self._refuse(content, error.user_message)
            return []

    def _built(self, read: list[_Read]) -> Iterator[_Piece]:
        """The messages of the events, in their order; what fails is dealt with on the way."""
        build, is_plain = self._flow.builder.build, self._flow.records is None and not self._flow.is_ordered
        for event, origin, is_text in self._transformed(read):
            try:
                if is_plain and TOPIC_FIELD not in event:
                    yield _Piece(Outgoing(build(event, origin if is_text else None)), origin)
                    continue
                topic, found = route(event)
                if topic is not None and topic not in self._flow.routes:
                    raise TransformFailed(f"The event names the topic {topic}, which is none of the task's routes.")
                key = None if self._flow.records is None else taken_key(found)
                message = build(found, origin if is_text and found is event else None)
                if key is not None and message.key is None:
                    message = message._replace(key=key)
                yield _Piece(Outgoing(message, topic, self._order(found, key)), origin)
            except (EventRejected, TransformFailed) as error:
                self._refuse(origin, error.user_message)

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

    def _transformed(self, read: list[_Read]) -> Iterable[_Read]:
        return read if self._flow.transform is None else self._made(self._flow.transform, read)

    def _made(self, transform: Transform, read: list[_Read]) -> Iterator[_Read]:
        events, origins = [one.event for one in read], [one.origin for one in read]
        while events:
            try:
                made = self._with_retries(transform, events)
            except TransformFailed as error:
                tries = 1 + self._flow.retry.retries if error.retryable else 1
                failed = range(len(events)) if error.index is None else [error.index]
                for place in failed:
                    self._refuse(origins[place], error.user_message, tries)
                events = [event for place, event in enumerate(events) if place not in failed]
                origins = [origin for place, origin in enumerate(origins) if place not in failed]
                continue
            for index, reason in sorted(made.failed.items()):
                self._refuse(origins[index], reason, 1)
            self._count(Count.TRANSFORMED, len(made.events))
            places = {str(event["id"]): place for place, event in enumerate(events) if "id" in event}
            for event, origin in zip(made.events, made.origins, strict=True):
                found = places.get(str(event.get("id"))) if origin is None else origin
                yield _Read(event, text_of(event) if found is None else origins[found])
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
                    self._wait()
                    self._take(pause, tries, error.user_message)
        finally:
            if tries > 1:
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
                    self._count(Count.DELIVERED, len(error.done))
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
                    self._count(Count.DELIVERED, len(chunk))
                    return
        finally:
            self._waits.end()
        if not chunk:
            return
        half = len(chunk) // 2
        for part in (chunk[:half], chunk[half:]):
            self._send(part)

    def _take(self, pause: float, tries: int, reason: str) -> None:
        self._count(Count.RETRIED)
        self._waits.take(pause, tries, reason)

    def _refuse(self, origin: bytes, reason: str, tries: int = 0) -> None:
        """An event cannot be made a message. Raises what `_fail` does, and what has failed before it."""
        self._wait()
        self._fail(origin, reason, tries)

    def _fail(self, origin: bytes, reason: str, tries: int) -> None:
        """An event has failed for good. Raises Stopped where no faults are allowed, or its dead letter is not taken."""
        self._count(Count.FAILED)
        if not self._flow.allows_faults:
            raise Stopped(f"An event could not be delivered, and the task allows no faults: {reason}")
        if not self._flow.has_dead_letters:
            self._count(Count.DISCARDED)
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
        self._count(Count.DEAD)

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
