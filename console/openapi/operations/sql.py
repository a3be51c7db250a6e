"""Async SQL for programs: submit, follow and cancel statements (docs/sql.md). All of it is ours, not the vendor's."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import Field

from console.accounts.access import require
from console.accounts.actor import service_resource
from console.openapi import codes
from console.openapi.envelope import Page
from console.openapi.operations import sql_results
from console.openapi.operations.fields import Choice
from console.openapi.operations.sql_results import Answered, Cancelled, Outcome, Plan, SentAgain, TaskRow
from console.openapi.registry import Call, Parameters, Result, operation
from console.sql import queries, runs, services, task_queries
from console.sql.catalog import Answer
from console.sql.models import QueryTask
from console.sql.services import Parameter
from console.web import turns
from console.web.errors import Refused

_READ = "dla:QueryTask"
_MOST_PARAMETERS = 1000
#: How often a call that waits looks at its task, seconds: at first often, since most statements are short.
_LOOKS = (0.05, 0.1, 0.2, 0.5)
_SYMBOLS = {
    "SCHEMA_NOT_FOUND": "BIZ_SCHEMA_NOT_FOUND",
    "SCHEMA_NOT_CHOSEN": "BIZ_SCHEMA_NOT_FOUND",
    "TABLE_NOT_FOUND": "BIZ_TABLE_NOT_FOUND",
    "TASK_NOT_FOUND": "BIZ_TASK_NOT_FOUND",
    "TOO_MANY_WAITING": codes.THROTTLED,
}
_STATEMENT_ERRORS = ("BIZ_STATEMENT_REFUSED", "BIZ_SCHEMA_NOT_FOUND", "BIZ_TABLE_NOT_FOUND", "BIZ_TASK_NOT_FOUND")

Text = Annotated[
    str,
    Field(
        min_length=1,
        max_length=services.LONGEST_STATEMENT,
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
    currentPage: Annotated[int, Field(ge=1, le=2**31 - 1, description="The page, from 1."), Choice] = 1
    pageSize: Annotated[int, Field(ge=1, le=100, description="Tasks a page, 1 to 100."), Choice] = 20


@operation(
    "sql/submit",
    service="SQL",
    summary="Run a statement in the background",
    description="`id` names the task. What the console answers by itself (`show`, `describe`, DDL) has its rows at "
    "once and no task. A notification is asked for by the hint in front of the statement.",
    parameters=Submission,
    result=Answered,
    changes=True,
    errors=_STATEMENT_ERRORS,
    extension=True,
)
def submit(call: Call, parameters: Submission) -> Answered:
    return sql_results.answered(_started(call, parameters.text, parameters.schemaName, parameters.parameters))


@operation(
    "sql/query",
    service="SQL",
    summary="Run a statement and wait for its rows",
    description="Waits up to `waitSeconds` for the end. A statement that needs longer goes on in the background: "
    "`status` is RUNNING then, and `id` names the task for sql/task and sql/result. A statement that failed has "
    "the status FAILURE and the reason in `reason`.",
    parameters=Question,
    result=Outcome,
    changes=True,
    errors=_STATEMENT_ERRORS,
    extension=True,
)
def query(call: Call, parameters: Question) -> Outcome:
    started = _started(call, parameters.text, parameters.schemaName, parameters.parameters)
    if isinstance(started, Answer):
        return sql_results.outcome_of_answer(started, parameters.limit)
    return sql_results.outcome(_waited(started, parameters.waitSeconds), parameters.limit)


@operation(
    "sql/explain",
    service="SQL",
    summary="The plan of a statement",
    description="Runs nothing. Waits as sql/query.",
    parameters=Explanation,
    result=Plan,
    changes=True,
    errors=_STATEMENT_ERRORS,
    extension=True,
)
def explain(call: Call, parameters: Explanation) -> Plan:
    started = _started(call, parameters.text, parameters.schemaName, "", explain=True)
    return sql_results.plan(_waited(started, parameters.waitSeconds) if isinstance(started, QueryTask) else started)


@operation(
    "sql/task",
    service="SQL",
    summary="One task",
    description="The 27 columns of `show query_task` under their names, and how far a running statement is.",
    parameters=TaskOnly,
    result=TaskRow,
    errors=("BIZ_TASK_NOT_FOUND",),
    extension=True,
)
def task(call: Call, parameters: TaskOnly) -> Result:
    return sql_results.row(found(call, parameters.id))


@operation(
    "sql/tasks",
    service="SQL",
    summary="Tasks, page by page",
    description="The latest first: a RAM user's or role's own, the account's administrator sees all.",
    parameters=TaskList,
    result=TaskRow,
    paged=True,
    extension=True,
)
def tasks(call: Call, parameters: TaskList) -> Page:
    readable(call)
    if parameters.status and parameters.status not in task_queries.STATUSES:
        allowed = ", ".join(task_queries.STATUSES)
        raise Refused(codes.FIELD, f"There is no status {parameters.status}; allowed are {allowed}.", "status")
    rows = task_queries.search(call.actor, parameters.text, parameters.status)
    start = (parameters.currentPage - 1) * parameters.pageSize
    shown = [sql_results.row(one) for one in rows[start : start + parameters.pageSize]]
    return Page(shown, parameters.currentPage, parameters.pageSize, rows.count())


@operation(
    "sql/cancel",
    service="SQL",
    summary="Cancel a statement",
    description="A waiting one ends at once, a running one as soon as Spark has stopped it. `cancelled` is false when "
    "it had ended before.",
    parameters=TaskOnly,
    result=Cancelled,
    changes=True,
    errors=("BIZ_TASK_NOT_FOUND",),
    extension=True,
)
def cancel(call: Call, parameters: TaskOnly) -> Cancelled:
    return Cancelled(cancelled=services.cancel(call.actor, found(call, parameters.id)))


@operation(
    "sql/sendAgain",
    service="SQL",
    summary="Send a failed notification again",
    description="Tries for another 24 hours. `sentAgain` is false when the task has no notification that failed.",
    parameters=TaskOnly,
    result=SentAgain,
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
        raise Refused("BIZ_TASK_NOT_FOUND", f"There is no task {task_id} of yours.", "id")
    return task


def in_codes(work: Callable[[], Any]) -> Any:
    """What `work` returns; its refusals with symbols that the API has."""
    try:
        return work()
    except Refused as refused:
        symbol = _SYMBOLS.get(refused.symbol, refused.symbol)
        known = symbol if symbol in codes.CODES else "BIZ_STATEMENT_REFUSED"
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
        raise Refused(codes.FIELD, f"The parameters are no JSON: {error}.", "parameters") from error
    if not isinstance(values, list) or not all(v is None or isinstance(v, str | int | float | bool) for v in values):
        message = "The parameters are a JSON list of texts, numbers, true, false and null."
        raise Refused(codes.FIELD, message, "parameters")
    if len(values) > _MOST_PARAMETERS:
        raise Refused(codes.FIELD, f"At most {_MOST_PARAMETERS} parameters are taken.", "parameters")
    return tuple(values)


def _waited(task: QueryTask, seconds: int) -> QueryTask:
    """The task once it has ended, or as it is after so many seconds."""
    deadline = time.monotonic() + seconds
    looks = 0
    while not task.ended and (left := deadline - time.monotonic()) > 0:
        with turns.aside():
            time.sleep(min(_LOOKS[min(looks // 5, len(_LOOKS) - 1)], left))
        looks += 1
        task.refresh_from_db()
    return task
