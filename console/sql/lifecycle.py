"""The life of a query task between submission and end, as workers and the sweep drive it.

    QUEUED ──claim──▶ RUNNING ──end──▶ SUCCESS | FAILURE | CANCELLED
       ▲                 │
       └──── requeue ────┘   its worker died, lost Spark, or is shutting down

Which task is claimed next is decided in `scheduling`. Every step is a conditional update, so a message that Celery
delivers twice, two workers or a worker that was given up change nothing (docs/use/sql.md).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from analytics.specs import Progress
from console.celery import app
from console.outbox import services as outbox
from console.sql import queries, specs, writes
from console.sql.models import QueryTask, TaskStatus
from console.statements import hint

log = logging.getLogger(__name__)

#: A running task whose worker was silent for this long has lost it; workers beat every 2 s.
WORKER_LOST_AFTER = timedelta(seconds=15)
#: A waiting task is handed to Celery again this long after the last time: the message may have died with a worker.
HAND_OVER_AGAIN_AFTER = timedelta(seconds=30)
#: A task that nobody could take for this long ends.
LONGEST_WAIT = timedelta(minutes=30)
#: A statement that cost two engines or workers is not tried a third time; the second time it ran alone.
MAX_LOSSES = 2
#: The condition of a task that ended so.
ENGINE_LOST = "ENGINE_LOST"
#: Most messages of one sweep; each makes a worker look, and a worker goes on as long as there is work.
_MOST_MESSAGES = 20


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a task ended; times in ms, sizes in bytes. None leaves what was last known while it ran."""

    status: TaskStatus
    message: str = ""
    error_condition: str = ""
    row_count: int = 0
    elapse_time: int | None = None
    scanned_row_count: int | None = None
    scanned_data_bytes: int | None = None
    result_file: str = ""
    result_columns: list[dict[str, str]] = field(default_factory=list)
    result_bytes: int = 0


#: A task that somebody stopped.
CANCELLED = Outcome(TaskStatus.CANCELLED, message="Cancelled.")


def hand_over(task_id: str) -> None:
    """Tell the Spark workers that there is work; which they take is `scheduling`'s. The sweep mends a lost message."""
    app.send_task("console.sql.tasks.run_query", [task_id], retry=False)


def claim(task_id: str, worker: str, query_id: str = "") -> QueryTask | None:
    """Take a waiting task for `worker` alone, to run as `query_id`; None when it is taken, ended or gone."""
    now = timezone.now()
    claimed = QueryTask.objects.filter(pk=task_id, status=TaskStatus.QUEUED).update(
        status=TaskStatus.RUNNING,
        worker=worker,
        attempts=F("attempts") + 1,
        heartbeat_at=now,
        started_at=now,
        mpp_query_id=query_id,
        message="",
        update_time=now,
    )
    return QueryTask.objects.select_related("tenant", "creator", "role__tenant").get(pk=task_id) if claimed else None


def beat(task: QueryTask) -> None:
    """Show that the worker still holds the task, and how long it has run."""
    now = timezone.now()
    elapse_time = round((now - (task.started_at or now)) / timedelta(milliseconds=1))
    _held(task).update(heartbeat_at=now, elapse_time=elapse_time)


def report(task: QueryTask, progress: Progress) -> None:
    """Write down how far a running task is."""
    _held(task).update(
        progress={name: getattr(progress, name) for name in ("stages", "stages_done", "tasks", "tasks_done")},
        scanned_row_count=progress.scanned_row_count,
        scanned_data_bytes=progress.scanned_data_bytes,
    )


def cancel_requested(task_ids: Iterable[str]) -> list[str]:
    """Those of the running tasks that somebody wants stopped."""
    wanted = QueryTask.objects.filter(pk__in=list(task_ids), status=TaskStatus.RUNNING, cancel_requested=True)
    return list(wanted.values_list("pk", flat=True))


@transaction.atomic
def end(task: QueryTask, outcome: Outcome, *, expected: TaskStatus = TaskStatus.RUNNING) -> bool:
    """End the task and commit its notification with it; False when it is no longer this caller's to end."""
    values = {name: value for name in Outcome.__slots__ if (value := getattr(outcome, name)) is not None}
    ended = _held(task, expected).update(**values, progress=None, update_time=timezone.now())
    if not ended:
        return False
    task.refresh_from_db()
    if reason := writes.commit(task, specs.author_of(task)):
        task.status, task.message = TaskStatus.FAILURE, reason
        task.save(update_fields=["status", "message"])
    if task.notify is not None:
        _enqueue_notification(task, task.notify)
    return True


