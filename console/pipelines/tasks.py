"""Celery tasks of pipelines: `look` on the queue `pipelines`, the others on `default`."""

from __future__ import annotations

import contextlib
import functools

from analytics import lake
from analytics.errors import PipelineRefused
from analytics.pipelines import checkpoints
from console.accounts.models import Tenant
from console.catalog import storage
from console.celery import app
from console.pipelines import lifecycle, services, worker
from console.pipelines.models import BUSY, Pipeline, Savepoint


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
def remove(location: str, tenant_id: int = 0) -> None:
    """Remove the state of a pipeline that was deleted: its account has that room again."""
    lake.remove(location)
    for tenant in Tenant.objects.filter(pk=tenant_id):
        storage.changed(tenant)


@app.task(name="console.pipelines.tasks.remove_savepoint")  # type: ignore[untyped-decorator]
def remove_savepoint(location: str, name: str, tenant_id: int) -> None:
    """Remove the files of a savepoint that was deleted: its account has that room again."""
    with contextlib.suppress(PipelineRefused):  # told twice, or the whole job is gone
        checkpoints.drop_savepoint(location, name)
    for tenant in Tenant.objects.filter(pk=tenant_id):
        storage.changed(tenant)


@app.task(name="console.pipelines.tasks.expire")  # type: ignore[untyped-decorator]
def expire() -> None:
    """Every hour: remove what was deleted when nobody took the message, and savepoints that were never written down."""
    top = f"oss://{storage.STATES_BUCKET}/"
    found = [(account, name) for account in lake.folders(top) for name in lake.folders(f"{top}{account}/")]
    # Asked after the look at the folders: one that is made meanwhile has its row before its folder.
    kept = {str(key) for key in Pipeline.objects.values_list("pk", flat=True)}
    for account, name in found:
        location = f"{top}{account}/{name}/"
        if name not in kept:
            lake.remove(location)
        elif not checkpoints.drop_unknown(location, functools.partial(_savepoints, int(name))):
            continue
        for tenant in Tenant.objects.filter(uid=account):
            storage.changed(tenant)


def _savepoints(pipeline_id: int) -> set[str] | None:
    """Names of those that are written down; None while a worker may be keeping one."""
    if not Pipeline.objects.filter(pk=pipeline_id).exclude(state__in=BUSY).exists():
        return None
    return {savepoint.name for savepoint in Savepoint.objects.filter(pipeline_id=pipeline_id)}
