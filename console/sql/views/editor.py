"""The editor: the page, running a statement, and what stands in it."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET, require_POST

from console.sql import access, queries, runs, saved, schema_tree
from console.sql.catalog import Answer
from console.sql.forms import EditorForm, HintForm
from console.sql.models import QueryTask
from console.sql.views import panes
from console.web import htmx
from console.web.errors import Refused
from console.web.forms import add_refusal
from console.web.http import Request

PANELS = ("schemas", "saved", "history")


def editor(request: Request) -> HttpResponse:
    """The page; what is sent to it is run, and without scripts leads to the task."""
    access.pages(request)
    if request.method != "POST":
        return render(request, "sql/editor.html", page_context(request, EditorForm(initial=_initial(request))))
    form = EditorForm(request.POST)
    try:
        outcome = _run(request, form)
    except Refused as refused:
        add_refusal(form, refused)
    except PermissionDenied as denied:
        form.add_error("schema", f"Not allowed: {denied}.")
    else:
        if isinstance(outcome, QueryTask):
            return htmx.done(request, "sql.task", outcome.pk)
        if outcome is not None:
            return render(request, "sql/editor.html", page_context(request, form) | {"answer": outcome})
    return render(request, "sql/editor.html", page_context(request, form), status=422)


@require_POST
def run(request: Request) -> HttpResponse:
    """Run from inside the page: the pane of the statement, or what is wrong above it."""
    access.pages(request)
    form = EditorForm(request.POST)
    try:
        outcome = _run(request, form)
    except Refused as refused:
        return _wrong(request, refused.message)
    except PermissionDenied as denied:
        return _wrong(request, f"Not allowed: {denied}.")
    if outcome is None:
        return _wrong(request, " ".join(str(message) for errors in form.errors.values() for message in errors))
    if isinstance(outcome, QueryTask):
        context = panes.context(request, outcome)
    else:
        context = {"answer": outcome, "statement": form.cleaned_data["text"]}
    response = render(request, "sql/_run.html", context | {"origin": form.origin})
    if isinstance(outcome, QueryTask):
        response["HX-Trigger-After-Settle"] = "sqlSubmitted"
    return response


@require_GET
def text(request: Request) -> HttpResponse:
    """A statement to open in the editor: of a task or a saved one."""
    access.pages(request)
    return JsonResponse(_opened(request))


def _run(request: Request, form: EditorForm) -> QueryTask | Answer | None:
    """The task or the answer; None when the form is not valid."""
    if not form.is_valid():
        return None
    given = form.cleaned_data
    return runs.start(request.actor, given["text"], given["schema"], explain=request.POST.get("mode") == "explain")


def _wrong(request: Request, message: str) -> HttpResponse:
    response = render(request, "sql/_wrong.html", {"message": message}, status=422)
    response["HX-Retarget"], response["HX-Reswap"] = "#sql-wrong", "innerHTML"
    return response


def page_context(request: Request, form: EditorForm) -> dict[str, Any]:
    """What the page needs: the form, the schemas to choose from, the left panel."""
    actor = request.actor
    panel = request.GET.get("panel", "")
    form.choose_schemas(list(queries.readable_schemas(actor)))
    context = {
        "form": form,
        "hint_form": HintForm(initial={"run_async": True, "notify": "ons"}),
        "panel": panel if panel in PANELS else PANELS[0],
    }
    return context | panes.panel_context(request, str(context["panel"]))


def _initial(request: Request) -> dict[str, str]:
    wanted = any(request.GET.get(name) for name in ("task", "saved"))
    return _opened(request) if wanted else {"schema": request.GET.get("schema", ""), "text": _sample(request)}


def _opened(request: Request) -> dict[str, str]:
    """Schema and text of the task or saved statement that the query string names; 404 for another's."""
    if request.GET.get("task"):
        task = access.task(request, request.GET["task"])
        return {"schema": task.table_schema, "text": task.command}
    key = request.GET.get("saved", "")
    found = saved.visible(request.actor).filter(pk=int(key)).first() if key.isdecimal() and len(key) < 19 else None
    if found is None:
        raise Http404("no such statement")
    return {"schema": found.table_schema, "text": found.text}


def _sample(request: Request) -> str:
    """`?table=` of a schema begins with its rows."""
    table, schema = request.GET.get("table", ""), request.GET.get("schema", "")
    if not table:
        return ""
    return f"select *\nfrom {schema_tree.quoted(schema)}.{schema_tree.quoted(table)}\nlimit 100"
