"""Reads of pipelines. The account comes first; what is being deleted is there for nobody."""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from console.accounts.models import Tenant
from console.catalog.storage import STATES_BUCKET
from console.pipelines.models import BUSY, Event, Kind, Pipeline, Savepoint, Secret, State, Variable, Version

#: A worker looks every second, so that a wait of this length tells nothing.
_USUAL_WAIT = timedelta(seconds=3)


def pipelines(tenant: Tenant, kind: Kind, text: str = "") -> QuerySet[Pipeline]:
    """The account's pipelines of a kind whose names have `text` in them, in any case; without their long texts."""
    found = Pipeline.objects.filter(tenant=tenant, kind=kind, deleted_at=None).select_related("version")
    found = found.defer("draft", "version__text", "version__plan")
    return found.filter(name__icontains=text) if text else found


def pipeline(tenant: Tenant, kind: Kind, name: str) -> Pipeline | None:
    """The pipeline of a name."""
    found = Pipeline.objects.filter(tenant=tenant, kind=kind, name=name, deleted_at=None)
    return found.select_related("version").first()


def versions(pipeline: Pipeline) -> QuerySet[Version]:
    """What was deployed, the newest first; without texts and plans."""
    return pipeline.versions.defer("text", "plan")


def version(pipeline: Pipeline, number: int) -> Version | None:
    """One of the versions."""
    return pipeline.versions.filter(number=number).first()


def running_version(pipeline: Pipeline) -> int | None:
    """The number of the version that ran last; None when none ever did."""
    return pipeline.events.filter(kind=State.RUNNING).values_list("version", flat=True).first()


def savepoints(pipeline: Pipeline) -> QuerySet[Savepoint]:
    """The savepoints, the newest first, each with the version that it is of."""
    return pipeline.savepoints.select_related("version").defer("version__text", "version__plan")


def savepoint(pipeline: Pipeline, key: str) -> Savepoint | None:
    """One of the savepoints, by its number."""
    return pipeline.savepoints.filter(pk=int(key)).first() if key.isdecimal() and len(key) < 19 else None


def events(pipeline: Pipeline) -> QuerySet[Event]:
    """What happened, the newest first."""
    return pipeline.events.all()


def secrets(tenant: Tenant) -> QuerySet[Secret]:
    """The account's secrets by name; their values are not read."""
    return Secret.objects.filter(tenant=tenant).only("name", "changed_at")


def variables(tenant: Tenant) -> QuerySet[Variable]:
    """The account's variables by name."""
    return Variable.objects.filter(tenant=tenant)


def used(tenant: Tenant) -> dict[str, int]:
    """How many jobs an account has, and how many of them run or wait for a worker; what is deleted counts until it is
    gone."""
    found = Pipeline.objects.filter(tenant=tenant)
    return {"jobs": found.count(), "running_jobs": found.filter(state__in=BUSY).count()}


def waits_for(pipeline: Pipeline) -> str:
    """A sentence on what a pipeline waits for that may begin and that no worker has taken; empty for any other."""
    if pipeline.state != State.STARTING or pipeline.worker:
        return ""
    since = pipeline.due_at or pipeline.started_at
    if since is None or timezone.now() - since < _USUAL_WAIT:
        return ""
    jobs = (
        _("one job")
        if settings.PIPELINES_PER_WORKER == 1
        else _("up to %(pipelines_per_worker)s jobs") % {"pipelines_per_worker": settings.PIPELINES_PER_WORKER}
    )
    return _("It waits for a worker with a free place; each runs %(jobs)s at a time (GANTRY_PIPELINES_PER_WORKER).") % {
        "jobs": jobs
    }


def location_of(pipeline: Pipeline) -> str:
    """The folder of the lake that has the pipeline's state, and savepoints, and nothing else."""
    return f"oss://{STATES_BUCKET}/{pipeline.tenant.uid}/{pipeline.pk}/"
