"""What helps writing a statement: the schema tree, names for completion, the hint builder, a check of the hint."""

from __future__ import annotations

from django.http import HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET, require_POST

from analytics import run as engine
from console.sql import access, hint_builder, hints, schema_tree
from console.sql.forms import EditorForm, HintForm
from console.sql.views import editor
from console.web import htmx
from console.web.errors import Refused
from console.web.forms import add_refusal
from console.web.http import Request
from console.web.paging import search_text

#: Names that completion gets at once.
_COMPLETED = 50
_PICKS = {"topics": hint_builder.topics, "groups": hint_builder.groups}


@require_GET
def schema(request: Request, name: str) -> HttpResponse:
    """The tables of a schema, when it is opened in the tree."""
    access.pages(request)
    found = schema_tree.tables(request.actor, name, search_text(request))
    context = {"tables": found, "schema": name, "quoted": schema_tree.quoted(name), "q": search_text(request)}
    return render(request, "sql/_tree_tables.html", context)


@require_GET
def columns(request: Request, name: str, table: str) -> HttpResponse:
    """The columns of a table, when it is opened in the tree."""
    access.pages(request)
    found = schema_tree.columns(request.actor, name, table)
    full = f"{schema_tree.quoted(name)}.{schema_tree.quoted(table)}"
    context = {"schema": name, "table": table, "full": full, "columns": found}
    return render(request, "sql/_tree_columns.html", context)


@require_GET
def names(request: Request) -> HttpResponse:
    """What can be completed: all at once, or of a searched schema the tables (`q`) or the columns of one (`table`)."""
    access.pages(request)
    name, table = request.GET.get("schema", ""), request.GET.get("table", "")
    if table:
        found = schema_tree.columns(request.actor, name, table)
        return JsonResponse({"columns": [[column.name, column.type] for column in found]})
    if name:
        return JsonResponse({"tables": schema_tree.tables(request.actor, name, search_text(request), _COMPLETED).names})
    known = schema_tree.completions(request.actor)
    return JsonResponse(known | {"refused": sorted(engine.refused_functions()), "options": list(hints.OPTIONS)})


@require_GET
def pick(request: Request, kind: str) -> HttpResponse:
    """Entries of a pick list of the hint builder, found by what was typed."""
    access.pages(request)
    text = search_text(request)
    if kind == "instances":
        options = hint_builder.instances(request.actor, text)
    else:
        options = _PICKS[kind](request.actor, request.GET.get("instance", ""), text)
    return render(request, "sql/_options.html", {"options": options, "kind": kind, "q": text})


@require_POST
def hint(request: Request) -> HttpResponse:
    """The hint that the form makes: as an edit for the editor, or without scripts the page with the new text."""
    access.pages(request)
    text = request.POST.get("text", "")
    form = HintForm(request.POST)
    try:
        made = form.is_valid() and hint_builder.written(request.actor, **form.wanted)
    except Refused as refused:
        add_refusal(form, refused)
        made = False
    if htmx.is_fragment(request):
        edit = hint_builder.edit(text, str(made)) if made else None
        context = {"hint_form": form, "edit": edit}
        return render(request, "sql/_hint_form.html", context, status=200 if made else 422)
    if made:
        text = hint_builder.edit(text, str(made)).applied(text)
    initial = {"text": text, "schema": request.POST.get("schema", "")}
    context = editor.page_context(request, EditorForm(initial=initial)) | {"hint_form": form}
    return render(request, "sql/editor.html", context, status=200 if made else 422)


@require_POST
def check(request: Request) -> HttpResponse:
    """What the hint in front of the text means, and what of it is ignored."""
    access.pages(request)
    try:
        found = hints.split(request.POST.get("text", ""))
    except hints.HintError as error:
        return render(request, "sql/_hint_check.html", {"problem": str(error)})
    return render(request, "sql/_hint_check.html", {"hint": found, "receipt": found.receipt})
