"""What the door asks of the console: blocking calls, each with the actor first. Run in threads, never on the loop."""

from __future__ import annotations

from django.conf import settings

from analytics import run as engine
from console.accounts.access import require
from console.accounts.actor import Actor, service_resource
from console.sql import lifecycle, queries, services
from console.sql.door import errors
from console.sql.door.errors import DoorError
from console.sql.door.parameters import Value
from console.sql.models import QueryTask, TaskStatus
from console.sql.queries import Row

#: Values that the preview of a result cuts.
_CELL_CHARACTERS = 10_000
_ADVICE = (
    "Put /*+ run_async=true */ in front of the statement to run it without this limit. If it had a hint: MariaDB's"
    " command line removes comments unless it is started with --comments."
)


def submit(
    actor: Actor,
    text: str,
    schema: str,
    connection_id: int,
    parameters: tuple[Value, ...],
    *,
    synchronous: bool = False,
) -> str:
    """Submit a statement; returns the task id."""
    task = services.submit(actor, text, schema, connection_id, parameters=parameters, synchronous=synchronous)
    return task.pk


def task_rows(actor: Actor, limit: int, task_id: str | None = None) -> list[Row]:
    """Rows of `show query_task`: an id that is unknown, or another user's, has none."""
    require(actor, "dla:QueryTask", service_resource("dla", actor.tenant), owner=actor.tenant)
    tasks = queries.visible_tasks(actor)
    if task_id is not None:
        tasks = tasks.filter(pk=task_id)
    return [queries.row_of(task) for task in tasks[:limit]]


def cancel(actor: Actor, task_id: str) -> None:
    """`cancel query_task`. Raises DoorError for a task that is not there; one that has ended stays as it is."""
    task = queries.visible_tasks(actor).filter(pk=task_id).first()
    if task is None:
        raise DoorError(errors.UNKNOWN, f"There is no task {task_id!r} of yours.")
    services.cancel(actor, task)


def give_up(task_id: str) -> None:
    """Stop a statement whose client no longer waits; needs no rights, since it is the door's own doing."""
    task = QueryTask.objects.filter(pk=task_id).select_related("tenant", "creator", "role__tenant").first()
    outcome = lifecycle.Outcome(TaskStatus.CANCELLED, message="The client stopped waiting.")
    if task is not None and not lifecycle.end(task, outcome, expected=TaskStatus.QUEUED):
        QueryTask.objects.filter(pk=task_id, status=TaskStatus.RUNNING).update(cancel_requested=True)


def rows_of(actor: Actor, task_id: str) -> tuple[list[dict[str, str]], list[list[str | None]]]:
    """Columns and rows of a synchronous statement that has ended. Raises DoorError when it failed."""
    task = QueryTask.objects.get(pk=task_id)
    if task.status == TaskStatus.CANCELLED:
        raise DoorError(errors.INTERRUPTED, task.message or "The statement was cancelled.")
    if task.status != TaskStatus.SUCCESS:
        code = errors.condition_code(task.error_condition)
        limited = "asynchronously" in task.message or code == errors.TIME_LIMIT
        raise DoorError(code, f"{task.message} {_ADVICE}" if limited else task.message)
    _, rows = engine.preview_result(task.result_file, settings.SQL_SYNC_ROWS)
    if any(cell is not None and len(cell) > _CELL_CHARACTERS for row in rows for cell in row):
        raise DoorError(errors.UNKNOWN, f"A value has more than {_CELL_CHARACTERS:,} characters. {_ADVICE}")
    return task.result_columns, rows


def too_slow(limit_s: float) -> str:
    """The error of a statement that the client waited for too long."""
    return f"The statement took longer than {limit_s:.0f} s. {_ADVICE}"
