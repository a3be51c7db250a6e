"""Runs one claimed task in the engine, and says in an Outcome what became of it."""

from __future__ import annotations

import logging
from dataclasses import replace

from analytics import errors
from analytics import run as engine
from console.accounts.actor import dla_resource
from console.audit import services as audit
from console.sql import specs, storage, targets
from console.sql.lifecycle import Outcome
from console.sql.models import QueryTask, TaskStatus

log = logging.getLogger(__name__)


def outcome_of(task: QueryTask) -> Outcome:
    """Run the task and return how it ended. Raises what is the worker's business.

    That is EngineLost and QueryCancelled.
    """
    try:
        return _executed(task)
    except (errors.EngineLost, errors.QueryCancelled):
        raise
    except errors.AnalyticsError as error:
        outcome = _failure(error)
        _record_refusal(task, error, outcome)
        return outcome
    except Exception:
        log.exception("task %s failed", task.pk)
        message = f"Internal error; the log of the worker has the reason under {task.pk}."
        return Outcome(TaskStatus.FAILURE, message, "INTERNAL_ERROR")


def _executed(task: QueryTask) -> Outcome:
    storage.require_room(task)
    spec = replace(specs.spec_of(task), engine_query_id=task.mpp_query_id or None)
    result = engine.run_query(spec)
    storage.count_written(task, result)
    targets.note_columns(task, list(result.table_columns))
    return Outcome(
        TaskStatus.SUCCESS,
        row_count=result.row_count,
        elapse_time=result.elapse_ms,
        scanned_row_count=result.scanned_row_count,
        scanned_data_bytes=result.scanned_data_bytes,
        result_file=spec.result_file,
        result_bytes=result.result_bytes,
        result_columns=[{"name": c.name, "type": c.type} for c in result.columns],
    )


def _failure(error: errors.AnalyticsError) -> Outcome:
    """FAILURE with the reason in the words of analytics, and where in the statement it is, when that is known."""
    message, condition = error.user_message, getattr(error, "condition", None) or ""
    if isinstance(error, errors.QueryTimedOut):
        condition = "QUERY_TIMED_OUT"
    elif isinstance(error, errors.QueryRefused):
        condition = error.condition
        if error.line is not None:
            message = f"{message} (line {error.line}, column {error.column})"
    return Outcome(TaskStatus.FAILURE, message, condition)


def _record_refusal(task: QueryTask, error: errors.AnalyticsError, outcome: Outcome) -> None:
    """A statement that the guard refused reached for what it may not: that is the trail's business."""
    author = specs.author_of(task)
    if author is not None and isinstance(error, errors.QueryRefused):
        detail = {"task": task.pk, "reason": outcome.message}
        resource = dla_resource(task.tenant, task.table_schema)
        audit.record(author, "sql.query.run", resource, result="refused", detail=detail)
