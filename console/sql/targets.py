"""Where `insert …` and `create table … as …` write: who may, decided at submission and again at the run (docs/sql.md).

The query behind the head is guarded like any other; here is only what concerns the table that its rows go to.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import transaction

from analytics import run as engine
from console.accounts.access import require
from console.accounts.actor import Actor, dla_resource
from console.audit import services as audit
from console.sql import storage
from console.sql.ddl import formats, locations
from console.sql.models import ENDED, ExternalTable, QueryTask, Schema, TaskStatus
from console.sql.target_text import CreateTableAs, Insert, TargetStatement, parse
from console.web.after_commit import after_commit
from console.web.errors import Refused

__all__ = [
    "CreateTableAs",
    "Insert",
    "TargetStatement",
    "commit",
    "note_columns",
    "parse",
    "prepare",
    "reserve",
    "table_spec",
    "target_of",
]

INSERT = "dla:InsertTable"
CREATE = "dla:CreateTable"
#: What the task's name is in `show query_task`.
TASK_NAMES = {Insert: "INSERT", CreateTableAs: "CREATE_TABLE_AS_SELECT"}
#: Runs instead of a CREATE TABLE IF NOT EXISTS whose table exists.
NOTHING_TO_WRITE = "select cast(0 as bigint) as rows"
#: Buckets that only the console and its jobs write, whoever owns them.
_OURS = ("aliyun-oa-query-results-", "gantry-metrics", "gantry-archive")
#: Writers of one table that are asked about at once; earlier ones have cleaned up long ago.
_MOST_WRITERS = 200


def prepare(actor: Actor, parsed: TargetStatement, schema: str) -> dict[str, Any]:
    """Decide whether the actor may write there; returns what QueryTask.target keeps.

    `schema` is the default schema. Raises Refused for a table, column, bucket or location that is not there or not
    allowed, PermissionDenied without dla:InsertTable or dla:CreateTable on the table and dla:WriteBucket on its
    location.
    """
    found = locations.schema_of(actor, parsed.schema, schema)
    if isinstance(parsed, Insert):
        return _prepare_insert(actor, parsed, found)
    return _prepare_create(actor, parsed, found)


def _prepare_insert(actor: Actor, parsed: Insert, schema: Schema) -> dict[str, Any]:
    found = schema.tables.filter(name__iexact=parsed.table).first()
    # Before it is told that there is none: who may write nothing is not told which tables there are.
    name = found.name if found else parsed.table
    require(actor, INSERT, dla_resource(actor.tenant, schema.name, name), owner=actor.tenant)
    table = found or _table(schema, parsed.table)
    _require(actor, INSERT, schema, table.name, table.location)
    names = {column["name"].lower(): column["name"] for column in table.columns}
    partitions = {name.lower() for name in table.partitions}
    fixed = [name.lower() for name, _ in parsed.partition]
    _no_twice([*fixed, *(name.lower() for name in parsed.columns)], "the statement")
    for name in parsed.columns if names else ():
        if name.lower() not in names:
            known = ", ".join(names.values())
            raise Refused("COLUMN_NOT_FOUND", f"The table {table.name} has no column {name!r}; it has {known}.", "text")
    for name in fixed:
        if name not in partitions:
            known = ", ".join(table.partitions) or "none"
            message = f"{name!r} is no partition column of {table.name}; its partition columns: {known}."
            raise Refused("COLUMN_NOT_FOUND", message, "text")
    return {
        "statement": "insert",
        "schema": schema.name,
        "table": table.name,
        "location": table.location,
        "overwrite": parsed.overwrite,
        "columns": list(parsed.columns),
        "partition": [list(pair) for pair in parsed.partition],
    }


def _prepare_create(actor: Actor, parsed: CreateTableAs, schema: Schema) -> dict[str, Any]:
    locations.checked_name(parsed.table, "table")
    _no_twice([name.lower() for name in parsed.partitions], "PARTITIONED BY")
    require(actor, CREATE, dla_resource(actor.tenant, schema.name, parsed.table), owner=actor.tenant)
    location = parsed.location or locations.of_managed_table(schema, parsed.table)
    location = _require(actor, CREATE, schema, parsed.table, location)
    storage, options = _storage(parsed)
    exists = schema.tables.filter(name__iexact=parsed.table).exists()
    if exists and not parsed.if_not_exists:
        raise Refused("TABLE_EXISTS", f"The table {schema.name}.{parsed.table} exists already.", "text")
    return {
        "statement": "create",
        "schema": schema.name,
        "table": parsed.table,
        "if_not_exists": parsed.if_not_exists,
        "format": storage,
        "partitions": list(parsed.partitions),
        "location": location,
        "options": options,
        "comment": parsed.comment[:255],
        "managed": not parsed.location,
    }


def _storage(parsed: CreateTableAs) -> tuple[str, dict[str, str]]:
    """Format and options of the table, as DDL would have them."""
    name = {"": "parquet", "textfile": "csv"}.get(parsed.format, parsed.format)
    hive = {key: value for key, value in parsed.properties.items() if key.lower() in formats.HIVE_PROPERTIES}
    others = {key: value for key, value in parsed.properties.items() if key not in hive}
    options = formats.checked(name, parsed.options | others, 1)
    name, options = formats.Storage(format=parsed.format, options=options).resolved(hive)
    return name, formats.checked(name, options, 1)


def reserve(task: QueryTask) -> None:
    """Keep the name of the table that the task makes, in the transaction that makes the task.

    Raises Refused when another task is making a table of that name: of two at once, one is told at once.
    """
    if not task.target or task.target["statement"] != "create":
        return
    schema = Schema.objects.select_for_update().get(tenant=task.tenant, name=task.target["schema"])
    name = f"{schema.name}.{task.target['table']}"
    if not task.target["if_not_exists"] and schema.tables.filter(name__iexact=task.target["table"]).exists():
        raise Refused("TABLE_EXISTS", f"The table {name} exists already.", "text")
    unfinished = QueryTask.objects.exclude(pk=task.pk).filter(
        tenant=task.tenant, status__in=(TaskStatus.QUEUED, TaskStatus.RUNNING), target__statement="create"
    )
    for other in unfinished:
        if other.target is not None and _same_place(other.target, task.target):
            raise Refused("TABLE_EXISTS", f"The table {name} is being made by the task {other.pk}.", "text")


def _same_place(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two CREATE TABLE … AS would make the same table, or write to one folder."""
    same_name = (one["schema"], one["table"].lower()) == (other["schema"], other["table"].lower())
    return same_name or one["location"].startswith(other["location"]) or other["location"].startswith(one["location"])


