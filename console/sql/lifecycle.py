"""The life of a query task between submission and end, as workers and the sweep drive it.

    QUEUED ──claim──▶ RUNNING ──end──▶ SUCCESS | FAILURE | CANCELLED
       ▲                 │
       └──── requeue ────┘   its worker died, lost Spark, or is shutting down

Every step is a conditional update, so a message that Celery delivers twice, two workers or a worker that was given up
change nothing (docs/sql.md).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta

from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from console.celery import app
from console.outbox import services as outbox
from console.sql import hints, queries
from console.sql.models import QueryTask, TaskStatus

log = logging.getLogger(__name__)

#: A running task whose worker was silent for this long has lost it; workers beat every 2 s.
WORKER_LOST_AFTER = timedelta(seconds=15)
#: A waiting task is handed to Celery again this long after the last time: the message may have died with a worker.
HAND_OVER_AGAIN_AFTER = timedelta(seconds=30)
#: A task that nobody could take for this long ends.
LONGEST_WAIT = timedelta(minutes=30)
#: A statement that cost two workers is not tried a third time.
MAX_ATTEMPTS = 2


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a task ended; times in ms, sizes in bytes."""

    status: TaskStatus
    message: str = ""
    error_condition: str = ""
    mpp_query_id: str = ""
    row_count: int = 0
    elapse_time: int = 0
    scanned_row_count: int = 0
    scanned_data_bytes: int = 0
    result_file: str = ""
    result_columns: list[dict[str, str]] = field(default_factory=list)


def hand_over(task_id: str) -> None:
    """Tell the Spark workers about a waiting task; the sweep tells them again when the message is lost."""
    app.send_task("console.sql.tasks.run_query", [task_id], retry=False)


def claim(task_id: str, worker: str) -> QueryTask | None:
    """Take a waiting task for `worker` alone; None when it is taken, ended or gone."""
    now = timezone.now()
    claimed = QueryTask.objects.filter(pk=task_id, status=TaskStatus.QUEUED).update(
        status=TaskStatus.RUNNING, worker=worker, attempts=F("attempts") + 1, heartbeat_at=now, update_time=now
    )
    return QueryTask.objects.select_related("tenant", "creator", "role__tenant").get(pk=task_id) if claimed else None


def beat(task_ids: Iterable[str], worker: str) -> None:
    """Show that `worker` still holds its tasks."""
    QueryTask.objects.filter(pk__in=list(task_ids), status=TaskStatus.RUNNING, worker=worker).update(
        heartbeat_at=timezone.now()
    )


def cancel_requested(task_ids: Iterable[str]) -> list[str]:
    """Those of the running tasks that somebody wants stopped."""
    wanted = QueryTask.objects.filter(pk__in=list(task_ids), status=TaskStatus.RUNNING, cancel_requested=True)
    return list(wanted.values_list("pk", flat=True))


@transaction.atomic
def end(task: QueryTask, outcome: Outcome, *, expected: TaskStatus = TaskStatus.RUNNING) -> bool:
    """End the task and commit its notification with it; False when it is no longer this caller's to end."""
    values = {name: getattr(outcome, name) for name in Outcome.__slots__}
    ended = _held(task, expected).update(**values, update_time=timezone.now())
    if not ended:
        return False
    task.refresh_from_db()
    if task.notify is not None:
        _enqueue_notification(task, task.notify)
    return True


def _enqueue_notification(task: QueryTask, options: dict[str, str]) -> None:
    """The receipt: a JSON object of the columns that are not null, key = task id, tag = status."""
    columns = {name: value for name, value in queries.row_of(task).items() if value is not None}
    task.notification = outbox.enqueue(
        tenant=task.tenant,
        notify_by=options.get(hints.NOTIFY_BY, ""),
        topic=options.get(hints.TOPIC, ""),
        queue=options.get(hints.QUEUE, ""),
        producer_id=options.get(hints.PRODUCER_ID, ""),
        endpoint=options.get(hints.ENDPOINT, ""),
        key=task.pk,
        tag=task.status,
        body=json.dumps(columns, ensure_ascii=False),
    )
    task.save(update_fields=["notification"])


def give_back(task: QueryTask) -> None:
    """Let another worker run a claimed task that its own cannot go on with through no fault of the statement."""
    _held(task).update(
        status=TaskStatus.QUEUED,
        attempts=F("attempts") - 1,
        worker="",
        heartbeat_at=None,
        update_time=timezone.now(),
    )


def lose(task: QueryTask, reason: str) -> None:
    """The worker or its Spark died over the task: it is tried once more, then it ends FAILURE with `reason`."""
    if task.attempts < MAX_ATTEMPTS:
        _held(task).update(status=TaskStatus.QUEUED, worker="", heartbeat_at=None, update_time=timezone.now())
    else:
        message = f"{reason} The statement was tried {task.attempts} times and is not tried again."
        end(task, Outcome(TaskStatus.FAILURE, message=message, error_condition="ENGINE_LOST"))


def sweep() -> None:
    """Find what lost its worker or its message. No task stays RUNNING, or waits, for ever."""
    now = timezone.now()
    silent = QueryTask.objects.filter(status=TaskStatus.RUNNING, heartbeat_at__lt=now - WORKER_LOST_AFTER)
    for task in silent.select_related("tenant", "creator", "role__tenant"):
        log.warning("task %s lost its worker %s", task.pk, task.worker)
        if task.cancel_requested:
            end(task, Outcome(TaskStatus.CANCELLED, message="Cancelled."))
        else:
            lose(task, "The worker that ran the statement ended before it.")
    waiting = QueryTask.objects.filter(status=TaskStatus.QUEUED)
    for task in waiting.filter(update_time__lt=now - LONGEST_WAIT).select_related("tenant", "creator", "role__tenant"):
        minutes = LONGEST_WAIT // timedelta(minutes=1)
        message = f"No Spark worker took the statement within {minutes} minutes."
        end(task, Outcome(TaskStatus.FAILURE, message=message), expected=TaskStatus.QUEUED)
    quiet = waiting.filter(Q(heartbeat_at=None) | Q(heartbeat_at__lt=now - HAND_OVER_AGAIN_AFTER))
    for task_id in list(quiet.values_list("pk", flat=True)[:500]):
        QueryTask.objects.filter(pk=task_id, status=TaskStatus.QUEUED).update(heartbeat_at=now)
        hand_over(task_id)


def _held(task: QueryTask, status: TaskStatus = TaskStatus.RUNNING) -> QuerySet[QueryTask]:
    """The row, as long as it is still this claim's."""
    return QueryTask.objects.filter(pk=task.pk, status=status, attempts=task.attempts, worker=task.worker)
