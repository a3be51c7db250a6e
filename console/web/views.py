"""Health, the columns of lists, and the answers to what went wrong: a page, or for htmx one plain sentence.

The sentence is shown by app.js as a notice.
"""

from __future__ import annotations

import sys
from urllib.parse import urlsplit, urlunsplit

from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import BadRequest, TooManyFieldsSent
from django.db import connection
from django.http import HttpRequest, HttpResponse, JsonResponse, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from console.web import columns, full_disk, htmx
from console.web.htmx import HtmxRequest
from console.web.returning import way_back
from console.web.streams import StreamAnswer, streams


@login_not_required
def health(request: HttpRequest) -> JsonResponse:
    """200 when the process serves and its database answers."""
    connection.ensure_connection()
    return JsonResponse({"status": "ok"})


@require_POST
def choose_columns(request: HtmxRequest) -> HttpResponse:
    """Keep which columns of a list the visitor wants to see, and go back to the list."""
    response = redirect(_without_columns(way_back(request, request.POST.get("next", "")) or "/"))
    wanted = set(request.POST.getlist("shown"))
    hidden = [] if "default" in request.POST else [one for one in request.POST.getlist("column") if one not in wanted]
    columns.choose(request, response, request.POST.get("list", ""), hidden)
    return response


@require_GET
def live(request: HtmxRequest) -> HttpResponseBase:
    """A stream of what changes in the live parts of a page; each decides for itself who may see it.

    204 where there is none to be had: the page then asks by itself, and for a stream again after Retry-After.
    """
    stream = streams.open(request)
    if stream is None:
        return HttpResponse(status=204, headers={"Retry-After": "60"})
    return StreamAnswer(stream)


def _without_columns(address: str) -> str:
    """The address without the columns that it tells: what was chosen now counts."""
    parts = urlsplit(address)
    query = QueryDict(parts.query, mutable=True)
    if query.pop(columns.PARAMETER, None) is None:
        return address
    return urlunsplit(parts._replace(query=query.urlencode()))


def bad_request(request: HtmxRequest, exception: Exception) -> HttpResponse:
    """400: the request cannot be read. What is wrong is told where it can be."""
    if isinstance(exception, BadRequest):
        sentence = str(exception)
    elif isinstance(exception, TooManyFieldsSent):
        sentence = _("It has more fields than may be sent at once.")
    else:
        sentence = _("Its address or one of its fields cannot be read.")
    return _answer(request, 400, sentence, {"reason": sentence})


def without_token(request: HtmxRequest, reason: str = "") -> HttpResponse:
    """403 for a form whose token is none of this session's: also for who has signed in anew in another tab.

    `reason` is Django's, which has logged it.
    """
    sentence = _("This form was made for another session, or by another site. Load the page again, then send it again.")
    return _answer(request, 403, sentence, {"reason": sentence, "title": _("The form was not sent")})


def forbidden(request: HtmxRequest, exception: Exception) -> HttpResponse:
    """403 with the decision's sentence."""
    return _answer(request, 403, str(exception) or _("You are not allowed to do this."), {"exception": str(exception)})


def not_found(request: HtmxRequest, exception: Exception) -> HttpResponse:
    """404: what does not exist and what belongs to another tenant look alike."""
    return _answer(request, 404, _("This no longer exists."), {})


def failed(request: HtmxRequest) -> HttpResponse:
    """500: the log has the traceback under the request id, the visitor has the id; a full disk is a 503 and is said."""
    if reason := full_disk.reason(sys.exc_info()[1]):
        return _answer(request, 503, reason, {"title": full_disk.TITLE, "reason": reason}, template="500.html")
    return _answer(request, 500, _("Something went wrong in the console."), {})


def _answer(
    request: HtmxRequest, status: int, sentence: str, context: dict[str, object], template: str = ""
) -> HttpResponse:
    if hasattr(request, "htmx") and htmx.is_fragment(request):
        return HttpResponse(sentence, status=status, content_type="text/plain; charset=utf-8")
    return render(request, template or f"{status}.html", context, status=status)
