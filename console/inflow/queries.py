"""Reads of inflow tasks for their pages: states in the task's words, where a task stands, what a form offers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db.models import QuerySet
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from analytics.inflow import task_sources
from analytics.inflow.delivery import Count
from analytics.inflow.expressions import Language
from analytics.inflow.task import EVENTS, MESSAGES
from analytics.inflow.webhook import Webhook
from analytics.pipelines.reports import Reached
from console.accounts.actor import Actor
from console.accounts.models import Tenant
from console.feeds import queries as feeds
from console.inflow import providers, sinks
from console.inflow.documents import source_of
from console.inflow.providers.shape import Recent
from console.inflow.sample_events import shown
from console.pipelines import queries as pipelines
from console.pipelines.models import BUSY, Kind, Pipeline, State
from console.pipelines.samples import Now, behind_ms
from console.web.languages import gettext_lazy

_LANGUAGES: dict[str, str] = {Language.JMESPATH: "JMESPath", Language.JSONATA: "JSONata"}
STARTING, RUNNING, PAUSING, PAUSED, READY = (
    gettext_noop("Starting"),
    gettext_noop("Running"),
    gettext_noop("Pausing"),
    gettext_noop("Paused"),
    gettext_noop("Ready"),
)
START_FAILED, DRAFT = gettext_noop("Start Failed"), gettext_noop("Not started")
_WORDS = {
    State.DRAFT: DRAFT,
    State.STARTING: STARTING,
    State.RUNNING: RUNNING,
    State.STOPPING: PAUSING,
    State.STOPPED: PAUSED,
    State.FINISHED: PAUSED,
}
_COLOURS = {RUNNING: "green", STARTING: "azure", PAUSING: "yellow", READY: "orange", START_FAILED: "red"}
FIGURES = {
    Count.READ: (gettext_lazy("Read"), gettext_lazy("events of the source")),
    Count.FILTERED: (gettext_lazy("Filtered"), gettext_lazy("the pattern says no")),
    Count.TRANSFORMED: (gettext_lazy("Transformed"), gettext_lazy("events that the transform made")),
    Count.DELIVERED: (gettext_lazy("Delivered"), gettext_lazy("messages and requests that were taken")),
    Count.RETRIED: (gettext_lazy("Retried"), gettext_lazy("deliveries that were tried again")),
    Count.FAILED: (gettext_lazy("Failed"), gettext_lazy("events, after the last try")),
    Count.DEAD: (gettext_lazy("Dead letters"), gettext_lazy("of those that failed")),
    Count.DISCARDED: (gettext_lazy("Discarded"), gettext_lazy("of those that failed")),
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
    sink: str
    #: What kind of a sink it is, as the wizard calls it.
    sink_title: str = ""
    dead_letters: str = ""
    #: What the kind of its source is called.
    provider: str = ""
    document: dict[str, Any] = field(default_factory=dict)

    @property
    def messages(self) -> object:
        """Events of a batch at most."""
        return self._of_source("messages", task_sources.DEFAULT_MESSAGES)

    @property
    def interval(self) -> object:
        """How long a batch waits for them, s."""
        return self._of_source("interval", task_sources.DEFAULT_INTERVAL)

    @property
    def pattern(self) -> str:
        """Of the events that pass, as JSON; empty where all do."""
        found = self.document.get("pattern") or ""
        return found if isinstance(found, str) else json.dumps(found, indent=2, ensure_ascii=False)

    @property
    def transform(self) -> tuple[str, str]:
        """What transforms the events, in words, and its text; empty where nothing does."""
        told = self.document.get("transform")
        if not isinstance(told, dict):
            return "", ""
        kind, language = str(told.get("kind", "")), str(told.get("language") or Language.JMESPATH)
        title = {
            "expression": _LANGUAGES.get(language, language),
            "function": _("HTTP function"),
            "sql": _("SQL query"),
        }
        return title.get(kind, kind), str(told.get({"function": "url"}.get(kind, kind)) or "")

    def _of_source(self, name: str, otherwise: int) -> object:
        source = self.document.get("source")
        return source.get(name, otherwise) if isinstance(source, dict) else otherwise


def tasks(tenant: Tenant, text: str = "") -> QuerySet[Pipeline]:
    """The account's tasks whose names have `text` in them, in any case, with their documents."""
    found = pipelines.pipelines(tenant, Kind.INFLOW, text)
    return found.defer(None).defer("version__text", "version__plan")


def unstarted(tenant: Tenant) -> Pipeline | None:
    """The first of those that wait for their first start."""
    return tasks(tenant).filter(state=State.STOPPED, started_version=None).first()


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
    source, sink = source_of(document), sinks.sink_of(document)
    destination = sinks.of(sink)
    return Summary(
        providers.of(source).named(source),
        destination.named(sink),
        destination.title,
        sinks.dead_letters_of(document),
        providers.of(source).title,
        document,
    )


def source_trouble(actor: Actor, document: Mapping[str, Any]) -> str:
    """Why no new event comes to the task now, as sentences; empty while events may come."""
    source = document.get("source")
    return providers.of(source).trouble(actor, source) if isinstance(source, dict) else ""


def command_of(task: Pipeline, address: str) -> str:
    """A command that sends an event to the webhook of a task; empty without an address."""
    if not address:
        return ""
    feed = feeds.feed(task.tenant, task.name)
    hook = Webhook.read(feed.told if feed is not None else {})
    method = "" if hook.methods[0] == "POST" else f" -X {hook.methods[0]}"
    body = """'{"id": 7, "state": "paid"}'"""
    lines = [f"curl{method} {address}", "-H 'content-type: application/json'", "-H 'idempotency-key: order-7'"]
    if hook.signature:
        digest = f"$(printf %s {body} | openssl dgst -sha256 -hmac \"$KEY\" -r | cut -d' ' -f1)"
        lines.append(f'-H "{hook.signature}: sha256={digest}"')
    return " \\\n  ".join([*lines, f"-d {body}"])


def received(one: Recent) -> dict[str, Any]:
    """An event of a task's own log, as its page shows it."""
    data = one.event.get("data")
    data = data if isinstance(data, dict) else {}
    title = f"{data.get('method', '')} {data.get('path', '')}".strip() or str(one.event.get("type", ""))
    return {"sequence": one.sequence, "time_ms": one.time_ms, "title": title[:200], "text": shown(one.event)}
