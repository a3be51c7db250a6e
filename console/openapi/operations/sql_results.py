"""What the operations of async SQL return, and how values of a result become values of JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from itertools import islice
from typing import Any, cast

from pydantic import Field, create_model

from analytics import run as engine
from analytics.errors import LakeError
from console.openapi.registry import Result
from console.sql import queries, task_queries
from console.sql.catalog import Answer
from console.sql.models import QueryTask, TaskStatus
from console.web.errors import Refused

Value = str | int | float | bool | None
_INTEGERS = frozenset({"tinyint", "smallint", "int", "bigint"})
_PLAN_LINES = 10_000


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
    more = {"progress": progress if running else None, "waitingBefore": task_queries.waiting_before(task)}
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
        names, lines = engine.read_result(task.result_file)
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
