"""The audit pages: of an account, and of the whole platform."""

from __future__ import annotations

import json
from typing import Any

from django.http import Http404, HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET

from console.accounts import access, saved_views
from console.accounts.http import Request
from console.accounts.models import Tenant
from console.audit import queries, record
from console.audit.pages import export as exports
from console.audit.pages.forms import FilterForm, PlatformFilterForm
from console.audit.pages.tables import EntryTable
from console.web import exports as files
from console.web import htmx
from console.web.paging import CappedPaginator, configured

_PER_PAGE = 30
_READ, _READ_PLATFORM = "actiontrail:Read", "platform:ReadAudit"
_FORMATS = {"csv": (exports.as_csv, "text/csv; charset=utf-8"), "json": (exports.as_json, "application/json")}


@require_GET
@saved_views.opens_with_default("audit_EntryTable")
def index(request: Request) -> HttpResponse:
    tenant = access.service(request, "actiontrail", _READ)
    return _list(request, tenant, FilterForm(request.GET), "audit")


@require_GET
def entry(request: Request, number: int) -> HttpResponse:
    tenant = access.service(request, "actiontrail", _READ)
    return _entry(request, tenant, number, "audit.list")


@require_GET
def export(request: Request, form: str) -> HttpResponse | StreamingHttpResponse:
    tenant = access.service(request, "actiontrail", _READ)
    return _export(request, tenant, FilterForm(request.GET), form)


@require_GET
@saved_views.opens_with_default("audit_EntryTable")
def platform_index(request: Request) -> HttpResponse:
    access.platform(request, _READ_PLATFORM, "audit")
    return _list(request, None, PlatformFilterForm(request.GET), "platform.audit")


@require_GET
def platform_entry(request: Request, number: int) -> HttpResponse:
    access.platform(request, _READ_PLATFORM, "audit")
    return _entry(request, None, number, "platform.audit")


@require_GET
def platform_export(request: Request, form: str) -> HttpResponse | StreamingHttpResponse:
    access.platform(request, _READ_PLATFORM, "audit")
    return _export(request, None, PlatformFilterForm(request.GET), form)


def _list(request: Request, tenant: Tenant | None, form: FilterForm, names: str) -> HttpResponse:
    table = EntryTable(queries.entries(tenant, form.wanted()))
    context = {
        "form": form,
        "table": configured(request, table, per_page=_PER_PAGE, paginator_class=CappedPaginator),
        "platform": tenant is None,
        "largest": f"{exports.LARGEST:,}",
        "entry_url": "platform.audit_entry" if tenant is None else "audit.entry",
        "export_url": "platform.audit_export" if tenant is None else "audit.export",
    }
    return htmx.page(request, "audit/list.html", "audit/_list.html", context)


def _entry(request: Request, tenant: Tenant | None, number: int, back: str) -> HttpResponse:
    found = queries.entry(tenant, number)
    if found is None:
        raise Http404("no such entry")
    text = json.dumps(found.detail, indent=2, ensure_ascii=False)
    context = {"entry": found, "detail": text, "changes": _changes(found.detail), "back": back}
    return render(request, "audit/entry.html", context)


def _changes(detail: dict[str, Any]) -> list[tuple[str, str, str]]:
    """What an entry says that changed: name, before and after; as a whole where they are no pairs of names."""
    before, after = detail.get("before"), detail.get("after")
    if before is None or after is None:
        return []
    if not isinstance(before, dict) or not isinstance(after, dict):
        before, after = {"value": before}, {"value": after}
    names = [name for name in dict.fromkeys([*before, *after]) if before.get(name) != after.get(name)]
    return [(name, _told(before.get(name)), _told(after.get(name))) for name in names]


def _told(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False, indent=1)


def _export(
    request: Request, tenant: Tenant | None, form: FilterForm, kind: str
) -> HttpResponse | StreamingHttpResponse:
    """Who took the trail away is in the trail."""
    if kind not in _FORMATS:
        raise Http404("no such format")
    write, content_type = _FORMATS[kind]
    query = {name: value for name, value in request.GET.items() if value}
    record.record(request.actor, "audit.entries.export", detail={"format": kind, "filters": query})
    lines: Any = write(queries.entries(tenant, form.wanted()))
    return files.download(request, lines, content_type, f"audit-{timezone.now():%Y%m%dT%H%M%SZ}.{kind}")
