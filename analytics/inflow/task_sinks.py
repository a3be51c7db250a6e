"""Where the messages of a task go: the part `sink` of its document, by its `kind`; and its dead letters.

    topic       without a kind, too: `topic` of RocketMQ, fields (`analytics.inflow.fields`; the whole event is the body
                without them), `routes` (the other topics that a transformed event may name; none), and `ordered`,
                whether changes of one primary key keep their order. Where it is another account's: `endpoint`,
                `instanceID`, `accessId`, `accessKey` (as `${secret_values.name}`), `producerGroup`
    queue       `queue` of SMQ, `body` as the fields build it, in Base64 with `base64`; `priority` (1 to 16; 8) and
                `delaySeconds` (0 to 604,800; the queue's own). Where it is another account's: `endpoint`,
                `accessKeyId`, `accessKeySecret` (as `${secret_values.name}`)
    http        `url` of an endpoint, `body` as the fields build it, and how a request is made of it: `mode`
                (structured, binary or body; `analytics.inflow.cloud_events`), `contentType`, `headers` (values may have
                `${secret_values.name}`), `batch` (events of a request at most, 1 to 500; 1), `timeout` (s, 1 to 60;
                15), and `ordered`

Dead letters go to `deadLetterTopic` or to `deadLetterQueue` of the account. The topic is one of the instance of the
sink's topic, or of `deadLetterInstance` where the sink is none. Another kind of sink is another entry in KINDS.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from analytics.inflow import cloud_events, http_line, parts
from analytics.inflow.delivery import Builder
from analytics.inflow.fields import METHODS, Fields, FieldsError
from analytics.inflow.parts import TaskError
from analytics.pipelines.plan import SECRET, Value
from brokercore.smq.wire.messages import PRIORITY_DEFAULT, PRIORITY_LEAST, PRIORITY_MOST
from brokercore.smq.wire.queues import RANGES

TOPIC, QUEUE, HTTP = "topic", "queue", "http"
"""Kinds of sinks. A document that names none has a topic."""
DEAD_LETTERS = ("deadLetterTopic", "deadLetterInstance", "deadLetterQueue")
"""The parts of a document that tell where dead letters go."""
HEADERS = "headers"
"""The option of the pipeline's sink that has headers with the names of secrets, as JSON."""
PRODUCER_GROUP = "GID_INFLOW"
MOST_BATCH, MOST_TIMEOUT, DEFAULT_TIMEOUT, MOST_DELAY = 500, 60, 15, RANGES["DelaySeconds"].most
"""Limits of `batch`, `timeout` and `delaySeconds`."""
PLACE = "sink."
_MOST_ROUTES, _MOST_HEADERS = 100, 20
_KEYS = ("accessId", "accessKey")
_REACH = ("endpoint", "instanceID", *_KEYS, "producerGroup")
_QUEUE_REACH = ("endpoint", "accessKeyId", "accessKeySecret")
_OF_REQUESTS = ("mode", "contentType", "batch")
#: As the queue service takes them (brokercore.smq).
_QUEUE = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,119}")
_INSTANCE = re.compile(r"[A-Za-z0-9_-]{1,127}")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")
_HEADER_VALUE = re.compile(r"[\x21-\x7e]([\x20-\x7e]{0,4094}[\x21-\x7e])?")
#: What is the connection's own, or said by the message; and a signature that a receiver trusts.
_OWN_HEADERS = re.compile(
    r"host|connection|keep-alive|content-.*|transfer-encoding|te|trailer|upgrade|expect|proxy-.*|accept-encoding"
    r"|ce-.*|x-gantry-.*"
)


class TaskSink(Protocol):
    """The sink of a task."""

    kind: ClassVar[str]

    @property
    def builder(self) -> Builder:
        """What makes its messages."""

    @property
    def is_ordered(self) -> bool:
        """Whether messages of one primary key keep their order."""

    @property
    def topics(self) -> tuple[str, ...]:
        """All topics that a message may go to."""

    def to_document(self) -> dict[str, Any]:
        """All of it but how it is reached."""

    def options(self) -> dict[str, Value]:
        """Those of the pipeline's sink: how it is reached, with the names of secrets."""


