"""The editor of a job: saving a draft, what its text would do, and deploying it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpResponse, JsonResponse
from django.views.decorators.http import require_GET, require_POST

from console.accounts.http import Request
from console.jobs import access, graph, queries, services
from console.jobs.compiler.planning import Checked
from console.jobs.compiler.words import TextRefused
from console.jobs.forms import TextForm
from console.jobs.views.about import about
from console.pipelines.models import Pipeline, Version
from console.web import forms, htmx

_ACTIONS = {"validate": access.QUERY, "save": access.UPDATE, "deploy": access.UPDATE}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a text that was sent."""

    mode: str
    refusals: tuple[TextRefused, ...] = ()
    warnings: tuple[str, ...] = ()
    graph: graph.Graph | None = None
    plan: Any = None
    is_saved: bool = False
    version: Version | None = None
    #: What stands in the editor from now on, where secrets were taken out of the text; else empty.
    text: str = ""


@require_GET
def editor(request: Request, name: str) -> HttpResponse:
    job = access.job(request, name, access.QUERY)
    return _shown(request, job, TextForm(initial={"text": job.draft}), None)


@require_POST
def text(request: Request, name: str) -> HttpResponse:
    """Validate, save or deploy what was sent, as its button says; without scripts the page comes again."""
    mode = request.POST.get("mode", "validate")
    mode = mode if mode in _ACTIONS else "validate"
    job = access.job(request, name, _ACTIONS[mode])
    form = TextForm(request.POST)
    outcome = None
    if form.is_valid():
        with forms.refusals_on(form, denials_on=forms.WHOLE_FORM):
            outcome = _done(request, job, form.cleaned_data["text"], mode)
            if outcome.text:
                form = TextForm(initial={"text": outcome.text})
    job.refresh_from_db()
    return _shown(request, job, form, outcome)


@require_GET
def names(request: Request) -> HttpResponse:
    """What the editor can complete."""
    access.jobs(request, access.QUERY)
    return JsonResponse(queries.completions(request.actor))


def _done(request: Request, job: Pipeline, written: str, mode: str) -> Outcome:
    # A textarea sends its line ends as CRLF; the text has the ones that were typed.
    written = written.replace("\r\n", "\n")
    try:
        if mode == "save":
            return _outcome(
                mode, written, services.save_draft(actor=request.actor, pipeline=job, text=written), is_saved=True
            )
        checked = services.look(actor=request.actor, text=written)
        if mode == "validate":
            return _outcome(mode, "", checked)
        try:
            version = services.deploy(actor=request.actor, pipeline=job, text=written)
        except TextRefused:
            if not checked.refusals:
                raise
            return _outcome(mode, "", checked)
        return _outcome(mode, written, checked, version=version)
    except TextRefused as refused:
        return Outcome(mode, (refused,))


def _outcome(mode: str, written: str, checked: Checked, **more: Any) -> Outcome:
    """`written` is what was kept, which the editor gets anew where secrets were taken out of it; empty for nothing."""
    drawn = graph.of_plan(checked.plan) if checked.plan is not None else None
    changed = checked.text if written and checked.text != written else ""
    return Outcome(mode, checked.refusals, checked.warnings, drawn, checked.plan, text=changed, **more)


def _shown(request: Request, job: Pipeline, form: TextForm, outcome: Outcome | None) -> HttpResponse:
    context = about(request, job, "editor") | {"form": form, "outcome": outcome}
    if request.method == "GET":
        return htmx.page(request, "jobs/editor.html", "jobs/_outcome.html", context)
    return forms.show_part(request, "jobs/editor.html", "jobs/_outcome.html", form, context)
