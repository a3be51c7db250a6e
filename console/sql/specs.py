"""A query task in the words of analytics: what to run, and what its author may read at this moment."""

from __future__ import annotations

from django.conf import settings
from django.utils import timezone

from analytics import run as engine
from console.accounts.actor import Actor
from console.sql import queries, virtual
from console.sql.models import ExternalTable, QueryTask


def spec_of(task: QueryTask) -> engine.QuerySpec:
    """What analytics is told: the statement, and the tables that its author may query now."""
    author = author_of(task)
    readable = queries.readable_schemas(author) if author else {}
    return engine.QuerySpec(
        task_id=task.pk,
        tenant=task.tenant.uid,
        sql=task.statement,
        schema=task.table_schema,
        tables={schema: [_table(t) for t in tables] for schema, tables in readable.items()},
        parameters=tuple(task.parameters),
        result_file=engine.result_location(
            task.tenant.uid, settings.REGION, task.pk, timezone.localdate(task.create_time)
        ),
        time_limit_s=float(settings.SQL_SYNC_SECONDS if task.synchronous else settings.SQL_TIME_LIMIT_S),
        max_result_rows=settings.SQL_SYNC_ROWS if task.synchronous else None,
        max_result_bytes=settings.SQL_SYNC_BYTES if task.synchronous else None,
        lookup=virtual.lookup(author) if author else None,
        explain=task.explain or None,
    )


def author_of(task: QueryTask) -> Actor | None:
    """Who submitted the task, with the rights of now; None for who, or whose account, was disabled or deleted since."""
    user, role = task.creator, task.role
    if not task.tenant.enabled or (user is None and role is None) or (user is not None and not user.is_active):
        return None
    return Actor(
        user=user, role=role, channel="sql", source_ip=task.source_ip, secure=task.secure_transport, request_id=task.pk
    )


def _table(table: ExternalTable) -> engine.TableSpec:
    columns = tuple(engine.Column(c["name"], c["type"]) for c in table.columns)
    options = tuple(sorted(table.options.items()))
    return engine.TableSpec(table.name, table.location, table.format, columns, tuple(table.partitions), options)
