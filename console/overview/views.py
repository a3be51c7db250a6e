"""The start page and its parts."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET

from console.accounts import access as accounts
from console.accounts.http import Request
from console.overview import queries
from console.rights import limits


@require_GET
def overview(request: Request) -> HttpResponse:
    if request.actor.is_platform_admin:
        return redirect("platform.accounts")
    context = {"overview": queries.overview(request.actor), "tasks": queries.tasks(request.actor)}
    return render(request, "overview/overview.html", context)


@require_GET
def overview_figures(request: Request) -> HttpResponse:
    return render(request, "overview/_figures.html", {"overview": queries.overview(request.actor)})


@require_GET
def overview_tasks(request: Request) -> HttpResponse:
    return render(request, "overview/_tasks.html", {"tasks": queries.tasks(request.actor)})


@require_GET
def overview_storage(request: Request) -> HttpResponse:
    accounts.tenant(request, "mq:QueryInstance")
    return render(request, "overview/_storage.html", {"brokers": queries.brokers()})


@require_GET
def overview_limits(request: Request) -> HttpResponse:
    tenant = accounts.tenant(request, "mq:QueryInstance")
    lines, use = limits.lines(tenant)
    return render(request, "overview/_limits.html", {"lines": lines, "use": use})
