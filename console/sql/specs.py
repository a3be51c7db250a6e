"""A query task in the words of analytics: what to run, and what its author may read and write at this moment."""

from __future__ import annotations

from django.conf import settings
from django.utils import timezone

from analytics import lake
from analytics.specs import QuerySpec
from console.accounts.actor import Actor, acting_later
from console.catalog import locations, queries, storage, targets, virtual
from console.outbox.models import Notification
from console.sql import quota, writes
from console.sql.models import QueryTask


def spec_of(task: QueryTask) -> QuerySpec:
    """What analytics is told: the statement, the tables that its author may query now, and where its rows go.

    Raises QueryRefused when the author may not write there any more.
    """
    author = author_of(task)
    readable = queries.readable_schemas(author) if author else {}
    target = writes.target_of(task, author)
    owned = locations.buckets_of(task.tenant)
    return QuerySpec(
        task_id=task.pk,
        tenant=task.tenant.uid,
        sql=targets.NOTHING_TO_WRITE if task.target and target is None else task.statement,
        schema=task.table_schema,
        tables={schema: [targets.table_spec(t, owned) for t in tables] for schema, tables in readable.items()},
        parameters=tuple(task.parameters),
        result_file=lake.result_location(
            task.tenant.uid, settings.REGION, task.pk, timezone.localdate(task.create_time)
        ),
        time_limit_s=float(settings.SQL_SYNC_SECONDS if task.synchronous else settings.SQL_TIME_LIMIT_S),
        max_result_rows=settings.SQL_SYNC_ROWS if task.synchronous else None,
        max_result_bytes=settings.SQL_SYNC_BYTES if task.synchronous else None,
        lookup=virtual.lookup(author) if author else None,
        explain=task.explain or None,
        target=target,
        synchronous=task.synchronous,
        decide=locations.decider(author, locations.READ) if author else None,
        result_room=quota.room_of(task, storage.RESULTS) if not task.target else None,
    )


def author_of_notification(notification: Notification) -> Actor | None:
    """As `author_of`, of the task that the notification tells of; None too when the task is gone."""
    tasks = QueryTask.objects.select_related("tenant", "creator", "role__tenant")
    task = tasks.filter(notification=notification).first()
    return author_of(task) if task is not None else None


def author_of(task: QueryTask) -> Actor | None:
    """Who submitted the task, with the rights of now; None for who, or whose account, was disabled or deleted since."""
    return acting_later(
        tenant=task.tenant,
        user=task.creator,
        role=task.role,
        source_ip=task.source_ip,
        secure=task.secure_transport,
        request_id=task.pk,
    )
