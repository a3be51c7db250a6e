"""What an inflow task is told, as a document, and the pipeline that it is.

    {"name": "orders-to-topic",
     "source": {"log": "oss://bucket/folder/", "startTimeMs": 1768435200000, "messages": 200, "interval": 5},
     "pattern": {"data": {"tableName": ["orders"]}},
     "transform": {"kind": "expression", "expression": "merge(@, {gantrytopic: data.tableName})"},
     "sink": {"topic": "order_changes", "ordered": true, "routes": ["orders"],
              "body": {"method": "complete_data"}, "key": {"method": "data_extraction", "path": "$.data.primaryKey"}},
     "retry": "backoff", "faults": "allowed", "deadLetterTopic": "order_changes_dead"}

    source      where the events come from, by its kind (`analytics.inflow.task_sources`). A batch has at most
                `messages` (1 to 10,000; 100) and waits for at most `interval` seconds (0 to 15; 3)
    pattern     an object, or its JSON as a text (`analytics.inflow.pattern`); without it all events pass
    transform   what events become, by its kind (`analytics.inflow.task_transforms`); without it they stay as they are
    sink        where the messages go, by its kind (`analytics.inflow.task_sinks`)
    retry       backoff (without it) or exponential
    faults      allowed (without it) or prohibited

Everything else is refused by its place in the document.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from analytics.inflow import cloud_events, debezium, parts, task_sinks, task_sources, task_transforms
from analytics.inflow.delivery import Flow, RetryPolicy
from analytics.inflow.parts import TaskError
from analytics.inflow.pattern import Pattern, PatternError
from analytics.inflow.task_sinks import DEAD_LETTERS, HEADERS, DeadLetters, HttpSink, TaskSink
from analytics.inflow.task_sources import TaskSource
from analytics.inflow.task_transforms import SqlTransform, TaskTransform
from analytics.inflow.transform import Transform
from analytics.pipelines.plan import CREDENTIALS, SECRET, Column, Insert, Plan, Settings, Sink, Source
from brokercore.addresses import Network

EVENTS, MESSAGES = "events", "messages"
"""The source and the sink of the pipeline, by which reports tell them."""
EVENT = Column("event", "binary")
"""Their one column: the JSON of an event."""
#: Events that a batch of the engine's may have where so many wait, in calls of `source.messages` each: it costs a tenth
#: of a second whatever it has. And how many more are delivered again after a crash.
BACKLOG = 1_000
#: The same where nothing but a topic is asked: their messages go by hundreds in a request, so a batch of so many takes
#: less than half a second, and ends before a stop that waits for it. Of a log that the sink reads itself it takes two.
QUICK_BACKLOG, STRETCH_BACKLOG = 10_000, 50_000
#: How often Spark asks for events, ms: the source itself waits for them. And the pause before a start after a failure.
_BATCH_MS, _RESTART_MS = 100, 1_000
_LONGEST_DESCRIPTION = 255
_PARTS = ("name", "description", "source", "pattern", "transform", "sink", "retry", "faults", *DEAD_LETTERS)
#: What a sink is told of the source.
_OF_EVENTS = ("messages", "interval", "envelope")


@dataclass(frozen=True)
class Task:
    """A document that was read: what it does not say has its default, and all of it is allowed."""

    name: str
    source: TaskSource
    pattern: str
    transform: TaskTransform | None
    sink: TaskSink
    retry: RetryPolicy
    allows_faults: bool
    dead_letters: DeadLetters

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Task:
        """Raises TaskError."""
        parts.known("the task", document, _PARTS, "")
        sink = task_sinks.read(parts.whole(document, "sink"))
        dead_letters = DeadLetters.read(document, sink)
        name = parts.plain_name("name", parts.text(document, "name", ""))
        if len(parts.text(document, "description", "", optional=True)) > _LONGEST_DESCRIPTION:
            raise TaskError("description", f"a description has at most {_LONGEST_DESCRIPTION} characters")
        source = task_sources.read(parts.whole(document, "source"))
        _refuse_circle(source, sink, dead_letters)
        _refuse_record(source, sink)
        return cls(
            name=name,
            source=source,
            pattern=_pattern(document.get("pattern")),
            transform=task_transforms.read(document.get("transform")),
            sink=sink,
            retry=RetryPolicy(parts.choice(document, "retry", [str(policy) for policy in RetryPolicy])),
            allows_faults=parts.choice(document, "faults", ["allowed", "prohibited"]) == "allowed",
            dead_letters=dead_letters,
        )

    def to_document(self) -> dict[str, Any]:
        """All of it but where events come from and how the brokers are reached: what the sink is told."""
        return {
            "name": self.name,
            "source": {name: value for name, value in self.source.parts.items() if name in _OF_EVENTS},
            "pattern": self.pattern,
            "transform": None if self.transform is None else self.transform.to_document(),
            "sink": self.sink.to_document(),
            "retry": str(self.retry),
            "faults": "allowed" if self.allows_faults else "prohibited",
            **self.dead_letters.to_document(),
        }

    def made_transform(self, function_key: bytes = b"", networks: Collection[Network] = ()) -> Transform | None:
        """A transform, to be closed by its user. A function gets what is signed with the key.

        Raises TransformFailed.
        """
        return None if self.transform is None else self.transform.made(function_key, networks)

    def flow(self, transform: Transform | None) -> Flow:
        """What is done with its events."""
        return Flow(
            task=self.name,
            builder=self.sink.builder,
            pattern=Pattern.compile(self.pattern),
            transform=transform,
            retry=self.retry,
            allows_faults=self.allows_faults,
            has_dead_letters=bool(self.dead_letters),
            is_ordered=self.sink.is_ordered,
            routes=frozenset(self.sink.topics),
            records=debezium.records if self.source.get("envelope") == task_sources.DEBEZIUM else None,
        )

    def plan(self) -> Plan:
        """The pipeline: one source, one sink, and all rows from the one to the other.

        How the account's own topic or queue is reached is to be given by who starts it (`runner.Start.given`, under
        MESSAGES), as `inflow_targets` tells it, and so is the key that signs what a function or an endpoint gets
        (`functionKey`), and the networks that these may be in beside public addresses (`networks`).
        """
        told = json.dumps(self.to_document(), ensure_ascii=False)
        is_quick = self.transform is None and self.sink.kind == task_sinks.TOPIC and not self.sink.is_ordered
        read = self.source.table
        by_stretches = read.connector == "events" and not isinstance(self.transform, SqlTransform)
        backlog = BACKLOG if not is_quick else STRETCH_BACKLOG if by_stretches else QUICK_BACKLOG
        calls = max(1, backlog // int(self.source.parts["messages"]))
        told_source = {**read.options(self.source.parts), "calls": calls}
        if read.has_feed:
            told_source["feed"] = self.name
        if by_stretches:
            told_source["stretches"] = True
        source = Source(EVENTS, read.connector, (EVENT,), format=read.format, options=told_source)
        sink = Sink(MESSAGES, "inflow", (EVENT,), options={"task": told, **self.sink.options()})
        options = [*source.options.items(), *sink.options.items()]
        named = [SECRET.findall(str(value)) for name, value in options if name in CREDENTIALS or name == HEADERS]
        return Plan(
            sources=(source,),
            sinks=(sink,),
            views=(),
            inserts=(Insert(MESSAGES, f"select {EVENT.name} from {EVENTS}", line=0),),  # noqa: S608  all of it is ours
            settings=Settings(batch_interval_ms=_BATCH_MS, restart_delay_ms=_RESTART_MS),
            tables=self.transform.tables if isinstance(self.transform, SqlTransform) else (),
            secrets=tuple(sorted({one for found in named for one in found})),
        )


def plan_of(document: Mapping[str, Any]) -> Plan:
    """The pipeline of a task's document. Raises TaskError."""
    return Task.read(document).plan()


