"""Where the events of a task come from: the part `source` of its document, by its `kind`.

    changes     without a kind, too: `log` is the folder of an event log. In its place `task` may name the change
                tracking task that has one, and `group` the consumer group by which it is read: who starts the pipeline
                gives its log then. `startTimeMs` (epoch ms) counts at the first consumption only; without it the task
                begins with the first event that there is. `envelope` is the form of the events: cloudevents (without
                it), or debezium for Debezium's records (`analytics.inflow.debezium`)
    topic       the messages of a `topic` of RocketMQ as events (`analytics.inflow.messages`), read by the consumer
                group `group`; `instanceID` where topic and group are named with their instance, `tag` for those of some
                tags only (`a || b`), `format` of the bodies: text (without it), json or binary. `startTimeMs` as above;
                without it the task begins where the group stands, else with the first message that there is. Of another
                cluster: `endpoint`, `accessId`, `accessKey` (as `${secret_values.name}`)
    queue       the messages of a `queue` of the queue service as events; `format` as above, `base64` where the bodies
                are Base64 of that, as the vendor's SDKs send them unless told otherwise. Messages are deleted once they
                are delivered. Of another service: `endpoint`, `accessKeyId`, `accessKeySecret`
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
from analytics.inflow.messages import FORMATS
from analytics.inflow.parts import TaskError
from analytics.inflow.schedule import Schedule, ScheduleError, read_event
from analytics.inflow.webhook import Webhook, WebhookError
from analytics.pipelines.plan import EVENT, SECRET, Value

CHANGES, TOPIC, QUEUE, WEBHOOK, SCHEDULE = "changes", "topic", "queue", "webhook", "schedule"
"""Kinds of sources; the first is that of one that names none."""
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
_REACH = ("endpoint", "accessId", "accessKey")
_QUEUE_REACH = ("endpoint", "accessKeyId", "accessKeySecret")
_LONGEST_TAG = 1024
_QUEUE = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,119}")
#: What the tables of queues call parts.
_OF_QUEUES = {"queue": "queueName", "format": "body"}


@dataclass(frozen=True)
class Kind:
    """A kind of source: its parts beside the kind and those of batching, and the table of the pipeline that it is."""

    parts: tuple[str, ...]
    #: Gives the parts of its own. Raises TaskError.
    read: Callable[[Mapping[str, Any]], dict[str, Value]]
    connector: Literal["events", "mq", "mns"]
    #: The parts that tell where events come from: documents that differ in one of them do not read the same events.
    place: tuple[str, ...]
    #: Makes the options of the table of all parts that were read.
    options: Callable[[Mapping[str, Value]], dict[str, Value]] = dict
    #: That of the table: EVENT where messages are to become events.
    format: str = ""
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

    @property
    def place(self) -> tuple[str, ...]:
        """What tells where its events come from (`place_of`)."""
        return place_of({"kind": self.kind, **self.parts})

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
    read = _moment(found)
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


def _topic(found: Mapping[str, Any]) -> dict[str, Value]:
    read: dict[str, Value] = {
        "topic": parts.topic(f"{PLACE}topic", parts.text(found, "topic", PLACE)),
        "group": parts.plain_name(f"{PLACE}group", parts.text(found, "group", PLACE)),
        "format": parts.choice(found, "format", FORMATS, PLACE),
    }
    for name in ("instanceID", "tag"):
        if value := parts.text(found, name, PLACE, optional=True):
            read[name] = value
    if len(str(read.get("tag", ""))) > _LONGEST_TAG:
        raise TaskError(f"{PLACE}tag", f"it has at most {_LONGEST_TAG} characters")
    return read | _moment(found) | _reach(found, _REACH)


def _queue(found: Mapping[str, Any]) -> dict[str, Value]:
    queue = parts.text(found, "queue", PLACE)
    if not _QUEUE.fullmatch(queue):
        raise TaskError(f"{PLACE}queue", "a queue's name has 1 to 120 letters, digits and '-'")
    read: dict[str, Value] = {"queue": queue, "format": parts.choice(found, "format", FORMATS, PLACE)}
    if parts.flag(found, "base64", PLACE):
        read["base64"] = True
    return read | _reach(found, _QUEUE_REACH)


def _queue_options(found: Mapping[str, Value]) -> dict[str, Value]:
    return {"batchSize": 16, **_named(_OF_QUEUES)(found)}


def _moment(found: Mapping[str, Any]) -> dict[str, Value]:
    if found.get("startTimeMs") is None:
        return {}
    return {"startTimeMs": parts.number(found, "startTimeMs", 0, 0, LATEST_MS, place=PLACE)}


def _reach(found: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Value]:
    """Address and key of another cluster, the last one the name of a secret; all of them or none."""
    told = {name: parts.text(found, name, PLACE, optional=True) for name in names}
    if not any(told.values()):
        return {}
    for name, value in told.items():
        if not value:
            raise TaskError(f"{PLACE}{name}", f"a source elsewhere has {', '.join(names)}")
    if not SECRET.fullmatch(told[names[-1]]):
        raise TaskError(f"{PLACE}{names[-1]}", "it is the name of a secret, such as ${secret_values.broker}")
    return dict(told)


def _named(names: Mapping[str, str]) -> Callable[[Mapping[str, Value]], dict[str, Value]]:
    """Makes options of parts, some of which tables call otherwise."""
    return lambda found: {names.get(name, name): value for name, value in found.items()}


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
    TOPIC: Kind(
        ("topic", "group", "instanceID", "tag", "format", "startTimeMs", *_REACH),
        _topic,
        "mq",
        place=("endpoint", "instanceID", "topic"),
        options=_named({"group": "consumerGroup", "format": "body"}),
        format=EVENT,
    ),
    QUEUE: Kind(
        ("queue", "format", "base64", *_QUEUE_REACH),
        _queue,
        "mns",
        place=("endpoint", "queue"),
        options=_queue_options,
        format=EVENT,
    ),
    WEBHOOK: Kind(
        ("methods", "networks", "signature", RETENTION), _webhook, "events", place=(), options=_of_feed, has_feed=True
    ),
    SCHEDULE: Kind(
        ("cron", "timeZone", "event", RETENTION), _schedule, "events", place=(), options=_of_feed, has_feed=True
    ),
}
"""By what a document calls them."""
