"""The cluster: its brokers, and how far the rights of AccessKeys were carried over to them."""

from __future__ import annotations

import django_tables2 as tables
from django.contrib import messages
from django.http import HttpResponse
from django.views.decorators.http import require_GET, require_POST

from console.accounts import access
from console.accounts.http import Request
from console.audit import record as audit
from console.cluster import queries, services
from console.web import htmx
from console.web.paging import CellColumn, column, configured, search_text


class UserTable(tables.Table):  # type: ignore[misc]
    """AccessKeys, what of them is on the cluster, and where that is less than here."""

    access_key_id = CellColumn(template_name="cluster/_key_cell.html", verbose_name="AccessKey")
    state = CellColumn(template_name="cluster/_state_cell.html", verbose_name="State")
    entries = tables.Column(verbose_name="Entries", attrs=column("num-cell num"))
    narrower = CellColumn(
        template_name="cluster/_narrower_cell.html", verbose_name="More restrictive on the brokers", orderable=False
    )
    synced_at = CellColumn(
        "{% load gantry %}{% if record.synced_at %}{% ago record.synced_at %}{% endif %}", verbose_name="Copied"
    )

    class Meta:
        order_by = "access_key_id"


@require_GET
def index(request: Request) -> HttpResponse:
    access.platform(request, "platform:GetCluster", "cluster")
    text = search_text(request)
    context = {
        "overviews": queries.overviews(),
        "own_lists": bool(services.clusters()),
        "table": configured(request, UserTable(queries.users(text))),
        "q": text,
    }
    return htmx.page(request, "cluster/index.html", "cluster/_users.html", context)


@require_POST
def synchronise(request: Request) -> HttpResponse:
    """Compare everything now; the answer does not wait for it."""
    actor = access.platform(request, "platform:SynchroniseCluster", "cluster")
    if services.clusters():
        services.kick(thorough=True)
        audit.record(actor, "platform.cluster.synchronise", "cluster")
        messages.success(request, "A worker compares the keys with the brokers now.")
    else:
        messages.info(request, "These brokers read the console's own table; there is nothing to compare.")
    return htmx.done(request, "platform.cluster")
