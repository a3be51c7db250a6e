"""What the `sink` of a task's document says, by its kind.

{"topic": "order_changes", "ordered": true, "routes": ["orders"],
 "body": {"method": "complete_data"}, "key": {"method": "data_extraction", "path": "$.data.primaryKey"}}

topic       fields (`analytics.inflow.fields`; the whole event is the body without them), `routes` (the other topics
            that a transformed event may name; none), and whether changes of one primary key keep their order. Where
            it is another account's: `endpoint`, `instanceID`, `accessId`, `accessKey` (as `${secret_values.name}`),
            `producerGroup`
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from analytics.inflow import parts
from analytics.inflow.fields import METHODS, Fields, FieldsError
from analytics.inflow.parts import TaskError
from analytics.pipelines.plan import SECRET, Value

PRODUCER_GROUP = "GID_INFLOW"
_MOST_ROUTES = 100
_KEYS = ("accessId", "accessKey")
_REACH = ("endpoint", "instanceID", *_KEYS, "producerGroup")


class TaskSink(Protocol):
    """The sink of a task."""

    kind: ClassVar[str]

    @property
    def fields(self) -> Fields:
        """How a message is built."""

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

    kind: ClassVar[str] = "topic"
    topic: str
    fields: Fields
    is_ordered: bool
    routes: tuple[str, ...]
    reach: Mapping[str, str]

    @classmethod
    def read(cls, found: Mapping[str, Any]) -> TopicSink:
        """Raises TaskError."""
        parts.known("the sink", found, ("kind", "topic", "ordered", "routes", *METHODS, *_REACH), "sink.")
        reach = {one: parts.text(found, one, "sink.", optional=True) for one in _REACH}
        if reach["accessKey"] and not SECRET.fullmatch(reach["accessKey"]):
            raise TaskError("sink.accessKey", "it is the name of a secret, such as ${secret_values.broker}")
        return cls(
            topic=parts.topic("sink.topic", parts.text(found, "topic", "sink.")),
            fields=_fields(found),
            is_ordered=parts.flag(found, "ordered", "sink."),
            routes=_routes(found.get("routes")),
            reach={one: value for one, value in reach.items() if value},
        )

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


_SINKS: dict[str, Callable[[Mapping[str, Any]], TaskSink]] = {"topic": TopicSink.read}


def read(found: Mapping[str, Any]) -> TaskSink:
    """The sink of a document; without a kind a topic. Raises TaskError."""
    return _SINKS[parts.choice(found, "kind", list(_SINKS), "sink.")](found)


def _routes(found: Any) -> tuple[str, ...]:
    if found is None:
        return ()
    if not isinstance(found, list | tuple) or len(found) > _MOST_ROUTES:
        raise TaskError("sink.routes", f"it is a list of up to {_MOST_ROUTES} topics")
    return tuple(dict.fromkeys(parts.topic(f"sink.routes[{place}]", name) for place, name in enumerate(found)))


def _fields(found: Mapping[str, Any]) -> Fields:
    told = {one: found[one] for one in METHODS if found.get(one) is not None}
    try:
        return Fields.compile({"body": {"method": "complete_data"}} | told)
    except FieldsError as error:
        reason = error.user_message.removeprefix(f"{error.field}: ")
        raise TaskError(f"sink.{error.field}" if error.field else "sink", reason) from None
