"""What a task writes: its turn, its target at the run, and the table that stands there afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.utils.translation import gettext as _

from analytics import engine
from analytics.errors import QueryCancelled, QueryRefused
from analytics.specs import Column, TableSpec, Target
from console.accounts.actor import Actor, dla_resource
from console.audit import record as audit
from console.catalog import bucket_events, locations, storage
from console.catalog.models import ExternalTable, Schema
from console.catalog.targets import CREATE, FIELDS_OF_A_TABLE, INSERT, require_writing, table_of, table_spec
from console.sql import quota
from console.sql.models import ENDED, QueryTask, TaskStatus
from console.web.after_commit import after_commit
from console.web.errors import Refused

#: Writers of one table that are asked about at once; earlier ones have cleaned up long ago.
_MOST_WRITERS = 200


def reserve(task: QueryTask) -> None:
    """Keep the name of the table that the task makes, in the transaction that makes the task.

    Raises Refused when another task is making a table of that name: of two at once, one is told at once.
    """
    if not task.target or task.target["statement"] != "create":
        return
    schema = Schema.objects.select_for_update().get(tenant=task.tenant, name=task.target["schema"])
    name = f"{schema.name}.{task.target['table']}"
    if not task.target["if_not_exists"] and schema.tables.filter(name__iexact=task.target["table"]).exists():
        raise Refused("TABLE_EXISTS", _("The table %(name)s already exists.") % {"name": name}, "text")
    unfinished = QueryTask.objects.exclude(pk=task.pk).filter(
        tenant=task.tenant, status__in=(TaskStatus.QUEUED, TaskStatus.RUNNING), target__statement="create"
    )
    for other in unfinished:
        if other.target is not None and _same_place(other.target, task.target):
            raise Refused(
                "TABLE_EXISTS",
                _("The table %(name)s is being made by the task %(other)s.") % {"name": name, "other": other.pk},
                "text",
            )


def _same_place(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two CREATE TABLE … AS would make the same table, or write to one folder."""
    same_name = (one["schema"], one["table"].lower()) == (other["schema"], other["table"].lower())
    return same_name or one["location"].startswith(other["location"]) or other["location"].startswith(one["location"])


def target_of(task: QueryTask, author: Actor | None) -> Target | None:
    """Where the task's rows go, decided anew with the rights that its author has now.

    None when the task writes nowhere, and for CREATE TABLE IF NOT EXISTS when the table exists by now. Raises
    QueryRefused when it may not be written any more.
    """
    given = task.target
    if not given:
        return None
    if author is None:
        raise QueryRefused(_("Nobody may write for this task: its author was disabled or deleted."))
    try:
        schema = locations.schema_of(author, given["schema"], "")
        if given["statement"] == "create":
            return _target_of_create(task, author, schema)
        table = table_of(schema, given["table"])
        require_writing(author, INSERT, schema, table.name, table.location)
    except (Refused, PermissionDenied) as error:
        raise QueryRefused(str(error)) from error
    return Target(
        schema=schema.name,
        table=table_spec(table, locations.buckets_of(author.tenant)),
        overwrite=given["overwrite"],
        columns=tuple(given["columns"]),
        partition=tuple((name, value) for name, value in given["partition"]),
        turn=lambda: _turn(task, schema),
        decide=locations.decider(author, locations.WRITE),
        room=quota.room_of(task, storage.LAKE),
    )


def _target_of_create(task: QueryTask, author: Actor, schema: Schema) -> Target | None:
    given: dict[str, Any] = task.target or {}
    require_writing(author, CREATE, schema, given["table"], given["location"])
    if schema.tables.filter(name__iexact=given["table"]).exists():
        if given["if_not_exists"]:
            return None
        raise Refused(
            "TABLE_EXISTS",
            _("The table %(schema)s.%(table)s already exists.") % {"schema": schema.name, "table": given["table"]},
        )
    options = tuple(sorted(given["options"].items()))
    table = TableSpec(given["table"], given["location"], given["format"], (), tuple(given["partitions"]), options)
    return Target(
        schema=schema.name, table=table, create=True, turn=lambda: _turn(task, schema),
        decide=locations.decider(author, locations.WRITE), room=quota.room_of(task, storage.LAKE),
    )  # fmt: skip


