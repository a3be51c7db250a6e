"""The one door to every statement that the console answers without Spark: for MySQL clients, the editor and the API."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from django.db.models import QuerySet

from console.accounts.access import require
from console.accounts.actor import Actor, service_resource
from console.sql import catalog, ddl, queries, services, statements, task_search
from console.sql.catalog import Answer
from console.sql.models import QueryTask
from console.sql.statements import Statement
from console.web.errors import Refused

QUERY = "dla:QueryTask"


def answer(actor: Actor, statement: Statement, schema: str) -> Answer | None:
    """The answer to a parsed statement; None when Spark, or the client's own connection, has to answer it.

    `schema` is the default schema, empty when none is chosen. Raises Refused, PermissionDenied, UnknownSchemaError and
    UnknownTableError.
    """
    reader = _READERS.get(type(statement))
    return reader(actor, statement, schema) if reader is not None else None


def _databases(actor: Actor, statement: statements.ShowDatabases, schema: str) -> Answer:
    return catalog.schemas(actor, statement.like)


def _tables(actor: Actor, statement: statements.ShowTables, schema: str) -> Answer:
    return catalog.tables(actor, _chosen(statement.schema, schema), statement.like, full=statement.full)


def _columns(actor: Actor, statement: statements.ShowColumns, schema: str) -> Answer:
    named = _chosen(statement.schema, schema)
    return catalog.columns(actor, named, statement.table, statement.like, full=statement.full)


def _task(actor: Actor, statement: statements.ShowTask, schema: str) -> Answer:
    """An id that is unknown, or another user's, has no row."""
    return _task_rows(_tasks_of(actor).filter(pk=statement.task_id))


def _tasks(actor: Actor, statement: statements.SearchTasks, schema: str) -> Answer:
    return _task_rows(task_search.search(_tasks_of(actor), statement.clauses, statement.like))


def _tasks_of(actor: Actor) -> QuerySet[QueryTask]:
    require(actor, QUERY, service_resource("dla", actor.tenant), owner=actor.tenant)
    return queries.visible_tasks(actor)


def _task_rows(tasks: Iterable[QueryTask]) -> Answer:
    rows = [tuple(queries.row_of(task).values()) for task in tasks]
    return Answer(queries.COLUMNS, rows, integers=queries.INTEGER_COLUMNS)


def _cancel(actor: Actor, statement: statements.CancelTask, schema: str) -> Answer:
    """Cancel all, or none when one of them is not there."""
    found = {task.pk: task for task in queries.visible_tasks(actor).filter(pk__in=statement.task_ids)}
    missing = next((task_id for task_id in statement.task_ids if task_id not in found), None)
    if missing is not None:
        raise Refused("TASK_NOT_FOUND", f"There is no task {missing!r} of yours.", "text")
    return Answer((), [], affected=sum(services.cancel(actor, task) for task in found.values()))


def _chosen(named: str | None, default: str) -> str:
    schema = named or default
    if not schema:
        raise Refused("SCHEMA_NOT_CHOSEN", "No schema is chosen: write `use <schema>` first.", "schema")
    return schema


def _define(actor: Actor, statement: statements.Ddl, schema: str) -> Answer:
    return ddl.run(actor, statement.text, schema)


_READERS: dict[type, Callable[[Actor, Any, str], Answer]] = {
    statements.ShowDatabases: _databases,
    statements.ShowTables: _tables,
    statements.ShowColumns: _columns,
    statements.ShowTask: _task,
    statements.SearchTasks: _tasks,
    statements.CancelTask: _cancel,
    statements.Ddl: _define,
}