def target_of(task: QueryTask, author: Actor | None) -> engine.Target | None:
    """Where the task's rows go, decided anew with the rights that its author has now.

    None when the task writes nowhere, and for CREATE TABLE IF NOT EXISTS when the table exists by now. Raises
    QueryRefused when it may not be written any more.
    """
    given = task.target
    if not given:
        return None
    if author is None:
        raise engine.QueryRefused("Nobody may write for this task any more: its author was disabled or deleted.")
    try:
        schema = locations.schema_of(author, given["schema"], "")
        if given["statement"] == "create":
            return _target_of_create(task, author, schema)
        table = _table(schema, given["table"])
        _require(author, INSERT, schema, table.name, table.location)
    except (Refused, PermissionDenied) as error:
        raise engine.QueryRefused(str(error)) from error
    return engine.Target(
        schema=schema.name,
        table=table_spec(table, locations.buckets_of(author.tenant)),
        overwrite=given["overwrite"],
        columns=tuple(given["columns"]),
        partition=tuple((name, value) for name, value in given["partition"]),
        turn=lambda: _turn(task, schema),
        decide=locations.decider(author, locations.WRITE),
        room=storage.room_of(task, storage.LAKE),
    )


def _target_of_create(task: QueryTask, author: Actor, schema: Schema) -> engine.Target | None:
    given: dict[str, Any] = task.target or {}
    _require(author, CREATE, schema, given["table"], given["location"])
    if schema.tables.filter(name__iexact=given["table"]).exists():
        if given["if_not_exists"]:
            return None
        raise Refused("TABLE_EXISTS", f"The table {schema.name}.{given['table']} exists already.")
    options = tuple(sorted(given["options"].items()))
    table = engine.TableSpec(
        given["table"], given["location"], given["format"], (), tuple(given["partitions"]), options
    )
    return engine.Target(
        schema=schema.name, table=table, create=True, turn=lambda: _turn(task, schema),
        decide=locations.decider(author, locations.WRITE), room=storage.room_of(task, storage.LAKE),
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
            raise engine.QueryCancelled("The task has ended, or was given to another worker.")
        others = QueryTask.objects.exclude(pk=task.pk).exclude(status=TaskStatus.SUCCESS)
        writers = others.filter(tenant=task.tenant, target__schema=given["schema"], target__table=given["table"])
        latest = writers.order_by("-create_time").values_list("pk", "status")[:_MOST_WRITERS]
        yield {pk: status in ENDED for pk, status in latest}


def note_columns(task: QueryTask, columns: list[engine.Column]) -> None:
    """Keep the columns of the table that the task has made, for `commit`."""
    if task.target and task.target["statement"] == "create" and columns:
        task.target = {**task.target, "columns": [{"name": c.name, "type": c.type} for c in columns]}
        QueryTask.objects.filter(pk=task.pk, attempts=task.attempts, worker=task.worker).update(target=task.target)


def commit(task: QueryTask, author: Actor | None) -> str:
    """Register the table that a task has made, and write into the trail what was written. In the ending transaction.

    Returns why the table cannot be registered, or an empty text.
    """
    given = task.target
    if not given or task.status != TaskStatus.SUCCESS:
        return ""
    name = f"{given['schema']}.{given['table']}"
    reason = _register(task, given, name) if given["statement"] == "create" and given.get("columns") else ""
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
        **{field: given[field] for field in _FIELDS_OF_A_TABLE},
    )  # fmt: skip
    return ""


