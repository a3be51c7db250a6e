"""Celery tasks of pipelines: `look` on the queue `pipelines`, the others on `default`."""

from __future__ import annotations

from analytics import lake
from console.catalog.storage import STATES_BUCKET
from console.celery import app
from console.pipelines import lifecycle, services, worker
from console.pipelines.models import Pipeline


@app.task(name="console.pipelines.tasks.look")  # type: ignore[untyped-decorator]
def look() -> None:
    """Look at once for pipelines that are to start or to stop."""
    worker.worker.wake()


@app.task(name="console.pipelines.tasks.sweep")  # type: ignore[untyped-decorator]
def sweep() -> None:
    """Every 5 s: give pipelines whose worker is silent to others."""
    if lifecycle.sweep():
        services.hand_over()


@app.task(name="console.pipelines.tasks.remove")  # type: ignore[untyped-decorator]
def remove(location: str) -> None:
    """Remove the state of a pipeline that was deleted."""
    lake.remove(location)


@app.task(name="console.pipelines.tasks.expire")  # type: ignore[untyped-decorator]
def expire() -> None:
    """Every hour: remove states of pipelines that were deleted when nobody took the message."""
    top = f"oss://{STATES_BUCKET}/"
    found = [(account, name) for account in lake.folders(top) for name in lake.folders(f"{top}{account}/")]
    # Asked after the look at the folders: one that is made meanwhile has its row before its folder.
    kept = {str(key) for key in Pipeline.objects.values_list("pk", flat=True)}
    for account, name in found:
        if name not in kept:
            lake.remove(f"{top}{account}/{name}/")
