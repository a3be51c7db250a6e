"""Consumer status of a group: clients, progress, thread stacks, resetting offsets."""

from __future__ import annotations

from django.contrib import messages as notices
from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET, require_http_methods

from console.accounts.actor import Actor
from console.messaging import diagnosis, offsets
from console.messaging import status as group_status
from console.messaging.forms import ResetForm
from console.topics import access as topics
from console.topics.models import Group
from console.topics.queries import visible_topics
from console.web import htmx
from console.web.errors import Refused
from console.web.http import Request


@require_GET
def status(request: Request, instance_id: str, group_id: str) -> HttpResponse:
    """Consumer status: progress per topic and queue, connections; htmx asks for it again to refresh."""
    group = topics.group(request, instance_id, group_id, "mq:QueryGroup")
    context = {"instance": group.instance, "group": group, "status": group_status.group_status(group)}
    return htmx.page(request, "messaging/status.html", "messaging/_status.html", context)


@require_GET
def clients(request: Request, instance_id: str, group_id: str) -> HttpResponse:
    """What the clients say of themselves; slow, so the status page asks for it when it is there."""
    group = topics.group(request, instance_id, group_id, "mq:QueryGroup")
    context = {"instance": group.instance, "group": group, "diagnosis": diagnosis.diagnose(group)}
    return render(request, "messaging/_clients.html", context)


@require_GET
def stack(request: Request, instance_id: str, group_id: str) -> HttpResponse:
    """The thread stacks of one client."""
    group = topics.group(request, instance_id, group_id, "mq:QueryGroup")
    client_id = request.GET.get("client", "")
    context = {
        "instance": group.instance,
        "group": group,
        "client_id": client_id,
        "stack": diagnosis.thread_stack(group, client_id),
    }
    return htmx.page(request, "messaging/stack.html", "messaging/_stack.html", context)


@require_http_methods(["GET", "POST"])
def reset(request: Request, instance_id: str, group_id: str) -> HttpResponse:
    """Reset the offset in one topic: the form, then what it would skip or repeat, then the reset."""
    group = topics.group(request, instance_id, group_id, "mq:ResetOffset")
    data = request.POST if request.method == "POST" else request.GET if "to" in request.GET else None
    form = ResetForm(data, initial={"topic": request.GET.get("topic", "")})
    context = {"instance": group.instance, "group": group, "form": form, "names": _topic_names(request.actor, group)}
    if data is None:
        return render(request, "messaging/reset.html", context)
    if form.is_valid():
        topic = topics.topic(request, instance_id, form.cleaned_data["topic"], "mq:QueryTopic")
        target = form.cleaned_data["target"]
        try:
            if request.method == "POST":
                offsets.reset_offset(request.actor, group, topic, target)
                notices.success(request, f"The offset of {group.group_id} in {topic.name} was reset.")
                return htmx.done(request, "messaging.status", instance_id, group_id)
            context |= {"topic": topic, "preview": offsets.preview_reset(group, topic, target)}
        except Refused as refusal:
            form.add_error(None, refusal.message)
    if not form.is_valid():
        return htmx.invalid(
            request, "messaging/_reset.html" if htmx.is_fragment(request) else "messaging/reset.html", context
        )
    return htmx.page(request, "messaging/reset.html", "messaging/_reset.html", context)


def _topic_names(actor: Actor, group: Group) -> list[str]:
    """Topics of the group's instance that it may be reset in, at most 300 as suggestions."""
    return list(visible_topics(actor, group.instance).values_list("name", flat=True)[:300])