@dataclass(frozen=True)
class TopicSink:
    """A topic of RocketMQ, and those that events may name."""

    kind: ClassVar[str] = TOPIC
    topic: str
    fields: Fields
    is_ordered: bool
    routes: tuple[str, ...]
    reach: Mapping[str, str]

    @classmethod
    def read(cls, found: Mapping[str, Any]) -> TopicSink:
        """Raises TaskError."""
        parts.known("a sink of the kind topic", found, ("kind", "topic", "ordered", "routes", *METHODS, *_REACH), PLACE)
        return cls(
            topic=parts.topic("sink.topic", parts.text(found, "topic", PLACE)),
            fields=_fields(found),
            is_ordered=parts.flag(found, "ordered", PLACE),
            routes=_routes(found.get("routes")),
            reach=_reach(found, _REACH, "accessKey"),
        )

    @property
    def builder(self) -> Builder:
        """All fields of a message."""
        return self.fields

    @property
    def topics(self) -> tuple[str, ...]:
        """That of the task, and the routes."""
        return tuple(dict.fromkeys((self.topic, *self.routes)))

    def to_document(self) -> dict[str, Any]:
        """All of it but how the brokers are reached."""
        return {
            "kind": self.kind,
            "topic": self.topic,
            "ordered": self.is_ordered,
            "routes": list(self.routes),
            **self.fields.to_document(),
        }

    def options(self) -> dict[str, Value]:
        """How the brokers are reached."""
        return {"producerGroup": PRODUCER_GROUP, **self.reach, "topic": self.topic}


@dataclass(frozen=True)
class QueueSink:
    """A queue of SMQ, which keeps no order."""

    kind: ClassVar[str] = QUEUE
    is_ordered: ClassVar[bool] = False
    topics: ClassVar[tuple[str, ...]] = ()
    queue: str
    fields: Fields
    base64: bool
    priority: int
    #: Seconds; None for the queue's own.
    delay_s: int | None
    reach: Mapping[str, str]

    @classmethod
    def read(cls, found: Mapping[str, Any]) -> QueueSink:
        """Raises TaskError."""
        known = ("kind", "queue", "body", "base64", "priority", "delaySeconds", *_QUEUE_REACH)
        parts.known("a sink of the kind queue", found, known, PLACE)
        reach = _reach(found, _QUEUE_REACH, "accessKeySecret")
        if reach and len(reach) < len(_QUEUE_REACH):
            missing = next(name for name in _QUEUE_REACH if name not in reach)
            raise TaskError(f"sink.{missing}", f"a queue of another account takes {', '.join(_QUEUE_REACH)}")
        delay = found.get("delaySeconds")
        return cls(
            queue=_queue("sink.queue", parts.text(found, "queue", PLACE)),
            fields=_fields(found, ("body",)),
            base64=parts.flag(found, "base64", PLACE),
            priority=parts.number(found, "priority", PRIORITY_DEFAULT, PRIORITY_LEAST, PRIORITY_MOST, place=PLACE),
            delay_s=None if delay is None else parts.number(found, "delaySeconds", 0, 0, MOST_DELAY, place=PLACE),
            reach=reach,
        )

    @property
    def builder(self) -> Builder:
        """The body alone."""
        return self.fields

    def to_document(self) -> dict[str, Any]:
        """All of it but how the service is reached."""
        told = {
            "kind": self.kind,
            "queue": self.queue,
            "base64": self.base64,
            "priority": self.priority,
            "body": self.fields.to_document()["body"],
        }
        return told if self.delay_s is None else told | {"delaySeconds": self.delay_s}

    def options(self) -> dict[str, Value]:
        """How the service is reached."""
        return {**self.reach, "queue": self.queue}


