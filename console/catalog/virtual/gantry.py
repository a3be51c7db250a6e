"""The tables of schema `gantry`: what Gantry itself knows of the caller's account, as of the start of a statement.

Their rows are read by the console, within the caller's rights, and given to Spark as a snapshot
(docs/use/messages-in-sql.md).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

from django.conf import settings

from analytics.samples.series import read_minutes
from analytics.specs import Column, TableSpec
from console.accounts.actor import Actor, service_resource
from console.audit import queries as audit
from console.instances.models import Instance
from console.metrics.sampler import in_lake
from console.topics.queries import visible_topics
from console.web.provided import Provided

SCHEMA = "gantry"
Rows = Iterator[tuple[object, ...]]
Columns = tuple[tuple[str, str, str], ...]
_CHUNK = 1_000

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
    ("channel", "string", "page, api, mcp, sql, broker, queues or command"),
    ("source_ip", "string", "from where"),
    ("action", "string", "what, as in topics.topic.create"),
    ("resource", "string", "to what"),
    ("result", "string", "success, refused or failed"),
    ("detail", "string", "more, as JSON"),
    ("request_id", "string", "id of the request"),
)


@dataclass(frozen=True)
class Table:
    """One table: its columns, whom it is there for, and its rows for one of those."""

    columns: Columns
    may_read: Callable[[Actor], bool]
    rows: Callable[[Actor], Rows]


query_tasks = Provided[Table](f"{__name__}.query_tasks", "console.sql")


def find(actor: Actor, name: str) -> TableSpec | None:
    """The table of this name, as `virtual.lookup` promises; its rows are read when the statement runs."""
    table = _tables().get(name.lower())
    if table is None or not table.may_read(actor):
        return None
    return TableSpec(
        name.lower(),
        "",
        "rows",
        tuple(Column(column, kind) for column, kind, _ in table.columns),
        rows=partial(table.rows, actor),
    )


def names(actor: Actor) -> list[str]:
    """The tables that the caller may query."""
    return sorted(name for name, table in _tables().items() if table.may_read(actor))


def columns_of(name: str) -> Columns:
    """The columns of a table that `find` found."""
    return _tables()[name].columns


def _samples(actor: Actor) -> Rows:
    """Sums per minute of the caller's own topics, of the last days."""
    topics: dict[str, str] = {}
    for instance in Instance.objects.filter(tenant=actor.tenant).select_related("tenant", "cluster"):
        visible = visible_topics(actor, instance, "mq:QueryTrend")
        names = visible.values_list("physical_name", flat=True)
        topics |= {in_lake(instance.cluster, name): name for name in names}
    first = (datetime.now(UTC) - timedelta(days=settings.SQL_SAMPLES_DAYS)).date()
    return _renamed(read_minutes(set(topics), first), topics)


def _renamed(rows: Iterable[tuple[object, ...]], topics: Mapping[str, str]) -> Rows:
    """The rows with each topic's name on the wire, without the cluster that the lake may put before it."""
    for kind, topic, *rest in rows:
        yield (kind, topics[str(topic)], *rest)


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


def _may_read_audit(actor: Actor) -> bool:
    return actor.decide("actiontrail:Read", service_resource("actiontrail", actor.tenant), owner=actor.tenant).allowed


def _tables() -> dict[str, Table]:
    return {
        "audit": Table(AUDIT, _may_read_audit, _audit),
        "query_tasks": query_tasks.get(),
        "samples": Table(SAMPLES, _may_read_samples, _samples),
    }
