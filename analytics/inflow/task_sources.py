"""Where the events of a task come from: the part `source` of its document, by its `kind`.

    changes     without a kind, too: `log` is the folder of an event log. In its place `task` may name the change
                tracking task that has one, and `group` the consumer group by which it is read: who starts the pipeline
                gives its log then. `startTimeMs` (epoch ms) counts at the first consumption only; without it the task
                begins with the first event that there is. `envelope` is the form of the events: cloudevents (without
                it), or debezium for Debezium's records (`analytics.inflow.debezium`)

Of every kind a batch has at most `messages` events (1 to 10,000; 100), and waits for at most `interval` seconds (0 to
15; 3). Another kind is another entry in KINDS.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from analytics.inflow import parts
from analytics.inflow.parts import TaskError
from analytics.pipelines.plan import Value

CHANGES = "changes"
"""The kind of a source that names none."""
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


KINDS: dict[str, Kind] = {
    CHANGES: Kind(
        ("log", "task", "group", "startTimeMs", "envelope"),
        _changes,
        "events",
        place=("task", "log"),
        options=lambda read: {name: value for name, value in read.items() if name != "envelope"},
    ),
}
"""By what a document calls them."""
