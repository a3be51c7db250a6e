"""Celery tasks of async SQL: `run_query` on the queue `spark`, `sweep` on `default`."""

from __future__ import annotations

from console.celery import app
from console.sql import lifecycle, worker


@app.task(name="console.sql.tasks.run_query")  # type: ignore[untyped-decorator]
def run_query(task_id: str) -> None:
    """Run one task, if nobody else does; delivered twice it is run once."""
    worker.run(task_id)


@app.task(name="console.sql.tasks.sweep")  # type: ignore[untyped-decorator]
def sweep() -> None:
    """Every 5 s: requeue or end what lost its worker, hand over again what lost its message."""
    lifecycle.sweep()
