"""The list of SQL jobs, and the pages of one: overview, curves, checkpoints, log, versions."""

from __future__ import annotations

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from console.accounts import downloads, saved_views
from console.accounts.http import Request
from console.jobs import access, figures, services
from console.jobs.forms import JobForm
from console.jobs.tables import JobTable
from console.jobs.views.about import about, live
from console.pipelines import pages, queries, samples
from console.pipelines import services as pipelines
from console.pipelines.models import BUSY, Kind, Pipeline
from console.web import deletion, forms, htmx, streams
from console.web.paging import configured, records, search_text

_EVENTS_SHOWN = 100


@streams.part
@require_GET
@saved_views.opens_with_default("jobs_JobTable")
def job_list(request: Request) -> HttpResponseBase:
    tenant = access.jobs(request, access.QUERY)
    text = search_text(request)
    table = configured(request, JobTable(queries.pipelines(tenant, Kind.JOB, text)))
    if downloads.is_wanted(request):
        return downloads.csv(request, table, "jobs.job.export", "jobs")
    table.measure(records(table))
    context = {
        "table": table,
        "q": text,
        "may_create": access.may(request.actor, access.CREATE),
        "sees_secrets": access.may_list(request.actor, "job-secret"),
    }
    return htmx.page(request, "jobs/list.html", "jobs/_list.html", context)


def job_create(request: Request) -> HttpResponse:
    access.jobs(request, access.CREATE, request.POST.get("name", "").strip() or "*")
    form = JobForm(request.POST or None)
    if form.is_valid():
        name = form.cleaned_data["name"]
        with forms.refusals_on(form):
            services.create(actor=request.actor, name=name, text=form.text)
            return redirect("jobs.editor", name)
    return forms.show(request, "jobs/create.html", form)


@require_GET
def job_detail(request: Request, name: str) -> HttpResponse:
    job = access.job(request, name, access.QUERY)
    context = live(request, job) | _events(job)
    return render(request, "jobs/detail.html", context | {"draws": context["graph"] is not None})


@streams.part
@require_GET
def job_live(request: Request, name: str) -> HttpResponse:
    """What of the page changes by itself; tables that are open stay where they are.

    The graph comes only to a page that has a place for it.
    """
    job = access.job(request, name, access.QUERY)
    context = live(request, job) | _events(job)
    draws = request.GET.get("graph") == "1" and context["graph"] is not None
    return render(request, "jobs/_live.html", context | {"draws": draws, "is_refresh": True})


@streams.part
@require_GET
def job_statistics(request: Request, name: str) -> HttpResponse:
    job = access.job(request, name, access.QUERY)
    ranges, seconds = pages.ranges(request)
    points = samples.curve(job.pk, seconds)
    context = about(request, job, "statistics") | {
        "ranges": ranges,
        "points": points,
        "rows": list(reversed(points))[:200],
        "curves": figures.curves(points, seconds),
    }
    return htmx.page(request, "jobs/statistics.html", "jobs/_statistics.html", context)


@streams.part
@require_GET
def job_checkpoints(request: Request, name: str) -> HttpResponse:
    job = access.job(request, name, access.QUERY)
    context = about(request, job, "checkpoints") | {
        "now": samples.latest([job.pk]).get(job.pk),
        "savepoints": queries.savepoints(job)[:_EVENTS_SHOWN],
    }
    return htmx.page(request, "jobs/checkpoints.html", "jobs/_checkpoints.html", context)


@require_GET
def job_log(request: Request, name: str) -> HttpResponse:
    """The log; with a cursor the lines behind it, which htmx puts below those that are there."""
    job = access.job(request, name, access.QUERY)
    context = about(request, job, "log") | pages.log(request, job)
    return htmx.page(request, "jobs/log.html", "pipelines/_log_more.html", context)


@require_GET
def version_list(request: Request, name: str) -> HttpResponse:
    job = access.job(request, name, access.QUERY)
    return render(request, "jobs/versions.html", about(request, job, "versions") | pages.versions(job))


@require_GET
def version_detail(request: Request, name: str, number: int) -> HttpResponse:
    """A version, and what differs from the one before it, or from the one that was chosen."""
    job = access.job(request, name, access.QUERY)
    context = about(request, job, "versions") | pages.version(request, job, number)
    return render(request, "jobs/version.html", context)


def job_delete(request: Request, name: str) -> HttpResponse:
    job = access.job(request, name, access.DELETE)
    warning = _("Its versions, its savepoints and its log are deleted with it; what it has written stays.")
    if job.state in BUSY:
        warning = _("It is %(state)s: stop it first.") % {"state": job.get_state_display().lower()}
    cancel_url = reverse("jobs.detail", args=[name])
    wanted = deletion.Deletion(kind=_("SQL job"), name=name, warning=warning, cancel_url=cancel_url)

    def act() -> None:
        services.delete(actor=request.actor, pipeline=job)
        messages.success(request, _("The job %(name)s is deleted.") % {"name": name})

    return deletion.confirm(request, wanted, act, ("jobs.list",))


def savepoint_delete(request: Request, name: str, key: str) -> HttpResponse:
    job = access.job(request, name, access.DELETE_SAVEPOINT)
    savepoint = queries.savepoint(job, key)
    if savepoint is None:
        raise Http404("no such savepoint")
    wanted = deletion.Deletion(
        kind=_("savepoint"),
        name=savepoint.name,
        warning=_("No start of %(name)s can go on from it any more. What runs, the last checkpoint and others stay.")
        % {"name": name},
        cancel_url=reverse("jobs.checkpoints", args=[name]),
    )

    def act() -> None:
        pipelines.delete_savepoint(actor=request.actor, pipeline=job, savepoint=savepoint)
        messages.success(request, _("The savepoint %(savepoint)s is deleted.") % {"savepoint": savepoint.name})

    return deletion.confirm(request, wanted, act, ("jobs.checkpoints", name))


def _events(job: Pipeline) -> dict[str, object]:
    return {"events": queries.events(job)[:_EVENTS_SHOWN]}
