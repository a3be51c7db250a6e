"""Deleting what cannot be brought back: the name must be typed. A dialog with htmx, else a page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from django.http import HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _

from console.web import htmx
from console.web.errors import Refused
from console.web.htmx import HtmxRequest
from console.web.languages import gettext_lazy


@dataclass(frozen=True)
class Deletion:
    """What is deleted (`kind` and `name`), what else goes with it, and where a refusal to do so leads.

    `verb` is what the field calls it. It and `kind` are in the visitor's language.
    """

    kind: str
    name: str
    warning: str
    cancel_url: str
    verb: str = gettext_lazy("Delete")


def confirm(request: HtmxRequest, deletion: Deletion, act: Callable[[], None], done: tuple[str, ...]) -> HttpResponse:
    """Ask on GET; on POST run `act` when the typed name fits and go to the URL name `done` with its arguments."""
    if request.method != "POST":
        return _ask(request, deletion)
    typed = request.POST.get("name", "").strip()
    if typed != deletion.name:
        return _ask(
            request,
            deletion,
            _("Type %(name)s to %(verb)s it.") % {"name": deletion.name, "verb": deletion.verb.lower()},
            typed,
        )
    try:
        act()
    except Refused as refused:
        return _ask(request, deletion, refused.message, typed)
    return htmx.done(request, *done)


def _ask(request: HtmxRequest, deletion: Deletion, error: str = "", typed: str = "") -> HttpResponse:
    template = "includes/delete_dialog.html" if htmx.is_fragment(request) else "includes/delete_page.html"
    context = {"deletion": deletion, "error": error, "typed": typed}
    return render(request, template, context, status=422 if error else 200)
