"""Celery tasks of files and of what they take up, on the queue `default`; on the wire they have names of async SQL."""

from __future__ import annotations

from console.catalog import bucket_events, storage
from console.celery import app


@app.task(name="console.sql.tasks.count_storage")  # type: ignore[untyped-decorator]
def count_storage() -> None:
    """Every minute: look what accounts have stored whose files have changed."""
    storage.sweep()


@app.task(name="console.sql.tasks.tell_changes")  # type: ignore[untyped-decorator]
def tell_changes() -> None:
    """Every 30 s: tell of changes of files whose makers died before they told of them."""
    bucket_events.sweep()
