"""Pages of the account's queues. A queue service that does not answer is shown as an outage by the middleware."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from brokercore.smq.client import Delivered
from brokercore.smq.wire.messages import MAX_BATCH
from brokercore.smq.wire.queues import QueueState
from console.accounts import downloads, saved_views
from console.accounts.http import Request
from console.metrics.figures import AMBER, BLUE, GREEN, VIOLET, lines
from console.queues import access, queries, samples, services
from console.queues.forms import AttributesForm, HideForm, QueueForm, ReceiveForm, SendForm
from console.queues.samples import Point
from console.queues.tables import QueueTable
from console.queues.topics import access as topic_access
from console.queues.topics import queries as topic_queries
from console.web import deletion, forms, htmx, streams
from console.web.languages import gettext_lazy
from console.web.paging import configured, search_text
from console.web.words import counted

RANGES = {
    "1h": (gettext_lazy("Last hour"), 3600),
    "6h": (gettext_lazy("Last 6 hours"), 6 * 3600),
    "1d": (gettext_lazy("Last day"), 24 * 3600),
}
#: Topics that are asked for the subscriptions of one queue, one call each.
_TOPICS_ASKED = 100
_ACTIONS = {
    "update": "mns:SetQueueAttributes",
    "delete": "mns:DeleteQueue",
    "send": "mns:SendMessage",
    "peek": "mns:PeekMessage",
    "receive": "mns:ReceiveMessage",
    "hide": "mns:ChangeMessageVisibility",
    "remove": "mns:DeleteMessage",
}


@require_GET
@saved_views.opens_with_default("queues_QueueTable")
def queue_list(request: Request) -> HttpResponseBase:
    tenant = access.queues(request, "mns:ListQueue")
    text = search_text(request)
    listing = queries.listing(tenant, text)
    table = configured(request, QueueTable(listing.rows, is_counted=listing.is_counted))
    if downloads.is_wanted(request):
        return downloads.csv(request, table, "queues.queue.export", "queues")
    shown = [row.record for row in table.paginated_rows]
    queries.fill(tenant, shown)
    if table.shows("sent", "received"):
        table.rates = samples.rates(tenant, [row.name for row in shown])
    context = {
        "table": table,
        "listing": listing,
        "q": text,
        "may_create": access.may(request.actor, "mns:CreateQueue", "*"),
    }
    return htmx.page(request, "queues/list.html", "queues/_list.html", context)


def queue_create(request: Request) -> HttpResponse:
    access.queues(request, "mns:CreateQueue", request.POST.get("name", "").strip() or "*")
    form = QueueForm(request.POST or None)
    if form.is_valid():
        name = form.cleaned_data["name"]
        with forms.refusals_on(form):
            made = services.create_queue(actor=request.actor, name=name, attributes=form.attributes())
            said = (
                _("Queue %(name)s is ready.") if made else _("Queue %(name)s was there already, just like this.")
            ) % {"name": name}
            messages.success(request, said)
            return redirect("queues.detail", name)
    return forms.show(request, "queues/create.html", form)


@require_GET
def queue_detail(request: Request, name: str) -> HttpResponse:
    queue = access.queue(request, name, "mns:GetQueueAttributes")
    context = _about(request, queue, "information") | {
        "endpoint": queries.endpoint(request.actor.tenant),
        "facts": AttributesForm.facts(queue),
        "created_ms": queue.created * 1000,
        "modified_ms": queue.modified * 1000,
    }
    return render(request, "queues/detail.html", context)


@streams.part
@require_GET
def queue_live(request: Request, name: str) -> HttpResponse:
    queue = access.queue(request, name, "mns:GetQueueAttributes")
    return render(request, "queues/_live.html", _about(request, queue, "information"))


@streams.part
@require_GET
def queue_statistics(request: Request, name: str) -> HttpResponse:
    queue = access.queue(request, name, "mns:GetQueueAttributes")
    chosen = request.GET.get("range", "")
    chosen = chosen if chosen in RANGES else "1h"
    seconds = RANGES[chosen][1]
    points = samples.curve(request.actor.tenant, queue, seconds)
    context = _about(request, queue, "statistics") | {
        "ranges": [(key, title, key == chosen) for key, (title, _unused) in RANGES.items()],
        "points": points,
        "rows": list(reversed(points))[:200],
        "counters": counters_figure(points, seconds),
        "flow": rates_figure(points, seconds),
    }
    return htmx.page(request, "queues/statistics.html", "queues/_statistics.html", context)


def counters_figure(points: Sequence[Point], seconds: int) -> dict[str, Any]:
    """Active, hidden and delayed messages of the last so many seconds, as a plotly figure."""
    series = {
        "active": (BLUE, [point.active for point in points]),
        "hidden": (AMBER, [point.hidden for point in points]),
        "delayed": (VIOLET, [point.delayed for point in points]),
    }
    return lines([point.at for point in points], series, "messages", seconds)


def rates_figure(points: Sequence[Point], seconds: int) -> dict[str, Any]:
    """Messages sent and received a second, of the last so many seconds, as a plotly figure."""
    series = {
        "sent": (BLUE, [_rounded(point.sent_rate) for point in points]),
        "received": (GREEN, [_rounded(point.received_rate) for point in points]),
    }
    return lines([point.at for point in points], series, "messages/s", seconds)


def _rounded(rate: float | None) -> float | None:
    return None if rate is None else round(rate, 3)


@require_GET
def queue_subscriptions(request: Request, name: str) -> HttpResponse:
    """By which topics the queue gets messages, as far as the visitor may see their subscriptions."""
    queue = access.queue(request, name, "mns:GetQueueAttributes")
    tenant, sees = request.actor.tenant, access.may(request.actor, "mns:ListTopic", "")
    names = [one.name for one in topic_queries.listing(tenant).rows] if sees else []
    seen = [one for one in names if topic_access.may(request, "mns:ListSubscriptionByTopic", one)]
    context = {
        "queue": queue,
        "sees": sees,
        "subscriptions": topic_queries.subscribed(tenant, name, seen[:_TOPICS_ASKED]),
        "left_out": max(0, len(seen) - _TOPICS_ASKED),
    }
    return render(request, "queues/_subscriptions.html", context)


def queue_update(request: Request, name: str) -> HttpResponse:
    queue = access.queue(request, name, "mns:SetQueueAttributes")
    form = AttributesForm(request.POST) if request.method == "POST" else AttributesForm.of_state(queue)
    if form.is_valid():
        with forms.refusals_on(form):
            services.set_attributes(actor=request.actor, name=name, attributes=form.attributes())
            messages.success(request, _("The attributes of %(name)s are changed.") % {"name": name})
            return redirect("queues.detail", name)
    return forms.show(request, "queues/update.html", form, _about(request, queue, "information"))


def queue_delete(request: Request, name: str) -> HttpResponse:
    queue = access.queue(request, name, "mns:DeleteQueue")
    held = queue.active + queue.inactive + queue.delayed
    what = _("It holds %(held)s, deleted with it.") % {"held": counted(held, "message")} if held else _("It is empty.")
    cancel_url = reverse("queues.detail", args=[name])
    wanted = deletion.Deletion(kind=_("queue"), name=name, warning=what, cancel_url=cancel_url)
    return deletion.confirm(
        request, wanted, lambda: services.delete_queue(actor=request.actor, name=name), ("queues.list",)
    )


def message_send(request: Request, name: str) -> HttpResponse:
    queue = access.queue(request, name, "mns:SendMessage")
    form = SendForm(request.POST or None)
    context = _about(request, queue, "send")
    if form.is_valid():
        with forms.refusals_on(form):
            sent = services.send_message(actor=request.actor, name=name, **form.cleaned_data)
            context |= {"sent": sent, "form": SendForm()}
            return htmx.page(request, "queues/send.html", "queues/_send.html", context)
    return forms.show_part(request, "queues/send.html", "queues/_send.html", form, context)


@require_GET
def messages_peek(request: Request, name: str) -> HttpResponse:
    queue = access.queue(request, name, "mns:PeekMessage")
    decodes = request.GET.get("base64") == "1"
    found = queries.peek(request.actor.tenant, name, MAX_BATCH)
    context = _about(request, queue, "messages") | {
        "decodes": decodes,
        "peeked": _shown(found, decodes),
        "form": ReceiveForm(initial={"base64": decodes}),
    }
    return htmx.page(request, "queues/messages.html", "queues/_peeked.html", context)


@require_POST
def messages_receive(request: Request, name: str) -> HttpResponse:
    queue = access.queue(request, name, "mns:ReceiveMessage")
    form = ReceiveForm(request.POST)
    context = _about(request, queue, "messages")
    if form.is_valid():
        most, wait_s, decodes = (form.cleaned_data[field] for field in ("most", "wait_s", "base64"))
        with forms.refusals_on(form):
            found = services.receive_messages(actor=request.actor, name=name, most=most, wait_s=wait_s)
            context |= {"received": _shown(found, decodes), "hide": HideForm(auto_id=False)}
    response = forms.show_part(request, "queues/received.html", "queues/_received.html", form, context)
    return htmx.telling(response, "queueReceived")


@require_POST
def message_hide(request: Request, name: str) -> HttpResponse:
    queue = access.queue(request, name, "mns:ChangeMessageVisibility")
    form = HideForm(request.POST, auto_id=False)
    context = _about(request, queue, "messages")
    if form.is_valid():
        with forms.refusals_on(form):
            handle, until_ms = services.hide_message(actor=request.actor, name=name, **form.cleaned_data)
            context |= {"until_ms": until_ms}
            form = HideForm(auto_id=False, initial={"handle": handle, "seconds": form.cleaned_data["seconds"]})
    return forms.show_part(request, "queues/handled.html", "queues/_handled.html", form, context)


@require_POST
def message_delete(request: Request, name: str) -> HttpResponse:
    queue = access.queue(request, name, "mns:DeleteMessage")
    form = HideForm(request.POST, auto_id=False)
    context = _about(request, queue, "messages")
    with forms.refusals_on(form):
        services.delete_message(actor=request.actor, name=name, handle=request.POST.get("handle", ""))
        return htmx.page(request, "queues/handled.html", "queues/_handled.html", context | {"is_deleted": True})
    return forms.show_part(request, "queues/handled.html", "queues/_handled.html", form, context)


def _about(request: Request, queue: QueueState, tab: str) -> dict[str, Any]:
    """What every page of one queue shows, and what the visitor may do with it."""
    may = {word: access.may(request.actor, action, queue.name) for word, action in _ACTIONS.items()}
    rates = samples.rates(request.actor.tenant, [queue.name]).get(queue.name, samples.Rates())
    return {"queue": queue, "tab": tab, "may": may, "rates": rates}


def _shown(found: Sequence[Delivered], decodes: bool) -> list[queries.ShownMessage]:
    return [queries.shown(one, decodes=decodes) for one in found]
