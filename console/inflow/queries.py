"""Reads of inflow tasks for their pages: states in the task's words, where a task stands, what a form offers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db.models import QuerySet

from analytics.inflow.delivery import Count
from analytics.inflow.task import EVENTS, MESSAGES
from analytics.pipelines.reports import Reached
from console.accounts.actor import Actor
from console.accounts.models import Tenant
from console.inflow import providers
from console.instances.models import Instance
from console.instances.queries import instances
from console.pipelines import queries as pipelines
from console.pipelines.models import BUSY, Kind, Pipeline, State
from console.pipelines.samples import Now, behind_ms
from console.topics import queries as topics
from console.topics.models import OrderType, Topic

STARTING, RUNNING, PAUSING, PAUSED, READY = "Starting", "Running", "Pausing", "Paused", "Ready"
START_FAILED, DRAFT = "Start Failed", "Not started"
_WORDS = {
    State.DRAFT: DRAFT,
    State.STARTING: STARTING,
    State.RUNNING: RUNNING,
    State.STOPPING: PAUSING,
    State.STOPPED: PAUSED,
    State.FINISHED: PAUSED,
}
_COLOURS = {RUNNING: "green", STARTING: "azure", PAUSING: "yellow", READY: "orange", START_FAILED: "red"}
ORDERED = (OrderType.PARTITIONALLY_ORDERED, OrderType.GLOBALLY_ORDERED)
"""Kinds of topics that keep an order."""
#: Topics that a form offers, of an instance; others are typed.
_MOST_OFFERED = 200
FIGURES = {
    Count.READ: ("Read", "events of the source"),
    Count.FILTERED: ("Filtered", "the pattern says no"),
    Count.TRANSFORMED: ("Transformed", "events that the transform made"),
    Count.DELIVERED: ("Delivered", "messages in topics"),
    Count.RETRIED: ("Retried", "deliveries that were tried again"),
    Count.FAILED: ("Failed", "events, after the last try"),
    Count.DEAD: ("Dead letters", "of those that failed"),
    Count.DISCARDED: ("Discarded", "of those that failed"),
}
"""What is counted, as pages call it, in their order."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a task stands, as of its latest report."""

    state: str
    colour: str
    reached: Reached | None = None
    #: None where that is not known (`samples.behind_ms`).
    behind_ms: int | None = None
    counts: dict[Count, int] = field(default_factory=dict)
    #: Events and messages a second; None of a task that does not run.
    read_rate: float | None = None
    delivered_rate: float | None = None

    @property
    def failed(self) -> int:
        """Events that failed for good."""
        return self.counts.get(Count.FAILED, 0)

    @property
    def figures(self) -> list[tuple[str, int, str]]:
        """The counts with their titles and notes."""
        return [(title, self.counts.get(name, 0), note) for name, (title, note) in FIGURES.items()]


@dataclass(frozen=True, slots=True)
class Summary:
    """What a document says, for lists and figures."""

    source: str
    topic: str
    dead_letters: str = ""
    document: dict[str, Any] = field(default_factory=dict)


def tasks(tenant: Tenant, text: str = "") -> QuerySet[Pipeline]:
    """The account's tasks whose names have `text` in them, in any case, with their documents."""
    found = pipelines.pipelines(tenant, Kind.INFLOW, text)
    return found.defer(None).defer("version__text", "version__plan")


def state_of(task: Pipeline) -> str:
    """In the words of tasks: one that a fault stopped is Ready, any other that failed is Start Failed."""
    if task.state == State.FAILED:
        return READY if task.halted else START_FAILED
    if task.state == State.STOPPED and task.started_version_id is None:
        return DRAFT
    return _WORDS[State(task.state)]


def standing(task: Pipeline, now: Now | None) -> Standing:
    """Where it stands. Rates are those of now, or not known; counts are kept while it does not run."""
    state = state_of(task)
    colour = _COLOURS.get(state, "secondary")
    if now is None:
        return Standing(state, colour)
    told = now.report.connectors.get(MESSAGES, {})
    reached = now.report.reached.get(EVENTS)
    point = now.point if now.is_fresh and task.state == State.RUNNING else None
    return Standing(
        state,
        colour,
        reached,
        behind_ms(reached) if task.state in BUSY and now.is_fresh else None,
        {name: told.get(name, 0) for name in Count},
        point.rows_in if point else None,
        point.rows_out if point else None,
    )


def summary(text: str) -> Summary:
    """Of a document, whatever stands in it."""
    try:
        document = json.loads(text)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        return Summary("", "")
    source, sink = document.get("source"), document.get("sink")
    source = source if isinstance(source, dict) else {}
    sink = sink if isinstance(sink, dict) else {}
    return Summary(
        providers.of(source).named(source),
        str(sink.get("topic") or ""),
        str(document.get("deadLetterTopic") or ""),
        document,
    )


def source_trouble(actor: Actor, document: Mapping[str, Any]) -> str:
    """Why no new event comes to the task now, as sentences; empty while events may come."""
    source = document.get("source")
    return providers.of(source).trouble(actor, source) if isinstance(source, dict) else ""


def own_instances(actor: Actor) -> list[Instance]:
    """The account's instances, by name."""
    return list(instances(actor.tenant).order_by("name"))


def offered_topics(actor: Actor) -> list[tuple[str, list[str]]]:
    """Topics to which the actor may publish, by instance; of many the first ones."""
    return [
        (
            one.name,
            list(topics.visible_topics(actor, one, "mq:PUB").values_list("name", flat=True)[:_MOST_OFFERED]),
        )
        for one in own_instances(actor)
    ]


def namespace_of(actor: Actor, instance_id: str) -> str:
    """What a document calls an instance of the account: nothing for one without a namespace."""
    found = next((one for one in own_instances(actor) if one.instance_id == instance_id), None)
    return instance_id if found is not None and found.independent_naming else ""


def is_ordered(actor: Actor, instance_id: str, topic: str) -> bool:
    """Whether a topic of the account is one for messages with an order."""
    kinds = Topic.objects.filter(instance__tenant=actor.tenant, instance__instance_id=instance_id, name=topic)
    return kinds.filter(order_type__in=ORDERED).exists()
