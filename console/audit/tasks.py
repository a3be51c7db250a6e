"""Background work of the audit trail."""

from __future__ import annotations

from console.audit import broker_refusals
from console.celery import app


@app.task(name="console.audit.tasks.move_broker_refusals")  # type: ignore[untyped-decorator]
def move_broker_refusals() -> None:
    """Put what brokers refused into the accounts' trails."""
    broker_refusals.move()