@dataclass(frozen=True)
class HttpSink:
    """An endpoint that takes events by POST."""

    kind: ClassVar[str] = HTTP
    topics: ClassVar[tuple[str, ...]] = ()
    url: str
    fields: Fields
    mode: str
    content_type: str
    batch: int
    timeout_s: int
    is_ordered: bool
    #: With the names of secrets.
    headers: Mapping[str, str]

    @classmethod
    def read(cls, found: Mapping[str, Any]) -> HttpSink:
        """Raises TaskError."""
        known = ("kind", "url", "body", *_OF_REQUESTS, HEADERS, "timeout", "ordered")
        parts.known("a sink of the kind http", found, known, PLACE)
        url = parts.text(found, "url", PLACE)
        try:
            http_line.checked(url, "an endpoint")
        except ValueError as error:
            raise TaskError("sink.url", str(error)) from None
        mode, content_type, batch = _of_requests(found)
        return cls(
            url=url,
            fields=_fields(found, ("body",)),
            mode=mode,
            content_type=content_type,
            batch=batch,
            timeout_s=parts.number(found, "timeout", DEFAULT_TIMEOUT, 1, MOST_TIMEOUT, place=PLACE),
            is_ordered=parts.flag(found, "ordered", PLACE),
            headers=_headers(found.get(HEADERS)),
        )

    @property
    def builder(self) -> cloud_events.Requests:
        """Headers and bodies of requests."""
        return cloud_events.Requests(self.fields, self.mode, self.content_type, in_batches=self.batch > 1)

    def to_document(self) -> dict[str, Any]:
        """All of it but the headers, which may have secrets."""
        return {
            "kind": self.kind,
            "url": self.url,
            "mode": self.mode,
            **({"contentType": self.content_type} if self.content_type else {}),
            "batch": self.batch,
            "timeout": self.timeout_s,
            "ordered": self.is_ordered,
            "body": self.fields.to_document()["body"],
        }

    def options(self) -> dict[str, Value]:
        """The headers."""
        return {HEADERS: json.dumps(dict(self.headers))} if self.headers else {}


@dataclass(frozen=True)
class DeadLetters:
    """Where the events go that have failed; nowhere without a topic and a queue."""

    topic: str = ""
    #: Of the topic; empty for the one without a namespace, and for that of the sink's topic.
    instance: str = ""
    queue: str = ""

    @classmethod
    def read(cls, document: Mapping[str, Any], sink: TaskSink) -> DeadLetters:
        """Those of a document. Raises TaskError."""
        found = cls(
            *(parts.text(document, name, "", optional=True) for name in DEAD_LETTERS),
        )
        if found.topic:
            parts.topic("deadLetterTopic", found.topic)
        if found.queue:
            _queue("deadLetterQueue", found.queue)
        if found.topic and found.queue:
            raise TaskError("deadLetterQueue", "dead letters go to a topic or to a queue, and there is a topic already")
        if found.topic in sink.topics[:1]:
            raise TaskError("deadLetterTopic", "it is the topic of the messages; another one is needed")
        if isinstance(sink, QueueSink) and found.queue == sink.queue and not sink.reach:
            raise TaskError("deadLetterQueue", "it is the queue of the messages; another one is needed")
        if found.instance:
            if isinstance(sink, TopicSink) or not found.topic:
                raise TaskError("deadLetterInstance", "it is for a dead-letter topic of a task whose sink is no topic")
            if not _INSTANCE.fullmatch(found.instance):
                raise TaskError("deadLetterInstance", "it is the ID of an instance, such as MQ_INST_123_abc")
        return found

    def __bool__(self) -> bool:
        return bool(self.topic or self.queue)

    def to_document(self) -> dict[str, Any]:
        """What there is of it."""
        told = zip(DEAD_LETTERS, (self.topic, self.instance, self.queue), strict=True)
        return {name: value for name, value in told if value}


KINDS: dict[str, Callable[[Mapping[str, Any]], TaskSink]] = {
    TOPIC: TopicSink.read,
    QUEUE: QueueSink.read,
    HTTP: HttpSink.read,
}
"""By what a document calls them."""


