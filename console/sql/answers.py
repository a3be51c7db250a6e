"""The one door to every statement that the console answers without Spark: for MySQL clients, the editor and the API."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from django.db.models import QuerySet
from django.utils.translation import gettext as _
from sqlglot import exp

from console import statements
from console.accounts.access import require
from console.accounts.actor import Actor, service_resource
from console.catalog import ddl, definitions, describe
from console.catalog.describe import Answer, Cells
from console.catalog.information_schema import answering, rows
from console.catalog.queries import INFORMATION_SCHEMA
from console.sql import queries, services, task_search
from console.sql.models import QueryTask
from console.statements import Statement, Subject, parsers, show
from console.statements.like import is_like
from console.web.errors import Refused

QUERY = "dla:QueryTask"


def answer(actor: Actor, statement: Statement, schema: str) -> Answer | None:
    """The answer to a parsed statement; None when Spark, or the client's own connection, has to answer it.

    `schema` is the default schema, empty when none is chosen. Raises Refused, PermissionDenied, UnknownSchemaError and
    UnknownTableError.
    """
    if isinstance(statement, statements.Query) and schema.lower() == INFORMATION_SCHEMA:
        return _within_information_schema(actor, statement.text)
    reader = _READERS.get(type(statement))
    return reader(actor, statement, schema) if reader is not None else None


def _within_information_schema(actor: Actor, text: str) -> Answer | None:
    """A query while `information_schema` is the default schema; None when it names no table, or others."""
    try:
        query = parsers.query(answering.with_quoted_tables(text), actor.tenant.uid)
    except Refused:
        return None
    tables = list(query.find_all(exp.Table))
    own = tables and all(not table.db or table.db.lower() == INFORMATION_SCHEMA for table in tables)
    return answering.answer(actor, query, INFORMATION_SCHEMA) if own else None


def _databases(actor: Actor, statement: statements.ShowDatabases, schema: str) -> Answer:
    return answering.where(describe.schemas(actor, statement.like), statement.where, actor.tenant.uid)


def _tables(actor: Actor, statement: statements.ShowTables, schema: str) -> Answer:
    found = describe.tables(actor, _chosen(statement.schema, schema), statement.like, full=statement.full)
    return answering.where(found, statement.where, actor.tenant.uid)


def _columns(actor: Actor, statement: statements.ShowColumns, schema: str) -> Answer:
    named = _chosen(statement.schema, schema)
    found = describe.columns(actor, named, statement.table, statement.like, full=statement.full)
    return answering.where(found, statement.where, actor.tenant.uid)


def _status(actor: Actor, statement: statements.ShowTableStatus, schema: str) -> Answer:
    found = definitions.table_status(actor, _chosen(statement.schema, schema), statement.like)
    return answering.where(found, statement.where, actor.tenant.uid)


def _create_schema(actor: Actor, statement: statements.ShowCreateSchema, schema: str) -> Answer:
    return definitions.show_create_schema(actor, statement.schema)


def _create_table(actor: Actor, statement: statements.ShowCreateTable, schema: str) -> Answer:
    return definitions.show_create_table(actor, _chosen(statement.schema, schema), statement.table)


def _described(actor: Actor, statement: statements.DescribeTable, schema: str) -> Answer:
    return definitions.describe(actor, _chosen(statement.schema, schema), statement.table)


def _partitions(actor: Actor, statement: statements.ShowPartitions, schema: str) -> Answer:
    return definitions.show_partitions(actor, _chosen(statement.schema, schema), statement.table)


def _list(actor: Actor, statement: statements.ShowList, schema: str) -> Answer:
    columns, known = _LISTS[statement.kind]
    found = Answer(columns, [row for row in known if is_like(str(row[0]), statement.like)])
    return answering.where(found, statement.where, actor.tenant.uid)


def _connection(actor: Actor, statement: statements.ShowConnection, schema: str) -> Answer | None:
    """For who has no connection: nothing was warned of, and of other connections nothing is said."""
    columns = _OF_CONNECTIONS.get(statement.subject)
    return Answer(columns, []) if columns else None


def _nothing(actor: Actor, statement: statements.ShowNothing, schema: str) -> Answer:
    return Answer(statement.columns, [])


def _information_schema(actor: Actor, statement: statements.InformationSchemaQuery, schema: str) -> Answer:
    return answering.answer(actor, parsers.query(statement.text, actor.tenant.uid), schema)


def _task(actor: Actor, statement: statements.ShowTask, schema: str) -> Answer:
    """An id that is unknown, or another user's, has no row."""
    return _task_rows(_tasks_of(actor).filter(pk=statement.task_id))


