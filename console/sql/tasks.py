"""Celery tasks of async SQL: `run_query` on the queue `spark`, `sweep` on `default`."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta

from django.conf import settings

from analytics import retention
from console.catalog.models import Bucket
from console.celery import app
from console.sql import lifecycle, worker

log = logging.getLogger(__name__)
#: A draft that did not change for so long has no writer any more.
_LONGEST_WRITE = timedelta(days=1)


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
    """Delete results older than GANTRY_RESULTS_DAYS, whose tasks stay in the list, and drafts of killed writers."""
    now = datetime.now(UTC)
    if settings.RESULTS_DAYS:
        folders = retention.drop_results(now.date() - timedelta(days=settings.RESULTS_DAYS))
        if folders:
            log.info("results of %d folders were deleted", folders)
    drafts = retention.drop_drafts(now - _LONGEST_WRITE, Bucket.objects.values_list("name", flat=True))
    if drafts:
        log.info("%d drafts of writers that were killed were deleted", drafts)