def _enqueue_notification(task: QueryTask, options: dict[str, str]) -> None:
    """The receipt: a JSON object of the columns that are not null, key = task id, tag = status."""
    columns = {name: value for name, value in queries.row_of(task).items() if value is not None}
    task.notification = outbox.enqueue(
        tenant=task.tenant,
        notify_by=options.get(hint.NOTIFY_BY, ""),
        topic=options.get(hint.TOPIC, ""),
        queue=options.get(hint.QUEUE, ""),
        producer_id=options.get(hint.PRODUCER_ID, ""),
        endpoint=options.get(hint.ENDPOINT, ""),
        key=task.pk,
        tag=task.status,
        body=json.dumps(columns, ensure_ascii=False),
    )
    task.save(update_fields=["notification"])


def release(task: QueryTask, reason: str = "") -> None:
    """Let another worker run a claimed task that its own cannot go on with through no fault of the statement.

    `reason` is told while it waits.
    """
    _requeue(task, attempts=F("attempts") - 1, message=reason)


@transaction.atomic
def lose(task: QueryTask, reason: str, *, had_only_begun: bool = False) -> None:
    """The worker or its Spark died over the task: it is tried once more and alone, then it ends FAILURE with `reason`.

    Alone, so that the second loss is nobody else's fault (docs/use/sql.md). One that `had_only_begun` when the engine
    died is no suspect, the first time.
    """
    losses = task.engine_losses + 1
    if cancel_requested([task.pk]):
        end(task, CANCELLED)
        return
    if had_only_begun and task.attempts == 1 and losses < MAX_LOSSES:
        _requeue(task)
        return
    if losses < MAX_LOSSES:
        _requeue(task, engine_losses=losses)
        return
    tried = "once, alone, because it had stopped the engine before," if task.attempts == 1 else "twice"
    message = f"{reason} The statement was tried {tried} and is not tried again."
    _held(task).update(engine_losses=losses)
    end(task, Outcome(TaskStatus.FAILURE, message=message, error_condition=ENGINE_LOST))


def blame(task_id: str) -> None:
    """Remember a statement for which an engine was ended, though it was cancelled or out of time by then.

    Its losses count as those of one that is not tried again (`scheduling.known_losses`). A task that waits again is
    run alone, and shows there what it does.
    """
    QueryTask.objects.filter(pk=task_id).exclude(status=TaskStatus.QUEUED).update(engine_losses=MAX_LOSSES)


def _requeue(task: QueryTask, **values: object) -> None:
    """Make a running task wait again, with nothing left of the run."""
    _held(task).update(
        status=TaskStatus.QUEUED,
        worker="",
        heartbeat_at=None,
        mpp_query_id="",
        progress=None,
        elapse_time=0,
        writing_bytes=0,
        scanned_row_count=0,
        scanned_data_bytes=0,
        update_time=timezone.now(),
        **values,
    )


def sweep() -> None:
    """Find what lost its worker or its message. No task stays RUNNING, or waits, for ever."""
    now = timezone.now()
    silent = QueryTask.objects.filter(status=TaskStatus.RUNNING, heartbeat_at__lt=now - WORKER_LOST_AFTER)
    for task in silent.select_related("tenant", "creator", "role__tenant"):
        log.warning("task %s lost its worker %s", task.pk, task.worker)
        lose(task, "The worker that ran the statement ended before it.")
    _end_what_nobody_takes(now)
    waiting = QueryTask.objects.filter(status=TaskStatus.QUEUED).order_by("create_time")
    quiet = waiting.filter(Q(heartbeat_at=None) | Q(heartbeat_at__lt=now - HAND_OVER_AGAIN_AFTER))
    for task_id in list(quiet.values_list("pk", flat=True)[:_MOST_MESSAGES]):
        QueryTask.objects.filter(pk=task_id, status=TaskStatus.QUEUED).update(heartbeat_at=now)
        hand_over(task_id)


def _end_what_nobody_takes(now: datetime) -> None:
    """End what waits in vain. Behind others a task may wait longer: then some run, or were started not long ago."""
    since = now - LONGEST_WAIT
    overdue = QueryTask.objects.filter(status=TaskStatus.QUEUED, update_time__lt=since)
    overdue = overdue.select_related("tenant", "creator", "role__tenant")
    if not overdue.exists():
        return
    if QueryTask.objects.filter(Q(status=TaskStatus.RUNNING) | Q(started_at__gte=since)).exists():
        return
    minutes = LONGEST_WAIT // timedelta(minutes=1)
    message = f"No Spark worker took the statement within {minutes} minutes."
    for task in overdue:
        end(task, Outcome(TaskStatus.FAILURE, message=message), expected=TaskStatus.QUEUED)


def _held(task: QueryTask, status: TaskStatus = TaskStatus.RUNNING) -> QuerySet[QueryTask]:
    """The row, as long as it is still this claim's."""
    return QueryTask.objects.filter(pk=task.pk, status=status, attempts=task.attempts, worker=task.worker)
