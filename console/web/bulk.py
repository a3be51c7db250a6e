"""One action on many things of a list: which ones, a question that says what can be done and what cannot, and then each
by itself, some at a time, with a result for each.

Each thing goes through the service and the decision of the single action, so there is one entry in the audit for each,
and what fails stops no other. Nothing is kept between the steps: the page that is open sends what is left.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django import forms
from django.core.exceptions import BadRequest, PermissionDenied
from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import render
from django.utils.translation import gettext as _

from console.web.errors import Refused
from console.web.forms import not_allowed
from console.web.htmx import HtmxRequest
from console.web.text import NUL

MOST = 1000
"""Things of one action."""
AT_ONCE, STEP_SECONDS = 25, 2.0
"""Things of one step, and how long it goes on to take further ones."""
SHOWN = 100
"""Names that the question tells; of more it tells how many."""
FIELD = "pick"
"""Of the boxes that choose rows."""

Failures = tuple[type[Exception], ...]


@dataclass(frozen=True)
class Offer:
    """A button over a list that acts on the chosen rows."""

    label: str
    url: str
    icon: str
    is_dangerous: bool = False


@dataclass(frozen=True)
class Bar:
    """What a list offers for its chosen rows. `keys` are those of the rows that can be chosen, by their records' pk.

    `total` is how many rows the filters find, over all pages; `filters` is the query that says them.
    """

    offers: Sequence[Offer]
    keys: Mapping[Any, str]
    total: int
    filters: str


@dataclass(frozen=True)
class Thing:
    """One of what was chosen, as the question names it; `refusal` says why nothing can be done with it, or is empty."""

    key: str
    name: str
    refusal: str = ""


@dataclass(frozen=True)
class Deed:
    """What is done to things of a list.

    `find` gets those of the keys that the visitor may see, `every` the keys that the filters of a query find (one more
    than MOST is enough), and `act` does it to one, by the decision and the service of the single action, and may return
    a remark. It raises Refused, PermissionDenied, Http404 and `failures`, which have a `user_message`.
    """

    title: str
    question: Callable[[int], str]
    """What is asked, and what the button says, by the number of things."""
    back: str
    find: Callable[[list[str]], list[Thing]]
    every: Callable[[str], list[str]]
    act: Callable[[str], str]
    warning: str = ""
    form: forms.Form | None = None
    is_dangerous: bool = False
    failures: Failures = ()
    context: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Result:
    """What became of one thing: `error` is a sentence, or empty where it was done."""

    name: str
    error: str = ""
    note: str = ""


def answer(request: HtmxRequest, deed: Deed) -> HttpResponse:
    """The question, or a step of what it asked for; of a POST."""
    begun = "begun" in request.POST
    keys = _keys(request, deed)
    if begun:
        return _step(request, deed, keys)
    problem = _problem(request, deed, keys)
    if problem or "confirmed" not in request.POST or (deed.form is not None and not deed.form.is_valid()):
        return _ask(request, deed, keys, problem)
    return _step(request, deed, keys)


def query_of(filters: str) -> QueryDict:
    """The query that says what a list is filtered by. Raises BadRequest: a NUL character stands there as %00."""
    query = QueryDict(filters)
    if any("\0" in value for _unused, values in query.lists() for value in values):
        raise BadRequest(str(NUL))
    return query


def chosen(request: HtmxRequest) -> list[str]:
    """The keys of the rows that were ticked."""
    return list(dict.fromkeys(request.POST.getlist(FIELD)))


def _keys(request: HtmxRequest, deed: Deed) -> list[str]:
    if "keys" in request.POST:
        # A browser sends the ends of lines as CR LF, whatever the page has.
        lines = request.POST["keys"].replace("\r\n", "\n").split("\n")
        return list(dict.fromkeys(filter(None, lines)))[: MOST + 1]
    if request.POST.get("all"):
        return deed.every(request.POST.get("filters", ""))[: MOST + 1]
    return chosen(request)[: MOST + 1]


def _problem(request: HtmxRequest, deed: Deed, keys: list[str]) -> str:
    if not keys:
        return _("Choose some rows of the list first.")
    if len(keys) > MOST:
        return _("At most %(most)s at once: filter the list first.") % {"most": f"{MOST:,}"}
    if deed.is_dangerous and "confirmed" in request.POST and request.POST.get("count", "").strip() != str(len(keys)):
        return _("Type %(number)s, which is how many you chose.") % {"number": len(keys)}
    return ""


def _ask(request: HtmxRequest, deed: Deed, keys: list[str], problem: str) -> HttpResponse:
    found = deed.find(keys[:MOST])
    can = [thing for thing in found if not thing.refusal]
    cannot = [thing for thing in found if thing.refusal]
    context = deed.context | {
        "deed": deed,
        "form": deed.form,
        "keys": "\n".join(keys[:MOST]),
        "count": len(keys),
        "can": can[:SHOWN],
        "question": deed.question(len(can)),
        "can_more": max(0, len(can) - SHOWN),
        "cannot": cannot[:SHOWN],
        "cannot_count": len(cannot),
        "cannot_more": max(0, len(cannot) - SHOWN),
        "missing": max(0, min(len(keys), MOST) - len(found)),
        "problem": problem,
    }
    wrong = bool(problem) or (deed.form is not None and bool(deed.form.errors))
    return render(request, "includes/bulk_ask.html", context, status=422 if wrong else 200)


def _step(request: HtmxRequest, deed: Deed, keys: list[str]) -> HttpResponse:
    if deed.form is not None and not deed.form.is_valid():
        return _ask(request, deed, keys, "")
    begin = time.monotonic()
    names = {thing.key: thing.name for thing in deed.find(keys[:AT_ONCE])}
    results: list[Result] = []
    for key in keys[:AT_ONCE]:
        results.append(_one(deed, key, names.get(key, key)))
        if time.monotonic() - begin > STEP_SECONDS:
            break
    left = keys[len(results) :]
    failed = sum(bool(result.error) for result in results)
    counts = {
        "done": _number(request, "done") + len(results) - failed,
        "failed": _number(request, "failed") + failed,
    }
    told = counts["done"] + counts["failed"]
    context = deed.context | {
        "deed": deed,
        "form": deed.form,
        "results": results,
        "counts": counts,
        "told": told,
        "total": told + len(left),
        "keys": "\n".join(left),
        "is_first": "begun" not in request.POST,
    }
    is_part = request.htmx and not context["is_first"]
    return render(request, "includes/_bulk_next.html" if is_part else "includes/bulk_done.html", context)


def _one(deed: Deed, key: str, name: str) -> Result:
    try:
        return Result(name, note=deed.act(key))
    except Refused as refused:
        return Result(name, refused.message)
    except PermissionDenied as denied:
        return Result(name, not_allowed(denied))
    except Http404:
        return Result(name, _("It no longer exists."))
    except deed.failures as error:
        return Result(name, str(getattr(error, "user_message", error)))


def _number(request: HtmxRequest, name: str) -> int:
    text = request.POST.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 6 else 0
