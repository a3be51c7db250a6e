"""The one module that knows htmx: fragment or page, invalid forms, events, redirects."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django_htmx.http import HttpResponseClientRedirect, trigger_client_event
from django_htmx.middleware import HtmxDetails


class HtmxRequest(HttpRequest):
    """As the middlewares of this app leave it; `console.accounts.http` adds who asks."""

    htmx: HtmxDetails
    request_id: str


def is_fragment(request: HtmxRequest) -> bool:
    """True when htmx wants a part of the page; a boosted link wants the whole one."""
    return bool(request.htmx and not request.htmx.boosted)


def page(request: HtmxRequest, template: str, part: str, context: dict[str, Any]) -> HttpResponse:
    """The whole page, or for htmx only its part; both from one context."""
    response = render(request, part if is_fragment(request) else template, context)
    response["Vary"] = "HX-Request"
    return response


def telling(response: HttpResponse, event: str) -> HttpResponse:
    """The answer, which also tells the page that something happened: parts of it wait for `<event> from:body`."""
    return trigger_client_event(response, event)


def invalid(request: HtmxRequest, template: str, context: dict[str, Any]) -> HttpResponse:
    """The form again with its errors, status 422 (app.js lets htmx swap it)."""
    return render(request, template, context, status=422)


def done(request: HtmxRequest, url_name: str, *args: Any) -> HttpResponse:
    """After a change: htmx follows a client redirect, a plain browser a 302."""
    url = reverse(url_name, args=args)
    if not request.htmx:
        return redirect(url)
    response: HttpResponse = HttpResponseClientRedirect(url)
    return response
