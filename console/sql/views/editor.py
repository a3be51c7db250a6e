"""The editor: the page, running a statement, what helps writing one, and saved statements."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from analytics import engine
from console.accounts.http import Request
from console.catalog import access as catalog_access
from console.catalog import queries, schema_tree
from console.catalog.describe import Answer
from console.sql import access, hint_builder, runs, saved
from console.sql.forms import EditorForm, HintForm, SavedForm
from console.sql.models import QueryTask, SavedQuery
from console.sql.views import panes
from console.statements import hint as hints
from console.web import forms, htmx
from console.web.paging import search_text

PANELS = ("schemas", "saved", "history")
#: Names that completion gets at once.
_COMPLETED = 50
_PICKS = {"topics": hint_builder.topics, "groups": hint_builder.groups, "queues": hint_builder.queues}


def editor(request: Request) -> HttpResponse:
    """The page; what is sent to it is run, and without scripts leads to the task."""
    catalog_access.pages(request)
    if request.method != "POST":
        return render(request, "sql/editor.html", page_context(request, EditorForm(initial=_initial(request))))
    form = EditorForm(request.POST)
    outcome = _run(request, form)
    if isinstance(outcome, QueryTask):
        return htmx.done(request, "sql.task", outcome.pk)
    answered = {} if outcome is None else {"answer": outcome}
    return forms.show(request, "sql/editor.html", form, page_context(request, form) | answered)


@require_POST
def run(request: Request) -> HttpResponse:
    """Run from inside the page: the pane of the statement, or what is wrong above it."""
    catalog_access.pages(request)
    form = EditorForm(request.POST)
    outcome = _run(request, form)
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
    catalog_access.pages(request)
    return JsonResponse(_opened(request))


def _run(request: Request, form: EditorForm) -> QueryTask | Answer | None:
    """The task or the answer; None when the form says what is wrong."""
    if form.is_valid():
        given, explain = form.cleaned_data, request.POST.get("mode") == "explain"
        with forms.refusals_on(form, denials_on="schema"):
            return runs.start(request.actor, given["text"], given["schema"], explain=explain)
    return None


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


@require_GET
def schema(request: Request, name: str) -> HttpResponse:
    """The tables of a schema, when it is opened in the tree."""
    catalog_access.pages(request)
    found = schema_tree.tables(request.actor, name, search_text(request))
    context = {"tables": found, "schema": name, "quoted": schema_tree.quoted(name), "q": search_text(request)}
    return render(request, "sql/_tree_tables.html", context)


@require_GET
def columns(request: Request, name: str, table: str) -> HttpResponse:
    """The columns of a table, when it is opened in the tree."""
    catalog_access.pages(request)
    found = schema_tree.columns(request.actor, name, table)
    full = f"{schema_tree.quoted(name)}.{schema_tree.quoted(table)}"
    context = {"schema": name, "table": table, "full": full, "columns": found}
    return render(request, "sql/_tree_columns.html", context)


@require_GET
def names(request: Request) -> HttpResponse:
    """What can be completed: all at once, or of a searched schema the tables (`q`) or the columns of one (`table`)."""
    catalog_access.pages(request)
    name, table = request.GET.get("schema", ""), request.GET.get("table", "")
    if table:
        found = schema_tree.columns(request.actor, name, table)
        return JsonResponse({"columns": [[column.name, column.type] for column in found]})
    if name:
        return JsonResponse({"tables": schema_tree.tables(request.actor, name, search_text(request), _COMPLETED).names})
    known = schema_tree.completions(request.actor)
    return JsonResponse(known | {"refused": sorted(engine.REFUSED_FUNCTIONS), "options": list(hints.OPTIONS)})


@require_GET
def pick(request: Request, kind: str) -> HttpResponse:
    """Entries of a pick list of the hint builder, found by what was typed."""
    catalog_access.pages(request)
    text = search_text(request)
    context: dict[str, Any] = {"options": [], "kind": kind, "q": text, "problem": ""}
    with forms.refusals_in(context, "problem"):
        if kind == "instances":
            context["options"] = hint_builder.instances(request.actor, text)
        else:
            context["options"] = _PICKS[kind](request.actor, request.GET.get("instance", ""), text)
    return render(request, "sql/_options.html", context)


@require_POST
def hint(request: Request) -> HttpResponse:
    """The hint that the form makes: as an edit for the editor, or without scripts the page with the new text."""
    catalog_access.pages(request)
    text = request.POST.get("text", "")
    form = HintForm(request.POST)
    made = ""
    if form.is_valid():
        with forms.refusals_on(form):
            made = hint_builder.written(request.actor, **form.wanted)
    if htmx.is_fragment(request):
        edit = hint_builder.edit(text, made) if made else None
        context = {"hint_form": form, "edit": edit}
        return render(request, "sql/_hint_form.html", context, status=200 if made else 422)
    if made:
        text = hint_builder.edit(text, made).applied(text)
    initial = {"text": text, "schema": request.POST.get("schema", "")}
    context = page_context(request, EditorForm(initial=initial)) | {"hint_form": form}
    return render(request, "sql/editor.html", context, status=200 if made else 422)


@require_POST
def check(request: Request) -> HttpResponse:
    """What the hint in front of the text means, and what of it is ignored."""
    catalog_access.pages(request)
    try:
        found = hints.split(request.POST.get("text", ""))
    except hints.HintError as error:
        return render(request, "sql/_hint_check.html", {"problem": str(error)})
    return render(
        request, "sql/_hint_check.html", {"hint": found, "receipt": found.receipt, "destination": found.destination}
    )


@require_http_methods(["GET", "POST"])
def save_statement(request: Request) -> HttpResponse:
    """Ask for a name, and keep the statement under it."""
    catalog_access.pages(request)
    form = SavedForm(request.POST if request.method == "POST" else None)
    if form.is_valid():
        with forms.refusals_on(form, denials_on=forms.WHOLE_FORM):
            saved.keep(request.actor, **form.cleaned_data)
            return _kept(request)
    return forms.show(request, _dialog(request), form)


@require_http_methods(["GET", "POST"])
def change_saved(request: Request, key: int) -> HttpResponse:
    """Rename or share."""
    found = _saved(request, key)
    initial = {"name": found.name, "shared": found.shared, "schema": found.table_schema, "text": found.text}
    form = SavedForm(initial | request.POST.dict() if request.method == "POST" else None, initial=initial)
    if form.is_valid():
        shared = request.POST.get("shared") == "on"
        with forms.refusals_on(form):
            saved.change(request.actor, found, name=form.cleaned_data["name"], shared=shared)
            return _kept(request)
    return forms.show(request, _dialog(request), form, {"entry": found})


@require_POST
def delete_saved(request: Request, key: int) -> HttpResponse:
    saved.delete(request.actor, _saved(request, key))
    return _kept(request)


def _saved(request: Request, key: int) -> SavedQuery:
    catalog_access.pages(request)
    found = saved.visible(request.actor).filter(pk=key).first()
    if found is None:
        raise Http404("no such statement")
    return found


def _dialog(request: Request) -> str:
    return "sql/_save_dialog.html" if htmx.is_fragment(request) else "sql/save.html"


def _kept(request: Request) -> HttpResponse:
    if not htmx.is_fragment(request):
        return htmx.done(request, "sql.editor")
    response = HttpResponse(status=204)
    response["HX-Trigger"] = '{"sqlSaved": null, "closeDialog": null}'
    return response
