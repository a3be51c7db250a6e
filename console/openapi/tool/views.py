"""The API Tool: directory of operations, one operation with its try-it form, and the OpenAPI document."""

from __future__ import annotations

import hashlib
import json
import re
from functools import lru_cache
from typing import Any

import django_tables2 as tables
from django.contrib.auth.decorators import login_not_required
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.views.decorators.cache import never_cache
from django.views.decorators.http import condition, require_GET, require_POST

from console.accounts.http import Request
from console.accounts.models import AccessKey
from console.instances.context import navigation
from console.openapi import samples
from console.openapi.document import SIGNING, document
from console.openapi.reference import Reference, reference
from console.openapi.samples import SECRET
from console.openapi.tool import services
from console.openapi.tool.forms import REGION, TryForm, field_name, suggestion_list
from console.web import forms, htmx
from console.web.languages import gettext_lazy
from console.web.paging import CellColumn, configured, search_text

_ALL_ON_ONE_PAGE = 500

_PARTS = re.compile(
    r'(?P<key>"(?:\\.|[^"\\])*")(?=\s*:)|(?P<text>"(?:\\.|[^"\\])*")|(?P<number>-?\d[\d.eE+-]*)|(?P<word>true|false|null)'
)


class OperationTable(tables.Table):  # type: ignore[misc]
    """Service, operation and version: what a call of an SDK needs."""

    service = tables.Column(verbose_name=gettext_lazy("Service"))
    path = CellColumn(template_name="openapi/_operation_cell.html", verbose_name=gettext_lazy("Operation"))
    rpc = CellColumn(template_name="openapi/_rpc_cell.html", verbose_name=gettext_lazy("RPC action"))
    version = CellColumn("<code>{{ record.version }}</code>", verbose_name=gettext_lazy("API version"))
    changes = CellColumn(
        template_name="openapi/_changes_cell.html",
        verbose_name=gettext_lazy("Kind"),
    )


@lru_cache
def _document() -> tuple[bytes, str]:
    text = json.dumps(document()).encode()
    return text, f'"{hashlib.sha256(text).hexdigest()[:32]}"'


def _etag(request: HttpRequest) -> str:
    return _document()[1]


@login_not_required
@require_GET
@condition(etag_func=_etag)
def openapi_document(request: Request) -> HttpResponse:
    """The document has nothing of any tenant in it: programs may read it before they have a key."""
    return HttpResponse(_document()[0], content_type="application/json")


@require_GET
def index(request: Request) -> HttpResponse:
    actor = request.actor
    service, keyword = request.GET.get("service", ""), search_text(request)
    rows = services.directory(service, keyword) if actor.tenant else []
    table = configured(request, OperationTable(rows), per_page=_ALL_ON_ONE_PAGE)
    context = {"table": table, "q": keyword, "service": service, "services": services.services()}
    return htmx.page(request, "openapi/tool.html", "openapi/_operations.html", context)


@require_GET
def operation(request: Request, path: str) -> HttpResponse:
    """The operation; values of the query string stand in the form. htmx asks for the samples only."""
    found, keys = _found(request, path)
    given = {**_chosen_instance(request, found), **request.GET.dict()}
    form = TryForm(None, found, keys, initial=given)
    context = _context(request, found, keys, given)
    return forms.show_part(request, "openapi/operation.html", "openapi/_samples.html", form, context)


@never_cache
@require_POST
def attempt(request: Request, path: str) -> HttpResponse:
    found, keys = _found(request, path)
    form = TryForm(request.POST.dict(), found, keys)
    context = _context(request, found, keys, request.POST.dict())
    if form.is_valid():
        key = next(key for key in keys if key.access_key_id == form.cleaned_data["key"])
        outcome = services.send(request, found, key, form.values(), form.region)
        context |= {"outcome": outcome, "envelope": highlighted(outcome.text)}
    return forms.show_part(request, "openapi/operation.html", "openapi/_try.html", form, context)


def _found(request: Request, path: str) -> tuple[Reference, list[AccessKey]]:
    keys = services.usable_keys(request.actor) if request.actor.tenant else []
    found = reference(path)
    if found is None:
        raise Http404("no such operation")
    return found, keys


def _chosen_instance(request: Request, found: Reference) -> dict[str, str]:
    """The instance that the visitor chose last stands in the form from the start."""
    current = navigation(request).get("current_instance")
    if current is None:
        return {}
    names = [p.name for p in found.parameters if suggestion_list(p.name) == "instances"]
    return {field_name(name): current.instance_id for name in names} | {REGION: current.region}


def _context(request: Request, found: Reference, keys: list[AccessKey], given: dict[str, Any]) -> dict[str, Any]:
    kinds = {suggestion_list(parameter.name): field_name(parameter.name) for parameter in found.parameters}
    instance_id = str(given.get(kinds.get("instances", ""), ""))
    visible = navigation(request).get("instances", [])
    access_key_id = str(given.get("key", "")) or (keys[0].access_key_id if keys else "<AccessKey ID>")
    call = services.wanted(request, found, access_key_id, *_example(found, keys, given))
    return {
        "operation": found,
        "keys": keys,
        "suggestions": services.suggestions(request.actor, visible, instance_id, set(kinds)),
        "samples": samples.samples(call),
        "signing": SIGNING.splitlines(),
        "secret": SECRET,
    }


def _example(found: Reference, keys: list[AccessKey], given: dict[str, Any]) -> tuple[dict[str, str], str]:
    """What the form holds, and the region; required parameters without a value show where it goes."""
    form = TryForm(given, found, keys)
    form.is_valid()
    missing = {p.name: f"<{p.name}>" for p in found.parameters if p.required}
    return missing | form.values(), form.region


def highlighted(text: str) -> SafeString:
    """The text, escaped, with a <span> of class json-key, json-text, json-number or json-word around each part."""
    pieces: list[tuple[str | SafeString]] = []
    position = 0
    for part in _PARTS.finditer(text):
        pieces.append((text[position : part.start()],))
        pieces.append((format_html('<span class="json-{}">{}</span>', part.lastgroup, part.group()),))
        position = part.end()
    pieces.append((text[position:],))
    return format_html_join("", "{}", pieces)
