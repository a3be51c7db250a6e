"""Starting and stopping a job."""

from __future__ import annotations

from django.http import HttpResponse

from console.accounts.http import Request
from console.jobs import access, services
from console.jobs.forms import StartForm, StopForm
from console.jobs.views.about import about
from console.pipelines import queries
from console.pipelines.models import StartFrom
from console.web import forms, htmx


def start(request: Request, name: str) -> HttpResponse:
    """Ask what to go on from, and start."""
    job = access.job(request, name, access.START)
    chosen = request.GET.get("savepoint", "")
    initial = {"start_from": StartFrom.SAVEPOINT, "savepoint": chosen} if chosen else {}
    form = StartForm(request.POST or None, job=job, initial=initial)
    if form.is_valid():
        with forms.refusals_on(form, denials_on=forms.WHOLE_FORM):
            services.start(
                actor=request.actor,
                pipeline=job,
                start_from=StartFrom(form.cleaned_data["start_from"]),
                savepoint=queries.savepoint(job, form.cleaned_data.get("savepoint", "")),
            )
            return htmx.done(request, "jobs.detail", name)
    context = about(request, job, "overview")
    return forms.show_part(request, "jobs/start.html", "jobs/_start_dialog.html", form, context)


def stop(request: Request, name: str) -> HttpResponse:
    """Ask whether to keep a savepoint, and stop."""
    job = access.job(request, name, access.STOP)
    form = StopForm(request.POST if request.method == "POST" else None)
    if form.is_valid():
        with forms.refusals_on(form):
            services.stop(actor=request.actor, pipeline=job, with_savepoint=form.cleaned_data["with_savepoint"])
            return htmx.done(request, "jobs.detail", name)
    context = about(request, job, "overview")
    return forms.show_part(request, "jobs/stop.html", "jobs/_stop_dialog.html", form, context)
