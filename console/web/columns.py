"""Which columns of a list somebody wants to see: a cookie of the browser, one for each person who signs in there.

The address of a list may say it instead, for this once: `?without=perm.queues`.

It names what is left out, so that a column that a later release adds is seen. It decides nothing but what is shown: a
visitor who writes it by hand gets another choice of the same columns.
"""

from __future__ import annotations

import re

from django.conf import settings
from django.http import HttpRequest, HttpResponse, QueryDict

from console.web.htmx import HtmxRequest

_NAME = re.compile(r"[A-Za-z]\w{0,39}", re.ASCII)
_LONGEST = 3_000
"""Characters of one cookie: browsers keep 4,096 with its name and attributes."""
_YEAR = 365 * 24 * 3600


PARAMETER = "without"
_MOST = 40


def left_out(request: HttpRequest, name: str, query: QueryDict | None = None) -> frozenset[str]:
    """The columns of the list `name` that the visitor wants not to see; none where nothing was chosen.

    By the query of the request, or by `query`, where it tells them.
    """
    told = (request.GET if query is None else query).get(PARAMETER)
    if told is not None:
        return frozenset(one for one in told.split(".")[:_MOST] if _NAME.fullmatch(one))
    return frozenset(_choices(request).get(name, ()))


def choose(request: HtmxRequest, response: HttpResponse, name: str, columns: list[str]) -> None:
    """Let the answer remember what is left out of a list; nothing at all is the default, and is forgotten.

    Names that no column can have are ignored. Beyond `_LONGEST` characters the lists chosen for longest ago have their
    defaults again.
    """
    choices = {other: kept for other, kept in _choices(request).items() if other != name}
    if _NAME.fullmatch(name) and (columns := [one for one in columns if _NAME.fullmatch(one)]):
        choices[name] = columns
    parts = [".".join((of, *kept)) for of, kept in choices.items()]
    while len("~".join(parts)) > _LONGEST:
        del parts[0]
    options = {"httponly": True, "samesite": "Lax", "secure": bool(settings.SESSION_COOKIE_SECURE)}
    response.set_cookie(_cookie(request), "~".join(parts), max_age=_YEAR, **options)  # type: ignore[arg-type]


def _cookie(request: HttpRequest) -> str:
    return f"gantry_columns_{request.user.pk}"


def _choices(request: HttpRequest) -> dict[str, list[str]]:
    found = {}
    for part in request.COOKIES.get(_cookie(request), "")[:_LONGEST].split("~"):
        name, *columns = part.split(".")
        found[name] = [one for one in columns if _NAME.fullmatch(one)]
    return found
