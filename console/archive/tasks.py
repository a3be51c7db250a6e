"""Celery tasks of archives: `run` on the queue `spark`, `sweep` on `default`."""

from __future__ import annotations

from console.archive import lifecycle, worker
from console.celery import app
from console.sql.worker import end_without_engine


@app.task(name="console.archive.tasks.run")  # type: ignore[untyped-decorator]
def run(number: int) -> None:
    """Run an archive, if nobody else does."""
    worker.run(number, end_without_engine)


@app.task(name="console.archive.tasks.sweep")  # type: ignore[untyped-decorator]
def sweep() -> None:
    """Every 10 s: requeue what lost its worker or message, start what is due by the hour."""
    lifecycle.sweep()
