"""Celery tasks of async SQL: `run_query` on the queue `spark`, `sweep` on `default`."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta

from django.conf import settings

from analytics import run as engine
from console.celery import app
from console.sql import lifecycle, worker

log = logging.getLogger(__name__)


@app.task(name="console.sql.tasks.run_query")  # type: ignore[untyped-decorator]
def run_query(task_id: str) -> None:
    """Run one task, if nobody else does; delivered twice it is run once."""
    worker.run(task_id)


@app.task(name="console.sql.tasks.sweep")  # type: ignore[untyped-decorator]
def sweep() -> None:
    """Every 5 s: requeue or end what lost its worker, hand over again what lost its message."""
    lifecycle.sweep()


@app.task(name="console.sql.tasks.expire")  # type: ignore[untyped-decorator]
def expire() -> None:
    """Delete results older than GANTRY_RESULTS_DAYS; the tasks stay in the list."""
    if settings.RESULTS_DAYS:
        folders = engine.drop_results(datetime.now(UTC).date() - timedelta(days=settings.RESULTS_DAYS))
        if folders:
            log.info("results of %d folders were deleted", folders)
