"""Where the events of a task come from: the part `source` of its document, by its `kind`.

    changes     without a kind, too: `log` is the folder of an event log. In its place `task` may name the change
                tracking task that has one, and `group` the consumer group by which it is read: who starts the pipeline
                gives its log then. `startTimeMs` (epoch ms) counts at the first consumption only; without it the task
                begins with the first event that there is. `envelope` is the form of the events: cloudevents (without
                it), or debezium for Debezium's records (`analytics.inflow.debezium`)

    webhook     requests by HTTP to an address of the task's own: `methods` ([POST]), `networks` from where they come
                (anywhere), and `signature`, the header with the body's signature (none is asked for)
    schedule    `event`, a JSON object ({}), whenever `cron` is due, five fields, in the `timeZone` (UTC)

The events of the last two are kept in an event log of the task's own for `retentionDays` (1 to 365; 7); what it has not
read by then it goes on without.

Of every kind a batch has at most `messages` events (1 to 10,000; 100), and waits for at most `interval` seconds (0 to
15; 3). Another kind is another entry in KINDS.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from analytics.inflow import parts
from analytics.inflow.parts import TaskError
from analytics.inflow.schedule import Schedule, ScheduleError, read_event
from analytics.inflow.webhook import Webhook, WebhookError
from analytics.pipelines.plan import Value

CHANGES = "changes"
"""The kind of a source that names none."""
WEBHOOK, SCHEDULE = "webhook", "schedule"
SETTINGS, RETENTION = "settings", "retentionDays"
"""What a source with a log of its own has been told, as JSON, and for how long its events are kept."""
MOST_DAYS, DEFAULT_DAYS = 365, 7
"""Limits of `retentionDays`."""
MOST_MESSAGES, MOST_INTERVAL = 10_000, 15
"""Limits of `messages` and `interval` (s)."""
DEFAULT_MESSAGES, DEFAULT_INTERVAL = 100, 3
DEBEZIUM = "debezium"
ENVELOPES = ("cloudevents", DEBEZIUM)
"""The forms that changes may have; the first one where a document names none."""
LATEST_MS = 1 << 53
"""The last moment that a document may name, epoch ms."""
PLACE = "source."
_BATCHING = ("messages", "interval")


@dataclass(frozen=True)
class Kind:
    """A kind of source: its parts beside the kind and those of batching, and the table of the pipeline that it is."""

    parts: tuple[str, ...]
    #: Gives the parts of its own. Raises TaskError.
    read: Callable[[Mapping[str, Any]], dict[str, Value]]
    connector: Literal["events"]
    #: The parts that tell where events come from: documents that differ in one of them do not read the same events.
    place: tuple[str, ...]
    #: Makes the options of the table of all parts that were read.
    options: Callable[[Mapping[str, Value]], dict[str, Value]] = dict
    #: Whether its events are in a log of the task's own, which goes by the task's name: the option `feed`.
    has_feed: bool = False


@dataclass(frozen=True)
class TaskSource:
    """The source of a document that was read."""

    kind: str
    #: All parts but the kind; what has a default is there.
    parts: Mapping[str, Value]

    @property
    def table(self) -> Kind:
        """What it is in a pipeline."""
        return KINDS[self.kind]

    def get(self, name: str) -> Value | None:
        """A part; None for one that it has not."""
        return self.parts.get(name)


def read(found: Mapping[str, Any]) -> TaskSource:
    """The part `source` of a document. Raises TaskError."""
    name = kind_of(found)
    kind = KINDS[name]
    parts.known(f"a source of the kind {name}", found, ("kind", *kind.parts, *_BATCHING), PLACE)
    batching: dict[str, Value] = {
        "messages": parts.number(found, "messages", DEFAULT_MESSAGES, 1, MOST_MESSAGES, place=PLACE),
        "interval": parts.number(found, "interval", DEFAULT_INTERVAL, 0, MOST_INTERVAL, place=PLACE),
    }
    return TaskSource(name, batching | kind.read(found))


def kind_of(found: Mapping[str, Any]) -> str:
    """The kind of a source. Raises TaskError for one that there is not."""
    return parts.choice(found, "kind", list(KINDS), PLACE)


def place_of(found: object) -> tuple[str, ...]:
    """What tells whether two documents, whatever stands in them, read the same events."""
    found = found if isinstance(found, Mapping) else {}
    name = found.get("kind", CHANGES)
    kind = KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        return (repr(name),)
    return (str(name), *(str(found.get(one) or "") for one in kind.place))


def _changes(found: Mapping[str, Any]) -> dict[str, Value]:
    read: dict[str, Value] = {}
    if found.get("startTimeMs") is not None:
        read["startTimeMs"] = parts.number(found, "startTimeMs", 0, 0, LATEST_MS, place=PLACE)
    if log := parts.text(found, "log", PLACE, optional=True):
        if not re.fullmatch(r"oss://[^/]+/.+", log):
            raise TaskError("source.log", "it is a folder of the lake, such as oss://bucket/folder/")
        read["log"] = log
    for name in ("task", "group"):
        if value := parts.text(found, name, PLACE, optional=True):
            read[name] = parts.plain_name(f"{PLACE}{name}", value)
    if (envelope := parts.choice(found, "envelope", ENVELOPES, PLACE)) != ENVELOPES[0]:
        read["envelope"] = envelope
    if "log" in read and "task" in read:
        raise TaskError("source.task", "it has an event log of its own; none can be named beside it")
    return read


def _webhook(found: Mapping[str, Any]) -> dict[str, Value]:
    try:
        return _kept(found, Webhook.read(found).to_document())
    except WebhookError as error:
        raise TaskError(f"{PLACE}{error.part}", error.user_message) from None


def _schedule(found: Mapping[str, Any]) -> dict[str, Value]:
    zone = parts.text(found, "timeZone", PLACE, optional=True) or "UTC"
    try:
        schedule = Schedule.read(parts.text(found, "cron", PLACE), zone)
        event = read_event(found.get("event", {}))
    except ScheduleError as error:
        raise TaskError(f"{PLACE}{error.part}", error.user_message) from None
    return _kept(found, {"cron": schedule.cron, "timeZone": zone, "event": event})


def _kept(found: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, Value]:
    days = parts.number(found, RETENTION, DEFAULT_DAYS, 1, MOST_DAYS, place=PLACE)
    return {SETTINGS: json.dumps(told, ensure_ascii=False), RETENTION: days}


def _of_feed(read: Mapping[str, Value]) -> dict[str, Value]:
    return {**{name: read[name] for name in _BATCHING}, "skips": True}


KINDS: dict[str, Kind] = {
    CHANGES: Kind(
        ("log", "task", "group", "startTimeMs", "envelope"),
        _changes,
        "events",
        place=("task", "log"),
        options=lambda read: {name: value for name, value in read.items() if name != "envelope"},
    ),
    WEBHOOK: Kind(
        ("methods", "networks", "signature", RETENTION), _webhook, "events", place=(), options=_of_feed, has_feed=True
    ),
    SCHEDULE: Kind(
        ("cron", "timeZone", "event", RETENTION), _schedule, "events", place=(), options=_of_feed, has_feed=True
    ),
}
"""By what a document calls them."""
