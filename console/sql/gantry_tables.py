"""The tables of schema `gantry`: what Gantry itself knows of the caller's account, as of the start of a statement.

Their rows are read by the console, within the caller's rights, and given to Spark as a snapshot
(docs/messages-in-sql.md).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial

from django.conf import settings

from analytics import run as engine
from console.accounts.actor import Actor, service_resource
from console.audit import queries as audit
from console.instances.models import Instance
from console.sql import queries
from console.topics.queries import visible_topics

SCHEMA = "gantry"
Rows = Iterator[tuple[object, ...]]
Columns = tuple[tuple[str, str, str], ...]
_CHUNK = 1_000
_TASK_TIMES = ("create_time", "update_time")

SAMPLES: Columns = (
    ("kind", "string", "in: messages written to the topic; out: messages that the group consumed from it"),
    ("topic", "string", "physical name of the topic"),
    ("group", "string", "physical name of the group, empty for kind in"),
    ("minute", "timestamp", "start of the minute"),
    ("count", "bigint", "messages"),
    ("seconds", "double", "seconds of the minute that samples cover"),
)
AUDIT: Columns = (
    ("at", "timestamp", "when"),
    ("actor", "string", "who"),
    ("access_key_id", "string", "with which AccessKey"),
    ("channel", "string", "page, api, sql or command"),
    ("source_ip", "string", "from where"),
    ("action", "string", "what, as in topics.topic.create"),
    ("resource", "string", "to what"),
    ("result", "string", "success, refused or failed"),
    ("detail", "string", "more, as JSON"),
    ("request_id", "string", "id of the request"),
)


def _task_type(name: str) -> str:
    if name in _TASK_TIMES:
        return "timestamp"
    return "bigint" if name in queries.INTEGER_COLUMNS else "string"


QUERY_TASKS: Columns = (
    *((name, _task_type(name), "as in show query_task") for name in queries.COLUMNS),
    ("submitter", "string", "user or role session that submitted it"),
    ("synchronous", "boolean", "a client waited for the rows"),
    ("source_ip", "string", "from where it was submitted"),
)


def find(actor: Actor, name: str) -> engine.TableSpec | None:
    """The table of this name, as `virtual.lookup` promises; its rows are read when the statement runs."""
    table = _TABLES.get(name.lower())
    if table is None or not table[1](actor):
        return None
    columns, _, rows = table
    return engine.TableSpec(
        name.lower(),
        "",
        "rows",
        tuple(engine.Column(column, kind) for column, kind, _ in columns),
        rows=partial(rows, actor),
    )


def names(actor: Actor) -> list[str]:
    """The tables that the caller may query."""
    return sorted(name for name, (_, may_read, _) in _TABLES.items() if may_read(actor))


def columns_of(name: str) -> Columns:
    """The columns of a table that `find` found."""
    return _TABLES[name][0]


def _samples(actor: Actor) -> Rows:
    """Sums per minute of the caller's own topics, of the last days."""
    topics: set[str] = set()
    for instance in Instance.objects.filter(tenant=actor.tenant).select_related("tenant"):
        visible = visible_topics(actor, instance, "mq:QueryTrend")
        topics.update(visible.values_list("physical_name", flat=True))
    first = (datetime.now(UTC) - timedelta(days=settings.SQL_SAMPLES_DAYS)).date()
    return engine.read_minutes(topics, first)


def _query_tasks(actor: Actor) -> Rows:
    for task in queries.visible_tasks(actor).order_by("-create_time")[: settings.SQL_SNAPSHOT_ROWS].iterator(_CHUNK):
        row = queries.row_of(task) | {"create_time": task.create_time, "update_time": task.update_time}
        yield (*(row[name] for name in queries.COLUMNS), task.submitter, task.synchronous, task.source_ip)


def _audit(actor: Actor) -> Rows:
    for entry in audit.entries(actor.tenant)[: settings.SQL_SNAPSHOT_ROWS].iterator(_CHUNK):
        detail = json.dumps(entry.detail, ensure_ascii=False, sort_keys=True) if entry.detail else None
        yield (
            entry.at,
            entry.actor,
            entry.access_key_id or None,
            entry.channel,
            entry.source_ip or None,
            entry.action,
            entry.resource or None,
            entry.result,
            detail,
            entry.request_id or None,
        )


def _may_read_samples(actor: Actor) -> bool:
    """Each topic is decided on its own; the table is there for everybody."""
    return True


def _may_read_tasks(actor: Actor) -> bool:
    return actor.decide("dla:QueryTask", service_resource("dla", actor.tenant), owner=actor.tenant).allowed


def _may_read_audit(actor: Actor) -> bool:
    return actor.decide("actiontrail:Read", service_resource("actiontrail", actor.tenant), owner=actor.tenant).allowed


_TABLES: dict[str, tuple[Columns, Callable[[Actor], bool], Callable[[Actor], Rows]]] = {
    "audit": (AUDIT, _may_read_audit, _audit),
    "query_tasks": (QUERY_TASKS, _may_read_tasks, _query_tasks),
    "samples": (SAMPLES, _may_read_samples, _samples),
}
