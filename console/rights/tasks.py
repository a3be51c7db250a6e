"""Background work of the rights."""

from __future__ import annotations

from console.accounts.services.roles import sweep_expired_keys
from console.celery import app
from console.rights import access_table


# Messages that wait in the queue carry this name: it does not follow the module's.
@app.task(name="console.accounts.tasks.publish_acl")  # type: ignore[untyped-decorator]
def publish_acl() -> None:
    """Publish the ACL table again: mends what a lost connection left behind, and drops expired keys."""
    sweep_expired_keys()
    access_table.publish()
