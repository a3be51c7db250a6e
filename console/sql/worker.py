"""What a Spark worker process does with a task: claim it, run it, end it; and how the process starts and ends.

The JVM is expendable: one statement can exhaust it. Then the process ends, whoever started it starts it again, and its
tasks are claimed anew (docs/sql.md).
"""

from __future__ import annotations

import logging
import os
import threading
import time
from pathlib import Path
from typing import Any

from celery.signals import worker_ready, worker_shutdown, worker_shutting_down
from django.db import close_old_connections

from analytics import errors
from analytics import run as engine
from console.accounts.actor import dla_resource
from console.audit import services as audit
from console.sql import lifecycle, specs
from console.sql.keeper import Keeper
from console.sql.lifecycle import Outcome
from console.sql.models import QueryTask, TaskStatus

log = logging.getLogger(__name__)

#: Exit code after the JVM died (EX_SOFTWARE).
ENGINE_LOST_EXIT = 70
#: Time for the other tasks of a dead JVM to be given back before the process ends, seconds.
_LAST_WORDS_S = 3.0

keeper = Keeper(engine.cancel)
_engine_lost = threading.Event()
_shutting_down = threading.Event()


def run(task_id: str) -> None:
    """Claim, run and end one task. Returns at once when it is not there to be claimed."""
    if _engine_lost.is_set() or _shutting_down.is_set():
        # The sweep hands a task without a sign of life over again, to a process that can run it.
        QueryTask.objects.filter(pk=task_id, status=TaskStatus.QUEUED).update(heartbeat_at=None)
        return
    task = lifecycle.claim(task_id, keeper.name)
    if task is None:
        return
    if task.cancel_requested:
        lifecycle.end(task, Outcome(TaskStatus.CANCELLED, message="Cancelled."))
        return
    started = time.monotonic()
    with keeper.holding(task):
        try:
            outcome = _executed(task)
        except errors.EngineLost as error:
            _lose_engine(task, error.user_message)
            return
        except errors.QueryCancelled:
            if _shutting_down.is_set() and not lifecycle.cancel_requested([task.pk]):
                lifecycle.give_back(task)
                return
            outcome = Outcome(TaskStatus.CANCELLED, message="Cancelled.", elapse_time=_ms_since(started))
        except errors.AnalyticsError as error:
            outcome = _failure(error, _ms_since(started))
            _record_refusal(task, error, outcome)
        except Exception:
            log.exception("task %s failed", task.pk)
            message = f"Internal error; the log of the worker has the reason under {task.pk}."
            outcome = Outcome(TaskStatus.FAILURE, message, "INTERNAL_ERROR", elapse_time=_ms_since(started))
        lifecycle.end(task, outcome)


def _executed(task: QueryTask) -> Outcome:
    spec = specs.spec_of(task)
    result = engine.run_query(spec)
    return Outcome(
        TaskStatus.SUCCESS,
        mpp_query_id=result.engine_query_id,
        row_count=result.row_count,
        elapse_time=result.elapse_ms,
        scanned_row_count=result.scanned_row_count,
        scanned_data_bytes=result.scanned_data_bytes,
        result_file=spec.result_file,
        result_columns=[{"name": c.name, "type": c.type} for c in result.columns],
    )


def _failure(error: errors.AnalyticsError, elapse_ms: int) -> Outcome:
    """FAILURE with the reason in the words of analytics, and where in the statement it is, when that is known."""
    message, condition = error.user_message, getattr(error, "condition", None) or ""
    if isinstance(error, errors.QueryTimedOut):
        condition = "QUERY_TIMED_OUT"
    elif isinstance(error, errors.QueryRefused):
        condition = "QUERY_REFUSED"
        if error.line is not None:
            message = f"{message} (line {error.line}, column {error.column})"
    return Outcome(TaskStatus.FAILURE, message, condition, elapse_time=elapse_ms)


def _record_refusal(task: QueryTask, error: errors.AnalyticsError, outcome: Outcome) -> None:
    """A statement that the guard refused reached for what it may not: that is the trail's business."""
    author = specs.author_of(task)
    if author is not None and isinstance(error, errors.QueryRefused):
        detail = {"task": task.pk, "reason": outcome.message}
        resource = dla_resource(task.tenant, task.table_schema)
        audit.record(author, "sql.query.run", resource, result="refused", detail=detail)


def _lose_engine(task: QueryTask, reason: str) -> None:
    """Give the task up and end this process: a dead JVM cannot be used again."""
    lifecycle.lose(task, reason)
    if not _engine_lost.is_set():
        _engine_lost.set()
        log.error("Spark is lost (%s); this worker ends", reason)
        threading.Thread(target=_end_process, daemon=True).start()


def _end_process() -> None:
    deadline = time.monotonic() + _LAST_WORDS_S
    while keeper.running and time.monotonic() < deadline:
        time.sleep(0.05)
    os._exit(ENGINE_LOST_EXIT)


def _ms_since(started: float) -> int:
    return round((time.monotonic() - started) * 1000)


def _is_spark_worker() -> bool:
    return os.environ.get("GANTRY_WARM_SPARK") == "true"


@worker_ready.connect  # type: ignore[untyped-decorator]
def warm(**_: Any) -> None:
    """Start Spark before the first statement asks for it."""
    if _is_spark_worker():
        threading.Thread(target=_warm, name="warm", daemon=True).start()


def _warm() -> None:
    try:
        engine.warm()
    except errors.AnalyticsError as error:
        log.error("Spark cannot be started: %s", error.user_message)
        os._exit(ENGINE_LOST_EXIT)
    finally:
        close_old_connections()
    if file := os.environ.get("GANTRY_READY_FILE"):
        Path(file).touch()


@worker_shutting_down.connect  # type: ignore[untyped-decorator]
def stop_statements(**_: Any) -> None:
    """Celery waits for running tasks, however long: stop them, they are given back to the next worker."""
    _shutting_down.set()
    for task_id in keeper.running:
        engine.cancel(task_id)


@worker_shutdown.connect  # type: ignore[untyped-decorator]
def stop_engine(**_: Any) -> None:
    """Stop Spark with its JVM."""
    if _is_spark_worker():
        engine.stop()
