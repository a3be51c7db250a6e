"""The start page and its parts."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET

from console.accounts import access as accounts
from console.accounts.http import Request
from console.cluster import brokers
from console.instances import access as instances
from console.metrics import totals
from console.metrics.totals import SPANS
from console.overview import attention, first_steps, history, places, queries
from console.rights import limits
from console.web import streams
from console.web.languages import gettext_lazy
from console.web.paging import search_text

#: Of the limits those are shown that are taken the most.
_LIMITS = 6
_SPAN = "1h"
_CHOICES = {
    "spans": SPANS,
    "comparisons": {"": gettext_lazy("nothing")} | {key: what for key, (what, _) in totals.COMPARED.items()},
}


@require_GET
def overview(request: Request) -> HttpResponse:
    if request.actor.is_platform_admin:
        return redirect("platform.accounts")
    found = queries.overview(request.actor)
    context = {"overview": found, "tasks": queries.tasks(request.actor)}
    if found.totals:
        context |= {
            "hour": queries.last_hour(request.actor),
            "backlogs": queries.groups_by_backlog(request.actor),
            "picture": history.picture(request.actor, _SPAN),
            **_CHOICES,
        }
    return render(request, "overview/overview.html", context)


@require_GET
def go(request: Request) -> HttpResponse:
    """The places that are called as was typed, as options of a list; what the actor may see is decided kind by kind."""
    text = search_text(request)
    return render(request, "overview/_go.html", {"places": places.places(request, text), "q": text})


@streams.part
@require_GET
def instance_first_steps(request: Request, instance_id: str) -> HttpResponse:
    """What a new instance still lacks; nothing once its first message was consumed."""
    instance = instances.instance(request, instance_id, "mq:QueryInstance")
    context = {"instance": instance, "steps": first_steps.first_steps(request.actor, instance)}
    return render(request, "overview/_first_steps.html", context)


@streams.part
@require_GET
def overview_figures(request: Request) -> HttpResponse:
    accounts.tenant(request, "mq:QueryTrend")
    context = {"totals": totals.now(request.actor.tenant), "hour": queries.last_hour(request.actor)}
    return render(request, "overview/_figures.html", context)


@streams.part
@require_GET
def overview_history(request: Request) -> HttpResponse:
    """In, out and backlog over a span of time, one of the day or the week before beside it.

    With `told` it has the values of each period too, to be read with a mouse.
    """
    accounts.tenant(request, "mq:QueryTrend")
    span, compared = request.GET.get("span", ""), request.GET.get("compare", "")
    chosen = history.picture(
        request.actor, span if span in SPANS else _SPAN, compared if compared in totals.COMPARED else ""
    )
    context = {"picture": chosen, "told": "told" in request.GET, **_CHOICES}
    return render(request, "overview/_history.html", context)


@streams.part
@require_GET
def overview_backlogs(request: Request) -> HttpResponse:
    accounts.tenant(request, "mq:QueryTrend")
    return render(request, "overview/_backlogs.html", {"backlogs": queries.groups_by_backlog(request.actor)})


@streams.part
@require_GET
def overview_attention(request: Request) -> HttpResponse:
    """What the actor may see of it is decided part by part; who may see nothing gets an empty list."""
    return render(request, "overview/_attention.html", {"attention": attention.attention(request.actor)})


@streams.part
@require_GET
def overview_tasks(request: Request) -> HttpResponse:
    return render(request, "overview/_tasks.html", {"tasks": queries.tasks(request.actor)})


@require_GET
def overview_capacity(request: Request) -> HttpResponse:
    """Storage and limits in one answer, when the page is opened: a request costs as much as the text of each."""
    accounts.tenant(request, "mq:QueryInstance")
    parts = (overview_storage(request), overview_limits(request))
    return HttpResponse(b"".join(part.content for part in parts))


@streams.part
@require_GET
def overview_storage(request: Request) -> HttpResponse:
    tenant = accounts.tenant(request, "mq:QueryInstance")
    clusters = brokers.seen_by(tenant)
    shown = [broker for cluster in clusters for broker in cluster.brokers]
    return render(request, "overview/_storage.html", {"clusters": clusters, "brokers": shown})


@streams.part
@require_GET
def overview_limits(request: Request) -> HttpResponse:
    tenant = accounts.tenant(request, "mq:QueryInstance")
    lines, use = limits.lines(tenant)
    shows_all = "all" in request.GET
    if not shows_all:
        lines = sorted(lines, key=lambda line: -line.share)[:_LIMITS]
    return render(request, "overview/_limits.html", {"lines": lines, "use": use, "shows_all": shows_all})