def _tasks(actor: Actor, statement: statements.SearchTasks, schema: str) -> Answer:
    return _task_rows(task_search.search(_tasks_of(actor), statement.clauses, statement.like, actor.tenant.uid))


def _tasks_of(actor: Actor) -> QuerySet[QueryTask]:
    require(actor, QUERY, service_resource("dla", actor.tenant), owner=actor.tenant)
    return queries.visible_tasks(actor)


def _task_rows(tasks: Iterable[QueryTask]) -> Answer:
    found: list[Cells] = [tuple(queries.row_of(task).values()) for task in tasks]
    return Answer(queries.COLUMNS, found, integers=queries.INTEGER_COLUMNS)


def _cancel(actor: Actor, statement: statements.CancelTask, schema: str) -> Answer:
    """Cancel all, or none when one of them is not there."""
    found = {task.pk: task for task in queries.visible_tasks(actor).filter(pk__in=statement.task_ids)}
    missing = next((task_id for task_id in statement.task_ids if task_id not in found), None)
    if missing is not None:
        raise Refused("TASK_NOT_FOUND", _("You have no task %(missing)r.") % {"missing": missing}, "text")
    return Answer((), [], affected=sum(services.cancel(actor, task) for task in found.values()))


def _chosen(named: str | None, default: str) -> str:
    schema = named or default
    if not schema:
        raise Refused("SCHEMA_NOT_CHOSEN", _("No schema is chosen: write `use <schema>` first."), "schema")
    return schema


def _define(actor: Actor, statement: statements.Ddl, schema: str) -> Answer:
    return ddl.run(actor, statement.text, schema)


#: Headers and rows of `show …` lists, in MySQL's spelling.
_LISTS: dict[str, tuple[tuple[str, ...], list[Cells]]] = {
    "COLLATIONS": (("Collation", "Charset", "Id", "Default", "Compiled", "Sortlen", "Pad_attribute"), rows.COLLATIONS),
    "CHARACTER_SETS": (
        ("Charset", "Description", "Default collation", "Maxlen"),
        [(name, description, collation, length) for name, collation, description, length in rows.CHARACTER_SETS],
    ),
    "ENGINES": (("Engine", "Support", "Comment", "Transactions", "XA", "Savepoints"), rows.ENGINES),
}
_OF_CONNECTIONS = {
    Subject.WARNINGS: show.WARNING_COLUMNS,
    Subject.ERRORS: show.WARNING_COLUMNS,
    Subject.WARNING_COUNT: show.WARNING_COLUMNS,
    Subject.ERROR_COUNT: show.WARNING_COLUMNS,
    Subject.STATUS: show.STATUS_COLUMNS,
    Subject.PRIVILEGES: show.PRIVILEGE_COLUMNS,
}
_READERS: dict[type, Callable[[Actor, Any, str], Answer | None]] = {
    statements.ShowDatabases: _databases,
    statements.ShowTables: _tables,
    statements.ShowColumns: _columns,
    statements.ShowTableStatus: _status,
    statements.ShowCreateSchema: _create_schema,
    statements.ShowCreateTable: _create_table,
    statements.DescribeTable: _described,
    statements.ShowPartitions: _partitions,
    statements.ShowList: _list,
    statements.ShowConnection: _connection,
    statements.ShowNothing: _nothing,
    statements.InformationSchemaQuery: _information_schema,
    statements.ShowTask: _task,
    statements.SearchTasks: _tasks,
    statements.CancelTask: _cancel,
    statements.Ddl: _define,
}
