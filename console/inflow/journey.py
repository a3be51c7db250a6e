"""An event on its way through a task that is being written: pattern, transform, message. Nothing is delivered.

What is wrong with one part is told with its place in the document, and does not keep the others from being shown.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.utils import timezone
from django.utils.translation import gettext as _

from analytics.inflow import http_line, task_sinks
from analytics.inflow.cloud_events import Requests
from analytics.inflow.debezium import taken_key
from analytics.inflow.delivery import FAULT
from analytics.inflow.fields import EventRejected, Message
from analytics.inflow.http_function import HttpFunction
from analytics.inflow.parts import TaskError
from analytics.inflow.pattern import Pattern
from analytics.inflow.task import Task
from analytics.inflow.task_transforms import ExpressionTransform, FunctionTransform, SqlTransform, TaskTransform
from analytics.inflow.transform import Event, Transform, Transformed, TransformFailed, route
from analytics.settings import engine_ports
from brokercore.addresses import Network
from console.accounts.actor import Actor
from console.inflow import places, providers, sinks, trials
from console.inflow.documents import source_of
from console.inflow.providers.shape import Recent
from console.inflow.sample_events import LONGEST_SAMPLE, event_of, shown
from console.pipelines import starts

#: Of what is made of a sample, what a page shows.
_LONGEST_SHOWN, _MOST_SHOWN = 16 * 1024, 10
#: Seconds that an expression and a function have on a page.
_EXPRESSION_S, _FUNCTION_S = 1, 5.0
#: The rest of a document, where one part of it is read.
_BARE: dict[str, Any] = {"name": "task", "source": {}, "sink": {"topic": "topic"}}


@dataclass(frozen=True, slots=True)
class Seen:
    """A recent event of the source, and which parts of the pattern say no to it."""

    sequence: int
    time_ms: int
    title: str
    #: None where the pattern is wrong.
    passes: bool | None
    reasons: list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Built:
    """What is made of one event behind the transform; `error` in the place of a message that cannot be built."""

    topic: str | None = None
    body: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    key: str | None = None
    tag: str | None = None
    unique_id: str | None = None
    error: str = ""


@dataclass(slots=True)
class Journey:
    """All that is shown."""

    sample: str = ""
    #: Where the sample is from.
    origin: str = ""
    #: By places in the document, or `sample`.
    errors: dict[str, str] = field(default_factory=dict)
    recent: list[Seen] = field(default_factory=list)
    passes: bool | None = None
    reasons: list[tuple[str, str]] = field(default_factory=list)
    #: Whether there is a transform, what it made, and why it did not.
    has_transform: bool = False
    after: list[str] = field(default_factory=list)
    made: int | None = None
    note: str = ""
    messages: list[Built] = field(default_factory=list)
    #: What kind of a sink the messages are for, and where that is.
    kind: str = task_sinks.TOPIC
    place: str = ""
    #: The next moments at which the source gives an event, where that is known.
    due: Sequence[datetime] = ()


def travel(
    *,
    actor: Actor,
    document: Mapping[str, Any],
    sample: str = "",
    calls: bool = False,
    networks: Sequence[Network] = (),
) -> Journey:
    """Let an event travel: the sample (JSON), else the last one of the source, else the example.

    A function is asked only with `calls`, for it may do something, and the engine, which others need too. `networks`
    are those that a function may be in.
    """
    journey = Journey()
    pattern = _pattern(document, journey)
    source = source_of(document)
    provider = providers.of(source)
    recent = provider.recent_of(actor, source, str(document.get("name") or ""))
    journey.due = provider.due(source, timezone.now())
    journey.recent = [_seen(pattern, one) for one in recent]
    event = _sample(journey, sample, recent[0].event if recent else None, lambda: provider.example(source))
    if event is None:
        return journey
    if fault := event.pop(FAULT, None):
        journey.errors["source.format"] = str(fault)
    event = provider.formed(source, event)
    if pattern is not None:
        journey.reasons = pattern.explain(event)
        journey.passes = not journey.reasons
    events = [event]
    if document.get("transform") is not None:
        events = _transformed(actor, document["transform"], journey, event, networks if calls else None)
    _build(document, journey, events)
    return journey


def _pattern(document: Mapping[str, Any], journey: Journey) -> Pattern | None:
    task = _part(journey, {"pattern": document.get("pattern")})
    return None if task is None else Pattern.compile(task.pattern)


def _part(journey: Journey, part: Mapping[str, Any]) -> Task | None:
    """One part of a task; None, with the error told, where it is wrong."""
    try:
        return Task.read(_BARE | dict(part))
    except TaskError as error:
        journey.errors[error.field] = error.user_message.removeprefix(f"{error.field}: ")
        return None


def _seen(pattern: Pattern | None, one: Recent) -> Seen:
    reasons = [] if pattern is None else pattern.explain(one.event)
    passes = None if pattern is None else not reasons
    return Seen(one.sequence, one.time_ms, one.title, passes, reasons)


def _sample(journey: Journey, sample: str, recent: Event | None, example: Callable[[], Event]) -> Event | None:
    if sample.strip():
        journey.origin, journey.sample = "given", sample
        given = event_of(sample.encode()) if len(sample) <= LONGEST_SAMPLE else None
        if given is None:
            journey.errors["sample"] = _("A sample event is a JSON object of at most %(longest_sample)s KiB.") % {
                "longest_sample": LONGEST_SAMPLE >> 10
            }
        return given
    event = example() if recent is None else recent
    journey.origin = "example" if recent is None else "recent"
    journey.sample = shown(event)
    return event


def _transformed(
    actor: Actor, told: Any, journey: Journey, event: Event, networks: Sequence[Network] | None
) -> list[Event]:
    """What becomes of the event; nothing, with the reason told, where it cannot be transformed.

    Without networks neither a function nor the engine is asked: a note says so, and the event stays as it is.
    """
    journey.has_transform = True
    task = _part(journey, {"transform": told})
    if task is None or task.transform is None:
        return []
    if isinstance(task.transform, FunctionTransform):
        _tell_of_port(journey, task.transform.place, task.transform.url)
    if isinstance(task.transform, FunctionTransform | SqlTransform) and networks is None:
        journey.note = (
            _(
                "The query is made by the engine when you choose Try it; the message below is made of the event as it "
                "is."
            )
            if isinstance(task.transform, SqlTransform)
            else _("The function is asked when you choose Try it; the message below is made of the event as it is.")
        )
        return [event]
    place = task.transform.place
    try:
        done = _applied(actor, task.transform, event, networks or ())
    except TransformFailed as error:
        journey.errors[place] = error.user_message
        return []
    if done.failed:
        journey.errors[place] = next(iter(done.failed.values()))
        return []
    journey.made = len(done.events)
    journey.after = [shown(one) for one in done.events[:_MOST_SHOWN]]
    return done.events[:_MOST_SHOWN]


def _applied(actor: Actor, told: TaskTransform, event: Event, networks: Sequence[Network]) -> Transformed:
    """Raises TransformFailed."""
    if isinstance(told, SqlTransform):
        return trials.ask(actor, told, [event])
    transform = _opened(actor, told, networks)
    try:
        with places.place(actor.tenant.uid):
            return transform.apply([event])
    finally:
        transform.close()


def _opened(actor: Actor, told: TaskTransform, networks: Sequence[Network]) -> Transform:
    """A transform with the patience of a page."""
    key = starts.function_key(actor.tenant).encode()
    if isinstance(told, ExpressionTransform):
        return told.opened(batch_s=_EXPRESSION_S)
    if isinstance(told, FunctionTransform):
        return HttpFunction(told.url, key, networks=networks, answer_s=_FUNCTION_S, pauses_s=())
    return told.made(key, networks)


def _build(document: Mapping[str, Any], journey: Journey, events: Sequence[Event]) -> None:
    sink = sinks.sink_of(document)
    journey.kind, journey.place = sinks.of(sink).kind, sinks.of(sink).named(sink)
    try:
        builder = task_sinks.builder_of(sink)
    except TaskError as error:
        journey.errors[error.field] = error.user_message.removeprefix(f"{error.field}: ")
        return
    if journey.kind == task_sinks.HTTP:
        _tell_of_port(journey, "sink.url", str(sink.get("url")))
    for event in events:
        try:
            topic, rest = route(event)
            is_record = isinstance(rest.get("source"), dict)
            key = taken_key(rest) if is_record else None
            message = builder.build(rest)
        except (TransformFailed, EventRejected) as error:
            journey.messages.append(Built(error=error.user_message))
            continue
        if isinstance(builder, Requests):
            message = builder.whole([message])
        content = b64encode(message.body) if journey.kind == task_sinks.QUEUE and sink.get("base64") else message.body
        body = content.decode("utf-8", "replace")[:_LONGEST_SHOWN]
        properties = _headers(sink, message) if journey.kind == task_sinks.HTTP else message.properties
        key = message.key or key
        journey.messages.append(Built(topic, body, properties, key, message.tag, message.unique_id))


def _tell_of_port(journey: Journey, place: str, url: str) -> None:
    """Say so where the engine, which is behind a wall, may not connect to the port of a function or an endpoint.

    What is no URL has none, and is the form's to refuse.
    """
    try:
        port = http_line.port_of(http_line.checked(url, _("an endpoint")))
    except ValueError:
        return
    if port not in engine_ports():
        journey.errors[place] = _(
            "The engine may not connect to port %(port)s, so the task would not start: the "
            "platform's administrator opens it by GANTRY_ENGINE_PORTS."
        ) % {"port": port}


def _headers(sink: Mapping[str, Any], message: Message) -> dict[str, str]:
    """Those of a request, as it would go out; of a secret its name."""
    own = sink.get("headers")
    told = {str(name).lower(): str(value) for name, value in own.items()} if isinstance(own, Mapping) else {}
    ours = {"x-gantry-request-id": str(message.unique_id), "x-gantry-signature": "sha256=…"}
    return {**told, **message.properties, **ours}
