"""The end of a pipeline that was deleted. One that runs stops first, as when it is paused; pages know it no more."""

from __future__ import annotations

from console.celery import app
from console.pipelines import journal, queries, samples
from console.pipelines.models import BUSY, Pipeline
from console.web.after_commit import after_commit

_REMOVE = "console.pipelines.tasks.remove"  # by name: tasks stand above


def remove(pipeline: Pipeline) -> None:
    """Remove a pipeline that no worker holds, with its versions, samples and log, and soon its state in the lake."""
    location = queries.location_of(pipeline)
    key = pipeline.pk
    Pipeline.objects.filter(pk=key).delete()
    after_commit(samples.forget, key)
    after_commit(journal.forget, pipeline.tenant.uid, key)
    after_commit(app.send_task, _REMOVE, [location, pipeline.tenant_id], retry=False)


def remove_ended(pipeline_id: int | None = None) -> None:
    """Remove what was deleted while it ran and runs no more; or one of them."""
    found = Pipeline.objects.filter(deleted_at__isnull=False).exclude(state__in=BUSY).select_related("tenant")
    for pipeline in found.filter(pk=pipeline_id) if pipeline_id else found:
        remove(pipeline)
