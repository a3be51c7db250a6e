"""Background work of the accounts."""

from __future__ import annotations

from console.accounts import acl
from console.celery import app


@app.task(name="console.accounts.tasks.publish_acl")  # type: ignore[untyped-decorator]
def publish_acl() -> None:
    """Publish the ACL table again: mends what a lost connection left behind, and drops expired keys."""
    acl.publish()