def read(found: Mapping[str, Any]) -> TaskSink:
    """The part `sink` of a document. Raises TaskError."""
    return KINDS[kind_of(found)](found)


def kind_of(found: Mapping[str, Any]) -> str:
    """The kind of a sink. Raises TaskError for one that there is not."""
    return parts.choice(found, "kind", list(KINDS), PLACE)


def builder_of(found: Mapping[str, Any]) -> Builder:
    """What makes the messages of a part `sink`, whatever else is missing or wrong in it. Raises TaskError."""
    kind = kind_of(found)
    if kind != HTTP:
        return _fields(found, tuple(METHODS) if kind == TOPIC else ("body",))
    mode, content_type, batch = _of_requests(found)
    return cloud_events.Requests(_fields(found, ("body",)), mode, content_type, in_batches=batch > 1)


def _reach(found: Mapping[str, Any], names: Sequence[str], secret: str) -> dict[str, str]:
    reach = {one: parts.text(found, one, PLACE, optional=True) for one in names}
    if reach[secret] and not SECRET.fullmatch(reach[secret]):
        raise TaskError(f"sink.{secret}", "it is the name of a secret, such as ${secret_values.broker}")
    return {one: value for one, value in reach.items() if value}


def _queue(field: str, name: str) -> str:
    if not _QUEUE.fullmatch(name):
        raise TaskError(field, "a queue's name has 1 to 120 letters, digits and '-', and begins with a letter or digit")
    return name


def _of_requests(found: Mapping[str, Any]) -> tuple[str, str, int]:
    mode = parts.choice(found, "mode", cloud_events.MODES, PLACE)
    content_type = parts.text(found, "contentType", PLACE, optional=True)
    if content_type and not cloud_events.MEDIA_TYPE.fullmatch(content_type):
        raise TaskError("sink.contentType", "it is a media type, such as application/json")
    batch = parts.number(found, "batch", 1, 1, MOST_BATCH, place=PLACE)
    if batch > 1 and mode == cloud_events.BINARY:
        raise TaskError("sink.batch", "in binary mode a request has one event")
    return mode, content_type, batch


def _headers(found: Any) -> dict[str, str]:
    if found is None:
        return {}
    if not isinstance(found, Mapping) or len(found) > _MOST_HEADERS:
        raise TaskError("sink.headers", f"it is an object of up to {_MOST_HEADERS} headers")
    read: dict[str, str] = {}
    for name, value in found.items():
        place = f"sink.headers.{str(name)[:40]}"
        if not isinstance(name, str) or not _HEADER.fullmatch(name):
            raise TaskError("sink.headers", "a header's name has 1 to 64 letters, digits and hyphens")
        if _OWN_HEADERS.fullmatch(name.lower()):
            raise TaskError(place, "this header is the request's own")
        if not isinstance(value, str) or not _HEADER_VALUE.fullmatch(value):
            raise TaskError(place, "a header's value has 1 to 4,096 ASCII characters, and no space around it")
        if name.lower() == "authorization" and not SECRET.search(value):
            raise TaskError(place, "it has the name of a secret, such as Bearer ${secret_values.token}")
        if name.lower() in read:
            raise TaskError(place, "this header stands twice")
        read[name.lower()] = value
    return read


def _routes(found: Any) -> tuple[str, ...]:
    if found is None:
        return ()
    if not isinstance(found, list | tuple) or len(found) > _MOST_ROUTES:
        raise TaskError("sink.routes", f"it is a list of up to {_MOST_ROUTES} topics")
    return tuple(dict.fromkeys(parts.topic(f"sink.routes[{place}]", name) for place, name in enumerate(found)))


def _fields(found: Mapping[str, Any], names: Sequence[str] = tuple(METHODS)) -> Fields:
    told = {one: found[one] for one in names if found.get(one) is not None}
    try:
        return Fields.compile({"body": {"method": "complete_data"}} | told)
    except FieldsError as error:
        reason = error.user_message.removeprefix(f"{error.field}: ")
        raise TaskError(f"sink.{error.field}" if error.field else "sink", reason) from None
