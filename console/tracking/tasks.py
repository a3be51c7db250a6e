"""Celery tasks of change tracking, on the queue `default`."""

from __future__ import annotations

from analytics import lake
from console.accounts.models import Tenant
from console.catalog import storage
from console.celery import app
from console.feeds.models import Feed
from console.tracking.models import TrackingTask


@app.task(name="console.tracking.tasks.expire")  # type: ignore[untyped-decorator]
def expire() -> None:
    """Every hour: remove the logs of tasks and feeds that are gone, such as those of an account that was deleted."""
    top = f"oss://{storage.TRACKING_BUCKET}/"
    found = [(account, name) for account in lake.folders(top) for name in lake.folders(f"{top}{account}/")]
    # Asked after the look at the folders: one that is made meanwhile has its row before its folder.
    kept = {*TrackingTask.objects.values_list("task_id", flat=True), *Feed.objects.values_list("feed_id", flat=True)}
    for account, name in found:
        if name not in kept:
            lake.remove(f"{top}{account}/{name}/")
            for tenant in Tenant.objects.filter(uid=account):
                storage.changed(tenant)