@contextmanager
def _turn(task: QueryTask, schema: Schema) -> Iterator[dict[str, bool]]:
    """Nobody else changes the table's files meanwhile; gives its other writers, and whether each has ended.

    A lock of the database on the schema's row, so that it goes with the process that holds it.
    """
    given: dict[str, Any] = task.target or {}
    with transaction.atomic():
        Schema.objects.select_for_update().filter(pk=schema.pk).first()
        held = QueryTask.objects.filter(pk=task.pk, attempts=task.attempts, worker=task.worker)
        if not held.filter(status=TaskStatus.RUNNING).exists():
            raise QueryCancelled("The task has ended, or was given to another worker.")
        others = QueryTask.objects.exclude(pk=task.pk).exclude(status=TaskStatus.SUCCESS)
        writers = others.filter(tenant=task.tenant, target__schema=given["schema"], target__table=given["table"])
        latest = writers.order_by("-create_time").values_list("pk", "status")[:_MOST_WRITERS]
        yield {pk: status in ENDED for pk, status in latest}


def note_columns(task: QueryTask, columns: list[Column]) -> None:
    """Keep the columns of the table that the task has made, for `commit`."""
    if task.target and task.target["statement"] == "create" and columns:
        task.target = {**task.target, "columns": [{"name": c.name, "type": c.type} for c in columns]}
        QueryTask.objects.filter(pk=task.pk, attempts=task.attempts, worker=task.worker).update(target=task.target)


def note_files(task: QueryTask, author: Actor | None) -> None:
    """Keep which files the task has put in place and removed, if somebody wants to hear of them. Raises LakeError."""
    if task.target and bucket_events.is_told(task.tenant, task.target["location"]):
        written, removed = engine.files_of_write(task.target["location"], task.pk)
        if written or removed:
            bucket_events.note(author, task.tenant, task.pk, written, removed)


def commit(task: QueryTask, author: Actor | None) -> str:
    """Register the table that a task has made, and write into the trail what was written. In the ending transaction.

    Returns why the table cannot be registered, or an empty text.
    """
    given = task.target
    if not given:
        return ""
    if task.status != TaskStatus.SUCCESS:
        bucket_events.confirm(task.pk)  # what is in place stays there, however the task has ended
        return ""
    name = f"{given['schema']}.{given['table']}"
    reason = _register(task, given, name) if given["statement"] == "create" and given.get("columns") else ""
    (bucket_events.forget if reason else bucket_events.confirm)(task.pk)
    cleared = engine.discard_write if reason else engine.forget_write
    after_commit(cleared, given["location"], task.pk)
    is_written = given["statement"] == "insert" or given.get("columns")
    if author is not None and is_written and not reason:
        verb = "create" if given["statement"] == "create" else "insert"
        resource = dla_resource(task.tenant, given["schema"], given["table"])
        audit.record(author, f"sql.table.{verb}", resource, detail={"task": task.pk, "rows": task.row_count})
    return reason


def _register(task: QueryTask, given: dict[str, Any], name: str) -> str:
    """Make the row of the table; returns why that cannot be."""
    schema = Schema.objects.select_for_update().filter(tenant=task.tenant, name=given["schema"]).first()
    if schema is None:
        return f"The schema {given['schema']} was dropped while its table {given['table']} was made."
    if schema.tables.filter(name__iexact=given["table"]).exists():
        return f"The table {name} was made by somebody else meanwhile."
    ExternalTable.objects.create(
        schema=schema, name=given["table"],
        **{field: given[field] for field in FIELDS_OF_A_TABLE},
    )  # fmt: skip
    return ""
