"""Broker drift: what differs between database and brokers, and mending it."""

from __future__ import annotations

import django_tables2 as tables
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from console.accounts import access as accounts
from console.accounts.http import Request
from console.drift import queries, services
from console.drift import sweep as sweeps
from console.drift.queries import Row
from console.web import deletion, forms, htmx
from console.web.paging import CellColumn, column, configured, search_text

MAX_MENDED = 500
"""Rows that one click mends: each is a call to the brokers, and the visitor waits."""


class DriftTable(tables.Table):  # type: ignore[misc]
    """Name, how it drifted, what exactly, and what can be done."""

    physical_name = CellColumn(template_name="drift/_name_cell.html", verbose_name="Name")
    kind = CellColumn("{{ record.kind|capfirst }}", verbose_name="Kind")
    state = CellColumn(template_name="drift/_state_cell.html", verbose_name="Drift")
    details = CellColumn(template_name="drift/_details_cell.html", verbose_name="What differs", orderable=False)
    actions = CellColumn(
        template_name="drift/_action_cell.html", verbose_name="", orderable=False, attrs=column("row-actions")
    )

    class Meta:
        order_by = "physical_name"


@require_GET
def index(request: Request) -> HttpResponse:
    _require(request)
    text = search_text(request)
    parts = queries.parts(request.actor)
    rows = [row for part in parts for row in part.rows]
    context = {
        "table": configured(request, DriftTable([row for row in rows if text.lower() in row.physical_name.lower()])),
        "q": text,
        "parts": parts,
        "outages": [part for part in parts if part.snapshot.outage],
        "mendable": sum(row.may_mend for row in rows),
        "max_mended": MAX_MENDED,
    }
    return htmx.page(request, "drift/index.html", "drift/_list.html", context)


@require_POST
def check(request: Request) -> HttpResponse:
    """Compare now."""
    _require(request)
    _sweep(request)
    return htmx.done(request, "drift.index")


@require_POST
def mend(request: Request) -> HttpResponse:
    """Mend the row that `key` names, or with `all` as many as one click may; answers with a result for each."""
    _require(request)
    key = request.POST.get("key", "")
    rows = [
        row for part in queries.parts(request.actor) for row in part.rows if row.key == key or "all" in request.POST
    ]
    if key and not rows:
        raise Http404("no such difference")
    wanted = [row for row in rows if row.may_mend][:MAX_MENDED]
    if key and not wanted:
        raise PermissionDenied(f"You may not repair {rows[0].difference.name}.")
    outcomes = services.mend(actor=request.actor, rows=wanted)
    _sweep(request)
    failed = [outcome for outcome in outcomes if outcome.error]
    context = {"outcomes": [*failed, *(outcome for outcome in outcomes if not outcome.error)], "failed": len(failed)}
    return render(request, "drift/mended.html", context)


@require_POST
def adopt(request: Request, cluster: int, kind: str, name: str) -> HttpResponse:
    """Take what only a broker has into the database."""
    row = _row(request, cluster, kind, name)
    if not row.may_adopt:
        raise PermissionDenied(f"You may not take {row.difference.name} over.")
    with forms.refusals_told(request):
        services.adopt(actor=request.actor, row=row)
        messages.success(request, f"{row.difference.name} is in the console now.")
    _sweep(request)
    return htmx.done(request, "drift.index")


def delete(request: Request, cluster: int, kind: str, name: str) -> HttpResponse:
    """Delete what only a broker has."""
    row = _row(request, cluster, kind, name)
    if not row.may_delete:
        raise PermissionDenied(f"You may not delete {row.difference.name}.")
    lost = (
        "Its messages go"
        if kind == "topic"
        else "Its offsets, the messages waiting for redelivery and its dead letters go"
    )
    wanted = deletion.Deletion(
        kind=kind,
        name=row.difference.name,
        warning=f"The console does not know it; something outside may use it. {lost} with it.",
        cancel_url=reverse("drift.index"),
    )

    def act() -> None:
        services.delete_extra(actor=request.actor, row=row)
        _sweep(request)

    return deletion.confirm(request, wanted, act, ("drift.index",))


def _require(request: Request) -> None:
    """Accounts see what their rights show, row by row; the platform's administrator when each cluster was compared."""
    if request.actor.is_platform_admin:
        accounts.platform(request, "platform:RepairBroker", "drift")
    else:
        accounts.tenant(request, "mq:QueryInstance")


def _row(request: Request, cluster: int, kind: str, name: str) -> Row:
    _require(request)
    found = queries.find(request.actor, cluster, kind, name)
    if found is None:
        raise Http404("no such difference")
    return found


def _sweep(request: Request) -> None:
    for cluster in queries.clusters(request.actor):
        sweeps.sweep(cluster)
