"""Background work of the accounts."""

from __future__ import annotations

from console.accounts import acl
from console.accounts.services.sessions import clear_ended_sessions
from console.accounts.services.sts import sweep_expired_keys
from console.celery import app


@app.task(name="console.accounts.tasks.publish_acl")  # type: ignore[untyped-decorator]
def publish_acl() -> None:
    """Publish the ACL table again: mends what a lost connection left behind, and drops expired keys."""
    sweep_expired_keys()
    acl.publish()


@app.task(name="console.accounts.tasks.clear_sessions")  # type: ignore[untyped-decorator]
def clear_sessions() -> None:
    """Delete sessions that ran out."""
    clear_ended_sessions()
