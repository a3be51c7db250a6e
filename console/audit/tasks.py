"""Background work of the audit trail."""

from __future__ import annotations

from console.audit import from_servers
from console.celery import app


@app.task(name="console.audit.tasks.move_from_servers")  # type: ignore[untyped-decorator]
def move_from_servers() -> None:
    """Put what brokers and the queue service tell into the accounts' trails."""
    from_servers.move()
