"""What the door asks of the console: blocking calls, each with the actor first. Run in threads, never on the loop."""

from __future__ import annotations

from dataclasses import dataclass

from console.accounts.actor import Actor
from console.sql import lifecycle, services
from console.sql.door import errors
from console.sql.door.errors import DoorError
from console.sql.door.parameters import Value
from console.sql.models import QueryTask, TaskStatus

_ADVICE = (
    "Put /*+ run_async=true */ in front of the statement to run it without this limit. If it had a hint: MariaDB's"
    " command line removes comments unless it is started with --comments."
)


@dataclass(frozen=True, slots=True)
class Finished:
    """A synchronous statement that has succeeded: where its rows are, and how many it changed if it has none."""

    location: str
    columns: list[dict[str, str]]
    row_count: int


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


def give_up(task_id: str) -> None:
    """Stop a statement whose client no longer waits; needs no rights, since it is the door's own doing."""
    task = QueryTask.objects.filter(pk=task_id).select_related("tenant", "creator", "role__tenant").first()
    outcome = lifecycle.Outcome(TaskStatus.CANCELLED, message="The client stopped waiting.")
    if task is not None and not lifecycle.end(task, outcome, expected=TaskStatus.QUEUED):
        QueryTask.objects.filter(pk=task_id, status=TaskStatus.RUNNING).update(cancel_requested=True)


def finished(actor: Actor, task_id: str) -> Finished:
    """What became of a synchronous statement that has ended. Raises DoorError when it failed."""
    task = QueryTask.objects.get(pk=task_id)
    if task.status == TaskStatus.CANCELLED:
        raise DoorError(errors.INTERRUPTED, task.message or "The statement was cancelled.")
    if task.status != TaskStatus.SUCCESS:
        code = errors.condition_code(task.error_condition)
        limited = "asynchronously" in task.message or code == errors.TIME_LIMIT
        raise DoorError(code, f"{task.message} {_ADVICE}" if limited else task.message)
    return Finished(task.result_file, task.result_columns, task.row_count)


def too_slow(limit_s: float) -> str:
    """The error of a statement that the client waited for too long."""
    return f"The statement took longer than {limit_s:g} s. {_ADVICE}"
