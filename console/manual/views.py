"""The documentation, for whoever has signed in."""

from __future__ import annotations

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from console.accounts.http import Request
from console.manual import pages


@require_GET
def index(request: Request) -> HttpResponse:
    return _shown(request, pages.INDEX)


@require_GET
def page(request: Request, name: str) -> HttpResponse:
    return _shown(request, name)


def _shown(request: Request, name: str) -> HttpResponse:
    """It is the same for everybody and part of the release: nothing is decided about it."""
    found = pages.page(name)
    if found is None:
        raise Http404("no such page")
    return render(request, "manual/page.html", {"page": found, "is_index": name == pages.INDEX})
