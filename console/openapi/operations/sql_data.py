"""Async SQL for programs: rows and files of results, and what there is to query."""

from __future__ import annotations

import time
from typing import Annotated

from pydantic import Field

from console.openapi.operations import sql_results
from console.openapi.operations.fields import Choice
from console.openapi.operations.sql import TaskOnly, found, readable
from console.openapi.operations.sql_results import Download, ResultPage, SqlColumn
from console.openapi.registry import Call, Parameters, operation
from console.sql import downloads, schema_tree
from console.web.errors import Refused

#: Rows that pages reach; all of them are in the file.
_REACHED = 100_000
_MOST_TABLES = 1000

TableName = Annotated[str, Field(min_length=1, max_length=255, description="The table.", examples=["flights"])]
Part = Annotated[str, Field(max_length=128, description="Part of the name.")]


class ResultQuery(TaskOnly):
    currentPage: Annotated[int, Field(ge=1, le=_REACHED, description="The page, from 1."), Choice] = 1
    pageSize: Annotated[int, Field(ge=1, le=1000, description="Rows a page, 1 to 1,000."), Choice] = 100


class SchemaOnly(Parameters):
    schemaName: Annotated[str, Field(min_length=1, max_length=64, description="The schema.", examples=["demo"])]


class TableSearch(SchemaOnly):
    text: Part = ""


class TableOnly(SchemaOnly):
    table: TableName


@operation(
    "sql/result",
    service="SQL",
    summary="Rows of a result, page by page",
    description="Pages reach the first 100,000 rows, since those in front of a page are read to find it; sql/download "
    "has all of them.",
    parameters=ResultQuery,
    result=ResultPage,
    errors=("BIZ_TASK_NOT_FOUND", "BIZ_RESULT_NOT_FOUND"),
    extension=True,
)
def result(call: Call, parameters: ResultQuery) -> ResultPage:
    task = found(call, parameters.id)
    skip = (parameters.currentPage - 1) * parameters.pageSize
    if skip >= _REACHED:
        message = f"Pages reach the first {_REACHED:,} rows; sql/download has all of them."
        raise Refused("BIZ_FIELD_CHECK_INVALID", message, "currentPage")
    rows = sql_results.part(task, skip, parameters.pageSize)
    return ResultPage(
        columns=rows.columns,
        rows=rows.rows,
        currentPage=parameters.currentPage,
        pageSize=parameters.pageSize,
        total=task.row_count,
    )


@operation(
    "sql/download",
    service="SQL",
    summary="An address of the result file",
    description="result.csv can be read there without a signature for 5 minutes: it streams, so that it may be of any "
    "size.",
    parameters=TaskOnly,
    result=Download,
    errors=("BIZ_TASK_NOT_FOUND", "BIZ_RESULT_NOT_FOUND"),
    extension=True,
)
def download(call: Call, parameters: TaskOnly) -> Download:
    task = found(call, parameters.id)
    sql_results.part(task, 0, 0)
    expires = int(time.time() * 1000) + downloads.VALID_SECONDS * 1000
    return Download(url=downloads.path_of(task), expiresAt=expires, size=task.result_bytes)


@operation(
    "sql/schemas",
    service="SQL",
    summary="Schemas that the caller may query",
    description="`mq` has the messages of topics, `gantry` has samples, tasks and the audit trail.",
    result=list[str],
    extension=True,
)
def schemas(call: Call, parameters: Parameters) -> list[str]:
    readable(call)
    return schema_tree.schemas(call.actor)


@operation(
    "sql/tables",
    service="SQL",
    summary="Tables of a schema that the caller may query",
    description="The first 1,000 by name whose name has the text.",
    parameters=TableSearch,
    result=list[str],
    errors=("BIZ_SCHEMA_NOT_FOUND",),
    extension=True,
)
def tables(call: Call, parameters: TableSearch) -> list[str]:
    _known(call, parameters.schemaName)
    return schema_tree.tables(call.actor, parameters.schemaName, parameters.text, _MOST_TABLES).names


@operation(
    "sql/columns",
    service="SQL",
    summary="Columns of a table",
    parameters=TableOnly,
    result=list[SqlColumn],
    errors=("BIZ_SCHEMA_NOT_FOUND", "BIZ_TABLE_NOT_FOUND"),
    extension=True,
)
def columns(call: Call, parameters: TableOnly) -> list[SqlColumn]:
    _known(call, parameters.schemaName)
    rows = schema_tree.columns(call.actor, parameters.schemaName, parameters.table)
    if not rows:
        message = f"There is no table {parameters.table} in schema {parameters.schemaName} that you may query."
        raise Refused("BIZ_TABLE_NOT_FOUND", message, "table")
    return [SqlColumn(name=column.name, type=column.type) for column in rows]


def _known(call: Call, schema: str) -> None:
    readable(call)
    if schema not in schema_tree.schemas(call.actor):
        raise Refused("BIZ_SCHEMA_NOT_FOUND", f"There is no schema {schema} that you may query.", "schemaName")
