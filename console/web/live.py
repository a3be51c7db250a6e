"""Live parts of a page ask again by themselves, and are told when nothing changed (docs/develop/pages.md)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

#: Sent by static/js/live.js with what the part shows; answered with what it now shows.
HEADER = "X-Gantry-Live"
#: A part that goes on where it ended says in this header what is asked next, the same when nothing has come since.
FOLLOW = "X-Gantry-Follow"

#: What differs at every rendering and says nothing: the masked token of a form, and an age, which the browser counts.
_TOKEN = re.compile(rb'(name="csrfmiddlewaretoken" value=")[^"]*')
_AGE = re.compile(rb"(<time[^>]*\sdata-ago[^>]*>)[^<]*")


class LiveMiddleware:
    """Answers 204 to a live part that shows already what the page would say; htmx then leaves it as it is."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        shown = request.headers.get(HEADER)
        if shown is None or request.method != "GET" or response.status_code != 200 or response.streaming:
            return response
        current = digest(response.content)
        if shown == current:
            unchanged = HttpResponse(status=204)
            unchanged.cookies = response.cookies
            response = unchanged
        response[HEADER] = current
        return response


def digest(content: bytes) -> str:
    """What tells two renderings of a part apart, 32 hexadecimal digits; tokens and ages do not count."""
    return hashlib.blake2b(_AGE.sub(rb"\1", _TOKEN.sub(rb"\1", content)), digest_size=16).hexdigest()
