"""Background work of the accounts."""

from __future__ import annotations

from console.accounts.services.sessions import clear_ended_sessions
from console.celery import app


@app.task(name="console.accounts.tasks.clear_sessions")  # type: ignore[untyped-decorator]
def clear_sessions() -> None:
    """Delete sessions that ran out."""
    clear_ended_sessions()
