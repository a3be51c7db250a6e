"""Async SQL for programs: submit, follow and cancel statements, read results, see what there is to query.

See docs/use/sql.md.

All of it is ours, not the vendor's.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from itertools import islice
from typing import Annotated, Any, cast

from pydantic import Field, create_model

from analytics import lake
from analytics.errors import LakeError
from console.accounts.access import require
from console.accounts.actor import service_resource
from console.catalog import schema_tree
from console.catalog.describe import Answer
from console.openapi import envelope
from console.openapi.envelope import Page
from console.openapi.registry import Call, Choice, ListPage, ListSize, Parameters, Result, operation
from console.sql import queries, results, runs, services
from console.sql.models import QueryTask, TaskStatus
from console.sql.services import Parameter
from console.statements import LONGEST_STATEMENT
from console.web import fair_queue
from console.web.errors import Refused

Value = str | int | float | bool | None
_INTEGERS = frozenset({"tinyint", "smallint", "int", "bigint"})
_PLAN_LINES = 10_000

_READ = "dla:QueryTask"
_RUN = "dla:SubmitQuery|dla:CreateSchema"
"""What some statement can be run with; the statement says what it needs itself."""
_MOST_PARAMETERS = 1000
#: How often a call that waits looks at its task, seconds: at first often, since most statements are short.
_LOOKS = (0.05, 0.1, 0.2, 0.5)
_SYMBOLS = {
    "SCHEMA_NOT_FOUND": "BIZ_SCHEMA_NOT_FOUND",
    "SCHEMA_NOT_CHOSEN": "BIZ_SCHEMA_NOT_FOUND",
    "TABLE_NOT_FOUND": "BIZ_TABLE_NOT_FOUND",
    "TASK_NOT_FOUND": "BIZ_TASK_NOT_FOUND",
    "TOO_MANY_WAITING": envelope.THROTTLED,
}
_STATEMENT_ERRORS = ("BIZ_STATEMENT_REFUSED", "BIZ_SCHEMA_NOT_FOUND", "BIZ_TABLE_NOT_FOUND", "BIZ_TASK_NOT_FOUND")

Text = Annotated[
    str,
    Field(
        min_length=1,
        max_length=LONGEST_STATEMENT,
        description="The statement, with or without a hint in front.",
        examples=["select carrier, count(*) from flights group by carrier"],
    ),
]
SchemaName = Annotated[str, Field(max_length=64, description="The default schema.", examples=["demo"])]
Values = Annotated[
    str,
    Field(
        max_length=1_000_000,
        description="Values for the ? of the statement, in order, as a JSON list of texts, numbers, true, false, null.",
        examples=['["UA", 10]'],
    ),
]
Seconds = Annotated[int, Field(ge=0, le=30, description="How long to wait for the end, 0 to 30 s."), Choice]
Limit = Annotated[int, Field(ge=1, le=10_000, description="Rows to return at most, 1 to 10,000."), Choice]
TaskId = Annotated[
    str, Field(min_length=1, max_length=40, description="ID of the task.", examples=["q202603011200mq0123456789abcde"])
]

#: Rows that pages reach; all of them are in the file.
_REACHED = 100_000
_MOST_TABLES = 1000

TableName = Annotated[str, Field(min_length=1, max_length=255, description="The table.", examples=["flights"])]
Part = Annotated[str, Field(max_length=128, description="Part of the name.")]


class SqlColumn(Result):
    """A column of a result."""

    name: str
    type: str = Field(description="Spark's name of the type; empty for what the console answers.")


class SqlRows(Result):
    """Rows: whole numbers, floats and booleans as such, null as null, all else, decimals among it, as exact text."""

    columns: list[SqlColumn]
    rows: list[list[Value]]


class Answered(Result):
    id: str = Field(description="The task; empty for what the console answers by itself.")
    answer: SqlRows | None = Field(description="The rows of what the console answers by itself, else null.")


class Outcome(SqlRows):
    id: str = Field(description="The task; empty for what the console answers by itself.")
    status: str = Field(description="SUCCESS, FAILURE, CANCELLED, or RUNNING when it takes longer.")
    reason: str = Field(description="Why it failed, with the place; else empty.")
    rowCount: int = Field(description="Rows of the whole result.")


class Plan(Result):
    id: str
    status: str = Field(description="As in sql/query.")
    reason: str
    plan: str = Field(description="Spark's text; empty until the task has ended.")


class Cancelled(Result):
    cancelled: bool


class SentAgain(Result):
    sentAgain: bool


class Progress(Result):
    """Of a running statement, as far as its stages are known."""

    stages: int
    stagesDone: int
    tasks: int
    tasksDone: int


class ResultPage(SqlRows):
    currentPage: int
    pageSize: int
    total: int = Field(description="Rows of the whole result.")


class Download(Result):
    url: str = Field(description="Path on this server. Whoever has it may read the file until it expires.")
    expiresAt: int = Field(description="Milliseconds since the epoch.")
    size: int = Field(description="Bytes, 0 when not known.")


def _task_row() -> type[Result]:
    """The 27 columns by their names, and what only the console knows."""
    columns: dict[str, Any] = {
        name: (int | None if name in queries.INTEGER_COLUMNS else str | None, ...) for name in queries.COLUMNS
    }
    more: dict[str, Any] = {
        "progress": (Progress | None, Field(description="Null unless it runs and its stages are known.")),
        "waitingBefore": (int | None, Field(description="Statements of the account in front of a waiting one.")),
    }
    return create_model("TaskRow", __base__=Result, __doc__="A task.", **columns, **more)


TaskRow = _task_row()


def row(task: QueryTask) -> Result:
    """A task as the API tells it. Times are UTC texts, as in `show query_task`."""
    known = task.progress or {}
    told = {name: int(known.get(name) or 0) for name in ("stages", "stages_done", "tasks", "tasks_done")}
    running = task.status == TaskStatus.RUNNING and any(told.values())
    progress = Progress(
        stages=told["stages"], stagesDone=told["stages_done"], tasks=told["tasks"], tasksDone=told["tasks_done"]
    )
    more = {"progress": progress if running else None, "waitingBefore": queries.waiting_before(task)}
    return TaskRow(**queries.row_of(task), **more)


def answered(started: QueryTask | Answer) -> Answered:
    """What sql/submit returns."""
    if isinstance(started, QueryTask):
        return Answered(id=started.pk, answer=None)
    return Answered(id="", answer=rows_of_answer(started))


def rows_of_answer(answer: Answer, limit: int | None = None) -> SqlRows:
    """The rows that the console gave by itself."""
    columns = [SqlColumn(name=name, type="") for name in answer.columns]
    return SqlRows(columns=columns, rows=[list(cells) for cells in answer.rows[:limit]])


def outcome_of_answer(answer: Answer, limit: int) -> Outcome:
    """What sql/query returns for what the console gave by itself."""
    rows = rows_of_answer(answer, limit)
    count = len(answer.rows) if answer.columns else answer.affected
    return Outcome(columns=rows.columns, rows=rows.rows, id="", status="SUCCESS", reason="", rowCount=count)


def outcome(task: QueryTask, limit: int) -> Outcome:
    """What sql/query returns for a task, ended or not."""
    rows = part(task, 0, limit) if task.result_file else SqlRows(columns=[], rows=[])
    return Outcome(
        columns=rows.columns, rows=rows.rows, id=task.pk, status=_status(task), reason=task.message,
        rowCount=task.row_count,
    )  # fmt: skip


def plan(started: QueryTask | Answer) -> Plan:
    """What sql/explain returns."""
    if isinstance(started, Answer):
        text = "\n".join(str(cells[0]) for cells in started.rows if cells)
        return Plan(id="", status="SUCCESS", reason="", plan=text)
    lines = part(started, 0, _PLAN_LINES).rows if started.result_file else []
    text = "\n".join(str(line[0] or "") for line in lines if line)
    return Plan(id=started.pk, status=_status(started), reason=started.message, plan=text)


def part(task: QueryTask, skip: int, limit: int) -> SqlRows:
    """`limit` rows behind the first `skip`, exact. Raises Refused when there is no result (any more)."""
    if not task.result_file:
        said = "has failed" if task.ended else "has not ended yet"
        raise Refused("BIZ_RESULT_NOT_FOUND", f"The task {task.pk} has no result: it {said}.", "id")
    try:
        names, lines = lake.read_result(task.result_file)
        with closing(cast(Any, lines)):
            return _typed(task, names, islice(lines, skip, skip + limit))
    except LakeError as error:
        message = f"The result of {task.pk} is not there any more: {error.user_message}."
        raise Refused("BIZ_RESULT_NOT_FOUND", message, "id") from error


def _typed(task: QueryTask, names: list[str], lines: Iterable[list[str | None]]) -> SqlRows:
    known = [str(column.get("type", "")) for column in task.result_columns]
    types = known if len(known) == len(names) else [""] * len(names)
    columns = [SqlColumn(name=name, type=kind) for name, kind in zip(names, types, strict=True)]
    readers = [_READERS.get(kind, _text) for kind in types]
    rows = [
        [None if cell is None else read(cell) for read, cell in zip(readers, cells, strict=True)] for cells in lines
    ]
    return SqlRows(columns=columns, rows=rows)


def _text(cell: str) -> Value:
    return cell


def _integer(cell: str) -> Value:
    return int(cell)


def _float(cell: str) -> Value:
    """NaN and the infinities stay texts: JSON has no numbers for them."""
    try:
        value = float(cell)
    except ValueError:
        return cell
    return value if abs(value) < float("inf") else cell


def _boolean(cell: str) -> Value:
    return cell == "true"


_READERS: dict[str, Callable[[str], Value]] = {"float": _float, "double": _float, "boolean": _boolean}
_READERS.update(dict.fromkeys(_INTEGERS, _integer))


def _status(task: QueryTask) -> str:
    return TaskStatus.RUNNING.value if task.status == TaskStatus.QUEUED else str(task.status)


class Submission(Parameters):
    text: Text
    schemaName: SchemaName = ""
    parameters: Values = ""


class Question(Submission):
    limit: Limit = 1000
    waitSeconds: Seconds = 10


class Explanation(Parameters):
    text: Text
    schemaName: SchemaName = ""
    waitSeconds: Seconds = 10


class TaskOnly(Parameters):
    id: TaskId


class TaskList(Parameters):
    text: Annotated[str, Field(max_length=128, description="Part of the statement, or the beginning of the ID.")] = ""
    status: Annotated[
        str, Field(max_length=9, description="RUNNING (waiting ones among them), SUCCESS, FAILURE or CANCELLED.")
    ] = ""
    currentPage: ListPage = 1
    pageSize: Annotated[ListSize, Field(description="Tasks a page, 1 to 100.")] = 20


@operation(
    "sql/submit",
    service="SQL",
    summary="Run a statement in the background",
    description="`id` names the task. What the console answers by itself (`show`, `describe`, DDL) has its rows at "
    "once and no task. A notification is asked for by the hint in front of the statement.",
    parameters=Submission,
    result=Answered,
    needs=(_RUN,),
    changes=True,
    errors=_STATEMENT_ERRORS,
    extension=True,
)
def submit(call: Call, parameters: Submission) -> Answered:
    return answered(_started(call, parameters.text, parameters.schemaName, parameters.parameters))


@operation(
    "sql/query",
    service="SQL",
    summary="Run a statement and wait for its rows",
    description="Waits up to `waitSeconds` for the end. A statement that needs longer goes on in the background: "
    "`status` is RUNNING then, and `id` names the task for sql/task and sql/result. A statement that failed has "
    "the status FAILURE and the reason in `reason`.",
    parameters=Question,
    result=Outcome,
    needs=(_RUN,),
    changes=True,
    errors=_STATEMENT_ERRORS,
    extension=True,
)
def query(call: Call, parameters: Question) -> Outcome:
    started = _started(call, parameters.text, parameters.schemaName, parameters.parameters)
    if isinstance(started, Answer):
        return outcome_of_answer(started, parameters.limit)
    return outcome(_waited(started, parameters.waitSeconds), parameters.limit)


@operation(
    "sql/explain",
    service="SQL",
    summary="The plan of a statement",
    description="Runs nothing. Waits as sql/query.",
    parameters=Explanation,
    result=Plan,
    needs=(_RUN,),
    changes=True,
    errors=_STATEMENT_ERRORS,
    extension=True,
)
def explain(call: Call, parameters: Explanation) -> Plan:
    started = _started(call, parameters.text, parameters.schemaName, "", explain=True)
    return plan(_waited(started, parameters.waitSeconds) if isinstance(started, QueryTask) else started)


@operation(
    "sql/task",
    service="SQL",
    summary="One task",
    description="The 27 columns of `show query_task` under their names, and how far a running statement is.",
    parameters=TaskOnly,
    result=TaskRow,
    needs=(_READ,),
    errors=("BIZ_TASK_NOT_FOUND",),
    extension=True,
)
def task(call: Call, parameters: TaskOnly) -> Result:
    return row(found(call, parameters.id))


@operation(
    "sql/tasks",
    service="SQL",
    summary="Tasks, page by page",
    description="The latest first: a RAM user's or role's own, the account's administrator sees all.",
    parameters=TaskList,
    result=TaskRow,
    paged=True,
    needs=(_READ,),
    extension=True,
)
def tasks(call: Call, parameters: TaskList) -> Page:
    readable(call)
    if parameters.status and parameters.status not in queries.STATUSES:
        allowed = ", ".join(queries.STATUSES)
        raise Refused(envelope.FIELD, f"There is no status {parameters.status}; allowed are {allowed}.", "status")
    rows = queries.search(call.actor, parameters.text, parameters.status)
    return envelope.page_of(parameters, rows, row)


@operation(
    "sql/cancel",
    service="SQL",
    summary="Cancel a statement",
    description="A waiting one ends at once, a running one as soon as Spark has stopped it. `cancelled` is false when "
    "it had ended before.",
    parameters=TaskOnly,
    result=Cancelled,
    needs=(
        _READ,
        services.CANCEL,
    ),
    changes=True,
    errors=("BIZ_TASK_NOT_FOUND",),
    extension=True,
)
def cancel(call: Call, parameters: TaskOnly) -> Cancelled:
    return Cancelled(cancelled=services.cancel(call.actor, found(call, parameters.id)))


@operation(
    "sql/sendAgain",
    service="SQL",
    summary="Resend a failed notification",
    description="Tries for another 24 hours. `sentAgain` is false when the task has no notification that failed.",
    parameters=TaskOnly,
    result=SentAgain,
    needs=(_READ,),
    changes=True,
    errors=("BIZ_TASK_NOT_FOUND",),
    extension=True,
)
def send_again(call: Call, parameters: TaskOnly) -> SentAgain:
    return SentAgain(sentAgain=services.send_notification_again(call.actor, found(call, parameters.id)))


def readable(call: Call) -> None:
    """Raises PermissionDenied for who may not look at tasks."""
    owner = call.actor.tenant
    require(call.actor, _READ, service_resource("dla", owner), owner=owner)


def found(call: Call, task_id: str) -> QueryTask:
    """A task that the caller may see. Raises Refused for all others, which do not exist for him."""
    readable(call)
    task = queries.visible_tasks(call.actor).filter(pk=task_id).first()
    if task is None:
        raise Refused("BIZ_TASK_NOT_FOUND", f"You have no task {task_id}.", "id")
    return task


def in_codes(work: Callable[[], Any]) -> Any:
    """What `work` returns; its refusals with symbols that the API has."""
    try:
        return work()
    except Refused as refused:
        symbol = _SYMBOLS.get(refused.symbol, refused.symbol)
        known = symbol if symbol in envelope.CODES else "BIZ_STATEMENT_REFUSED"
        raise Refused(known, refused.message, refused.field) from refused


def _started(call: Call, text: str, schema: str, values: str, *, explain: bool = False) -> QueryTask | Answer:
    given = _values(values)
    return in_codes(  # type: ignore[no-any-return]
        lambda: runs.start(call.actor, text, schema, parameters=given, explain=explain)
    )


def _values(text: str) -> tuple[Parameter, ...]:
    if not text:
        return ()
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Refused(envelope.FIELD, f"The parameters are not valid JSON: {error}.", "parameters") from error
    if not isinstance(values, list) or not all(v is None or isinstance(v, str | int | float | bool) for v in values):
        message = "The parameters are a JSON list of texts, numbers, true, false and null."
        raise Refused(envelope.FIELD, message, "parameters")
    if len(values) > _MOST_PARAMETERS:
        raise Refused(envelope.FIELD, f"At most {_MOST_PARAMETERS} parameters are taken.", "parameters")
    return tuple(values)


def _waited(task: QueryTask, seconds: int) -> QueryTask:
    """The task once it has ended, or as it is after so many seconds."""
    deadline = time.monotonic() + seconds
    looks = 0
    while not task.ended and (left := deadline - time.monotonic()) > 0:
        with fair_queue.aside():
            time.sleep(min(_LOOKS[min(looks // 5, len(_LOOKS) - 1)], left))
        looks += 1
        task.refresh_from_db()
    return task


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
    needs=(_READ,),
    errors=("BIZ_TASK_NOT_FOUND", "BIZ_RESULT_NOT_FOUND"),
    extension=True,
)
def result(call: Call, parameters: ResultQuery) -> ResultPage:
    task = found(call, parameters.id)
    skip = (parameters.currentPage - 1) * parameters.pageSize
    if skip >= _REACHED:
        message = f"Pages reach the first {_REACHED:,} rows; sql/download has all of them."
        raise Refused("BIZ_FIELD_CHECK_INVALID", message, "currentPage")
    rows = part(task, skip, parameters.pageSize)
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
    needs=(_READ,),
    errors=("BIZ_TASK_NOT_FOUND", "BIZ_RESULT_NOT_FOUND"),
    extension=True,
)
def download(call: Call, parameters: TaskOnly) -> Download:
    task = found(call, parameters.id)
    part(task, 0, 0)
    expires = int(time.time() * 1000) + results.VALID_SECONDS * 1000
    return Download(url=results.path_of(task), expiresAt=expires, size=task.result_bytes)


@operation(
    "sql/schemas",
    service="SQL",
    summary="Schemas that the caller may query",
    description="`mq` has the messages of topics, `gantry` has samples, tasks and the audit trail.",
    result=list[str],
    needs=(_READ,),
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
    needs=(_READ,),
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
    needs=(_READ,),
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
