"""The audit page."""

from __future__ import annotations

from django.http import HttpResponse
from django.views.decorators.http import require_GET

from console.accounts import access
from console.audit import queries
from console.audit.forms import FilterForm
from console.audit.tables import EntryTable
from console.web import htmx
from console.web.http import Request
from console.web.paging import configured

_PER_PAGE = 50


@require_GET
def index(request: Request) -> HttpResponse:
    tenant = access.service(request, "actiontrail", "actiontrail:Read")
    form = FilterForm(request.GET)
    form.is_valid()
    wanted = form.cleaned_data
    found = queries.entries(
        tenant,
        text=wanted.get("q", ""),
        result=wanted.get("result", ""),
        channel=wanted.get("channel", ""),
        begin=wanted.get("begin"),
        end=wanted.get("end"),
    )
    context = {"form": form, "table": configured(request, EntryTable(found), per_page=_PER_PAGE)}
    return htmx.page(request, "audit/list.html", "audit/_list.html", context)
