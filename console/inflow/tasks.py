"""Celery tasks of inflow tasks."""

from __future__ import annotations

from typing import Any

from console.celery import app
from console.inflow import trials


@app.task(name="console.inflow.tasks.try_query")  # type: ignore[untyped-decorator]
def try_query(told: dict[str, Any]) -> None:
    """On the queue `pipelines`, for a page that waits: make the query of a transform over sample events."""
    trials.answer(told)
