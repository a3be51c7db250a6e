"""The cluster: its brokers, and how far the rights of AccessKeys were carried over to them."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.views.decorators.http import require_GET, require_POST

from console.accounts import access
from console.audit import services as audit
from console.cluster import queries, services
from console.cluster.tables import UserTable
from console.web import htmx
from console.web.http import Request
from console.web.paging import configured, search_text


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