_FIELDS_OF_A_TABLE = ("location", "format", "columns", "partitions", "options", "comment", "managed")


def table_spec(table: ExternalTable, owned: Collection[str]) -> engine.TableSpec:
    """A table in the words of analytics; what is stored is judged again, as if it were written now.

    `owned` are the buckets of the table's account.
    """
    columns = tuple(engine.Column(c["name"], c["type"]) for c in table.columns)
    options = tuple(sorted(table.options.items()))
    return engine.TableSpec(
        table.name,
        table.location,
        table.format,
        columns,
        tuple(table.partitions),
        options,
        may_be_empty=table.managed and bool(columns),
        problem=_problem(table, owned),
    )


def _problem(table: ExternalTable, owned: Collection[str]) -> str:
    """Why a stored table cannot be read: its rules may be older than those of now."""
    name = f"{table.schema.name}.{table.name}"
    again = "Drop it and make it again."
    try:
        place = locations.place_of(table.location)
        if table.format not in formats.FORMATS:
            return f"The table {name} cannot be used: its format is {table.format}. {again}"
        formats.checked(table.format, table.options, 1)
    except Refused as refused:
        return f"The table {name} cannot be used: {refused.message} {again}"
    if not place.key or place.bucket not in owned:
        return f"The table {name} cannot be used: its location {table.location} is no folder of your buckets. {again}"
    return ""


def _table(schema: Schema, name: str) -> ExternalTable:
    found = schema.tables.filter(name__iexact=name).first()
    if found is None:
        raise Refused("TABLE_NOT_FOUND", f"There is no table {name!r} in schema {schema.name}.", "text")
    return found


def _require(actor: Actor, action: str, schema: Schema, table: str, location: str) -> str:
    """The action on the table, and WriteBucket on its location, which lies in a bucket of the tenant; the location."""
    require(actor, action, dla_resource(actor.tenant, schema.name, table), owner=actor.tenant)
    bucket = locations.place_of(location).bucket
    if bucket.startswith(_OURS):
        message = f"The bucket {bucket} is written by the console alone; choose a bucket of your own."
        raise Refused("BUCKET_READ_ONLY", message, "text")
    return locations.checked(actor, location, locations.WRITE)


def _no_twice(names: list[str], where: str) -> None:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise Refused("COLUMN_TWICE", f"The column {twice!r} stands twice in {where}.", "text")
