"""Broker drift: what differs between database and brokers, and mending it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import django_tables2 as tables
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from console.accounts import access as accounts
from console.accounts.http import Request
from console.drift import queries, services
from console.drift import sweep as sweeps
from console.drift.queries import Part, Row
from console.drift.sweep import Kept, kind_and_state, name_of
from console.web import deletion, forms, htmx
from console.web.languages import gettext_lazy
from console.web.paging import CellColumn, LazyRows, column, configured, search_text

MAX_MENDED = 500
"""Rows that one click mends: each is a call to the brokers, and the visitor waits."""


class DriftTable(tables.Table):  # type: ignore[misc]
    """Name, how it drifted, what exactly, and what can be done."""

    physical_name = CellColumn(template_name="drift/_name_cell.html", verbose_name=gettext_lazy("Name"))
    kind = CellColumn('{% include "includes/kind.html" with kind=record.kind %}', verbose_name=gettext_lazy("Kind"))
    state = CellColumn(template_name="drift/_state_cell.html", verbose_name=gettext_lazy("Drift"))
    details = CellColumn(
        template_name="drift/_details_cell.html", verbose_name=gettext_lazy("What differs"), orderable=False
    )
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
    context = {
        "table": configured(request, DriftTable(_rows(parts, text))),
        "q": text,
        "parts": parts,
        "outages": [part for part in parts if part.snapshot.outage],
        "mendable": sum(part.mendable for part in parts),
        "max_mended": MAX_MENDED,
    }
    return htmx.page(request, "drift/index.html", "drift/_list.html", context)


def _rows(parts: list[Part], text: str) -> LazyRows[str]:
    """What the visitor may see, with this text in its name on the wire: `<place of the part>:<kept>`."""
    wanted = text.lower()
    seen = [
        f"{place}:{kept}" for place, part in enumerate(parts) for kept in part.seen if wanted in name_of(kept).lower()
    ]
    keys: dict[str, Callable[[str], str]] = {
        "physical_name": lambda one: name_of(_kept(one)),
        "kind": lambda one: kind_and_state(_kept(one))[0],
        "state": lambda one: kind_and_state(_kept(one))[1],
    }
    return LazyRows(seen, lambda one: parts[int(one.partition(":")[0])].row(_kept(one)), keys)


def _kept(one: str) -> Kept:
    return one.partition(":")[2]


@require_POST
def check(request: Request) -> HttpResponse:
    """Compare now."""
    _require(request)
    _sweep(request)
    return htmx.done(request, "drift.index")


@require_POST
def mend(request: Request) -> HttpResponse:
    """Mend the row that `key` names, or with `all` as many as one click may; answers with a result for each.

    What was adopted is written to the brokers only once that was asked for by itself and confirmed.
    """
    _require(request)
    key = request.POST.get("key", "")
    wanted = [_keyed(request, key)] if key else []
    if wanted and wanted[0].difference.adopted and "confirmed" not in request.POST:
        return render(request, "drift/confirm.html", {"row": wanted[0]})
    if "all" in request.POST:
        every = (row for part in queries.parts(request.actor) for row in part.rows())
        mendable = (row for row in every if row.may_mend and not row.difference.adopted)
        wanted = list(islice(mendable, MAX_MENDED))
    outcomes = services.mend(actor=request.actor, rows=wanted)
    _sweep(request)
    failed = [outcome for outcome in outcomes if outcome.error]
    context = {"outcomes": [*failed, *(outcome for outcome in outcomes if not outcome.error)], "failed": len(failed)}
    return render(request, "drift/mended.html", context)


@require_POST
def accept(request: Request, cluster: int, kind: str, name: str) -> HttpResponse:
    """Show what was adopted as the brokers have it now."""
    row = _row(request, cluster, kind, name)
    if not row.may_accept:
        raise PermissionDenied(_("You may not change what is shown of %(name)s.") % {"name": row.difference.name})
    with forms.refusals_told(request):
        services.accept(actor=request.actor, row=row)
        messages.success(request, _("%(name)s is shown as the brokers have it.") % {"name": row.difference.name})
    _sweep(request)
    return htmx.done(request, "drift.index")


@require_POST
def adopt(request: Request, cluster: int, kind: str, name: str) -> HttpResponse:
    """Take what only a broker has into the database."""
    row = _row(request, cluster, kind, name)
    if not row.may_adopt:
        raise PermissionDenied(_("You may not take %(name)s over.") % {"name": row.difference.name})
    with forms.refusals_told(request):
        services.adopt(actor=request.actor, row=row)
        messages.success(request, _("%(name)s is in the console now.") % {"name": row.difference.name})
    _sweep(request)
    return htmx.done(request, "drift.index")


def delete(request: Request, cluster: int, kind: str, name: str) -> HttpResponse:
    """Delete what only a broker has."""
    row = _row(request, cluster, kind, name)
    if not row.may_delete:
        raise PermissionDenied(_("You may not delete %(name)s.") % {"name": row.difference.name})
    is_topic = kind == "topic"
    warning = (
        _("The console does not know it; something outside may use it. Its messages go with it.")
        if is_topic
        else _(
            "The console does not know it; something outside may use it. Its offsets, the messages waiting for "
            "redelivery and its dead letters go with it."
        )
    )
    wanted = deletion.Deletion(
        kind=_("topic") if is_topic else _("group"),
        name=row.difference.name,
        warning=warning,
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


def _keyed(request: Request, key: str) -> Row:
    """The row that a form names, if the visitor may mend it."""
    cluster, _unused, rest = key.partition(":")
    kind, _unused, name = rest.partition(":")
    row = queries.find(request.actor, int(cluster), kind, name) if cluster.isdecimal() and len(cluster) < 19 else None
    if row is None:
        raise Http404("no such difference")
    if not row.may_mend:
        raise PermissionDenied(_("You may not repair %(name)s.") % {"name": row.difference.name})
    return row


def _sweep(request: Request) -> None:
    for cluster in queries.clusters(request.actor):
        sweeps.sweep(cluster)