def _refuse_circle(source: TaskSource, sink: TaskSink, dead_letters: DeadLetters) -> None:
    """A task that reads what it writes would never come to an end with one message. Raises TaskError."""
    for place, written in _written(sink, dead_letters):
        if written == source.place:
            raise TaskError(place, f"{written[-1]} is the {source.kind} that the task reads; another one is needed")


def _refuse_record(source: TaskSource, sink: TaskSink) -> None:
    """A record of Debezium's is no CloudEvent, and has no attributes to put into headers. Raises TaskError."""
    is_record = source.get("envelope") == task_sources.DEBEZIUM
    if is_record and isinstance(sink, HttpSink) and sink.mode != cloud_events.BODY:
        raise TaskError("sink.mode", "records of Debezium's are no CloudEvents, so their mode is body")


def _written(sink: TaskSink, dead_letters: DeadLetters) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Where messages and dead letters go, as sources tell where theirs are, each with its place in the document."""
    where = {name: str(value) for name, value in sink.options().items()}
    endpoint, instance = where.get("endpoint", ""), where.get("instanceID", "")
    for number, topic in enumerate(sink.topics):
        yield "sink.routes" if number else "sink.topic", (task_sources.TOPIC, endpoint, instance, topic)
    if sink.kind == task_sinks.QUEUE:
        yield "sink.queue", (task_sources.QUEUE, endpoint, where["queue"])
    if dead_letters.topic:
        beside = (endpoint, instance) if sink.kind == task_sinks.TOPIC else ("", dead_letters.instance)
        yield "deadLetterTopic", (task_sources.TOPIC, *beside, dead_letters.topic)
    if dead_letters.queue:
        yield "deadLetterQueue", (task_sources.QUEUE, "", dead_letters.queue)


def _pattern(found: Any) -> str:
    if found is not None and not isinstance(found, str | Mapping):
        raise TaskError("pattern", "it is an object of fields, or its JSON as a text")
    try:
        text = found if isinstance(found, str) else json.dumps(found or {}, ensure_ascii=False, allow_nan=False)
        return Pattern.compile(text).text
    except PatternError as error:
        place = f"pattern.{error.path}" if getattr(error, "path", "") else "pattern"
        raise TaskError(place, error.user_message) from None
    except (ValueError, RecursionError) as error:
        raise TaskError("pattern", f"it is no JSON: {error}") from None
