"""Saved statements: keep, rename, share, delete."""

from __future__ import annotations

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_http_methods, require_POST

from console.sql import access
from console.sql import saved as services
from console.sql.forms import SavedForm
from console.sql.models import SavedQuery
from console.web import htmx
from console.web.errors import Refused
from console.web.forms import add_refusal
from console.web.http import Request


@require_http_methods(["GET", "POST"])
def save(request: Request) -> HttpResponse:
    """Ask for a name, and keep the statement under it."""
    access.pages(request)
    if request.method != "POST":
        return render(request, _template(request), {"form": SavedForm()})
    form = SavedForm(request.POST)
    try:
        if form.is_valid():
            services.keep(request.actor, **form.cleaned_data)
            return _done(request)
    except Refused as refused:
        add_refusal(form, refused)
    except PermissionDenied as denied:
        form.add_error(None, f"Not allowed: {denied}.")
    return render(request, _template(request), {"form": form}, status=422)


@require_http_methods(["GET", "POST"])
def change(request: Request, key: int) -> HttpResponse:
    """Rename or share."""
    found = _saved(request, key)
    initial = {"name": found.name, "shared": found.shared, "schema": found.table_schema, "text": found.text}
    form = SavedForm(initial | request.POST.dict() if request.method == "POST" else None, initial=initial)
    context = {"form": form, "entry": found}
    if request.method != "POST":
        return render(request, _template(request), context)
    try:
        if form.is_valid():
            shared = request.POST.get("shared") == "on"
            services.change(request.actor, found, name=form.cleaned_data["name"], shared=shared)
            return _done(request)
    except Refused as refused:
        add_refusal(form, refused)
    return render(request, _template(request), context, status=422)


@require_POST
def delete(request: Request, key: int) -> HttpResponse:
    services.delete(request.actor, _saved(request, key))
    return _done(request)


def _saved(request: Request, key: int) -> SavedQuery:
    access.pages(request)
    found = services.visible(request.actor).filter(pk=key).first()
    if found is None:
        raise Http404("no such statement")
    return found


def _template(request: Request) -> str:
    return "sql/_save_dialog.html" if htmx.is_fragment(request) else "sql/save.html"


def _done(request: Request) -> HttpResponse:
    if not htmx.is_fragment(request):
        return htmx.done(request, "sql.editor")
    response = HttpResponse(status=204)
    response["HX-Trigger"] = '{"sqlSaved": null, "closeDialog": null}'
    return response
