"""What every request passes: an id, security headers, the viewer's zone, and outages shown as outages."""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Callable
from typing import Any

from django.db import OperationalError as DatabaseOutage
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext as _
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from analytics.errors import LakeUnavailable
from brokercore.client.errors import BrokerError, ClientError
from brokercore.smq.client import QueueServiceUnavailable
from console.web import full_disk, languages, text, zone
from console.web.errors import Refused
from console.web.languages import gettext_lazy
from console.web.logs import request_id

log = logging.getLogger(__name__)
GetResponse = Callable[[HttpRequest], HttpResponse]
_DATABASE_OUTAGE = gettext_lazy("The console's database does not answer; try again.")
_REDIS_OUTAGE = gettext_lazy("No connection to Redis, which holds the samples and the queue of background work.")

# The digest is that of the empty text: plotly inserts an empty <style> element and fills it by script.
_EMPTY_STYLE = "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
CONTENT_SECURITY_POLICY = "; ".join(
    [
        "default-src 'self'",
        f"style-src 'self' {_EMPTY_STYLE}",
        "img-src 'self' data:",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    ]
)


#: Machines get the same refusal in the form of their API.
_APIS = ("/json/", "/rpc/")
#: Where a body is whatever a stranger sends, and is no form of ours: who looked for fields in it would have read it.
_HOOKS = "/hooks/"


class RequestIdMiddleware:
    """Gives the request an id: in `request.request_id`, in the log and in the header X-Request-Id."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        request.request_id = str(uuid.uuid4())  # type: ignore[attr-defined]
        token = request_id.set(request.request_id)  # type: ignore[attr-defined]
        try:
            response = self.get_response(request)
        finally:
            request_id.reset(token)
        response["X-Request-Id"] = request.request_id  # type: ignore[attr-defined]
        return response


class ContentSecurityPolicyMiddleware:
    """No inline script or style, nothing from elsewhere.

    What htmx asks for is put into a page, whose policy holds there; no other site can make a browser send its header.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if "HX-Request" not in request.headers:
            response.setdefault("Content-Security-Policy", CONTENT_SECURITY_POLICY)
        return response


class OrderlyTextMiddleware:
    """No text of a stranger turns the reading order of a page: names, descriptions, statements, ids, searches."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if not response.streaming and response.get("Content-Type", "").startswith("text/html"):
            page = response.content.decode()
            orderly = text.orderly(page)
            if orderly != page:
                response.content = orderly.encode()
        return response


class NoStoreMiddleware:
    """Nothing but static files, which never come this far, is kept: not by a browser, and by nobody on the way."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if "no-store" not in response.get("Cache-Control", ""):
            response["Cache-Control"] = "private, no-store"
        return response


class CollapseSlashesMiddleware:
    """Callers of the management API send `//json/topic/create`, as the vendor's own sample does."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        path = re.sub("/{2,}", "/", request.path_info)
        if path != request.path_info and path.startswith("/json/"):
            request.path_info = request.path = path
        return self.get_response(request)


class ViewerZoneMiddleware:
    """Times of the request are in the zone that the browser named in its cookie, else in UTC."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        with timezone.override(zone.named(request.COOKIES.get(zone.COOKIE, ""))):
            return self.get_response(request)


class NulMiddleware:
    """Refuses NUL characters in addresses and forms: no name has them, and PostgreSQL cannot even be asked for them."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(self, request: HttpRequest, _view: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if request.path_info.startswith((*_APIS, _HOOKS)):
            return None
        given = [*args, *kwargs.values()]
        for source in (request.GET, request.POST):
            given += [value for _unused, values in source.lists() for value in values]
        if any(isinstance(value, str) and "\0" in value for value in given):
            return render(request, "400.html", {"reason": text.NUL}, status=400)
        return None


class OutageMiddleware:
    """A broker, a Redis, a database or a lake that does not answer, or has no room on its disk, is shown as such.

    Status 503, and 502 for a refusal.

    So is a change whose object somebody else deleted meanwhile: status 409.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if full := full_disk.reason(exception):
            status, title, reason = 503, full_disk.TITLE, full
        elif isinstance(exception, BrokerError):
            status, title, reason = 502, _("The broker refused"), exception.user_message
        elif isinstance(exception, ClientError):
            status, title, reason = 503, _("The broker does not answer"), exception.user_message
        elif isinstance(exception, QueueServiceUnavailable):
            status, title, reason = 503, _("The queue service does not answer"), str(exception)
        elif isinstance(exception, RedisError | OperationalError):
            status, title, reason = 503, _("Redis does not answer"), _REDIS_OUTAGE
        elif isinstance(exception, DatabaseOutage):
            status, title, reason = 503, _("The database does not answer"), _DATABASE_OUTAGE
        elif isinstance(exception, LakeUnavailable):
            status, title, reason = 503, _("The lake does not answer"), exception.user_message
        elif isinstance(exception, Refused):
            # What a form cannot show: somebody else was faster, and what the change was about is gone.
            status, title, reason = 409, _("The change was not made"), exception.message
        else:
            return None
        log.warning("%s: %s", languages.english(title), languages.english(exception))
        htmx = getattr(request, "htmx", None)
        template = "includes/outage.html" if htmx and not htmx.boosted else "outage.html"
        return render(request, template, {"title": title, "reason": reason}, status=status)
