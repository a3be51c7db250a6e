"""Keeping views of lists, and the page where they are renamed and deleted. Everybody has their own."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode, urlsplit

from django.contrib import messages
from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from console.accounts import saved_views
from console.accounts.http import Request
from console.web import columns, forms
from console.web.returning import way_back


@require_GET
def index(request: Request, name: str) -> HttpResponse:
    """The visitor's views of a list."""
    context: dict[str, Any] = {
        "list": name,
        "back": _back(request, request.GET.get("next", "")),
        "views": saved_views.own(request.actor.person, name),
        "most": saved_views.MOST,
        "may_share": request.user.tenant_id is not None,
    }
    return render(request, "accounts/saved_views.html", context)


@require_POST
def keep(request: Request) -> HttpResponse:
    """Keep what the list shows at the address `next`, and go back there."""
    back, name = _back(request, request.POST.get("next", "")), request.POST.get("list", "")
    query = urlsplit(back).query
    left_out = columns.left_out(request, name, QueryDict(query)) if request.POST.get("columns") else None
    with forms.refusals_told(request):
        kept = saved_views.keep(
            actor=request.actor,
            name=request.POST.get("name", ""),
            list_name=name,
            query=saved_views.normal(query, left_out),
            is_default=bool(request.POST.get("default")),
            share=bool(request.POST.get("shared")),
        )
        messages.success(request, _("The view %(name)s is kept.") % {"name": kept.name})
    return redirect(back)


@require_POST
def change(request: Request, name: str, number: int) -> HttpResponse:
    """Rename, share, make the default, or delete a view of the visitor's own."""
    view = saved_views.own(request.actor.person, name).filter(pk=number).first()
    if view is None:
        raise Http404("no such view")
    if "delete" in request.POST:
        saved_views.delete(actor=request.actor, view=view)
    else:
        with forms.refusals_told(request):
            saved_views.change(
                actor=request.actor,
                view=view,
                name=request.POST.get("name", ""),
                is_default=bool(request.POST.get("default")),
                share=bool(request.POST.get("shared")),
            )
    back = urlencode({"next": _back(request, request.POST.get("next", ""))})
    return redirect(f"{reverse('accounts.saved_views', args=[name])}?{back}")


def _back(request: Request, url: str) -> str:
    return way_back(request, url) or "/"
