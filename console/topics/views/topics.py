"""Pages of topics."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from console.instances import access as instances
from console.metrics.queries import rates
from console.topics import access, queries, services
from console.topics.forms import ModeForm, TopicForm
from console.topics.live import queue_rows, subscribers
from console.topics.tables import TopicTable
from console.web import deletion, htmx
from console.web.errors import Refused
from console.web.forms import add_refusal
from console.web.http import Request
from console.web.paging import configured, search_text


@require_GET
def index(request: Request, instance_id: str) -> HttpResponse:
    instance = instances.instance(request, instance_id, "mq:QueryInstance")
    text = search_text(request)
    found = queries.visible_topics(request.actor, instance).filter(name__icontains=text)
    measured = rates(instance.cluster)
    context = {
        "instance": instance,
        "table": configured(request, TopicTable(found, instance=instance, rates=measured)),
        "rates": measured,
        "q": text,
    }
    return htmx.page(request, "topics/list.html", "topics/_list.html", context)


def create(request: Request, instance_id: str) -> HttpResponse:
    instance = instances.instance(request, instance_id, "mq:CreateTopic")
    form = TopicForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            topic = services.create_topic(actor=request.actor, instance=instance, **form.cleaned_data)
        except Refused as refused:
            add_refusal(form, refused)
        else:
            messages.success(request, f"Topic {topic.name} is ready.")
            return redirect("topics.detail", instance.instance_id, topic.name)
    status = 422 if form.is_bound else 200
    return render(request, "topics/create.html", {"instance": instance, "form": form}, status=status)


@require_GET
def detail(request: Request, instance_id: str, name: str) -> HttpResponse:
    topic = access.topic(request, instance_id, name, "mq:QueryTopic")
    measured = rates(topic.instance.cluster)
    context = {
        "instance": topic.instance,
        "topic": topic,
        "tab": "information",
        "in_tps": measured.in_tps.get(topic.physical_name),
        "stored": measured.stored.get(topic.physical_name),
        "message_type": services.MESSAGE_TYPES[topic.order_type],  # type: ignore[index]
        "form": ModeForm(initial={"perm": topic.perm}),
    } | access.standing(request.actor, topic)
    return render(request, "topics/detail.html", context)


@require_GET
def live(request: Request, instance_id: str, name: str) -> HttpResponse:
    topic = access.topic(request, instance_id, name, "mq:QueryTopic")
    context = {
        "instance": topic.instance,
        "topic": topic,
        "subscribers": subscribers(request.actor, topic),
        "queues": queue_rows(topic),
    }
    return render(request, "topics/_live.html", context)


@require_POST
def mode(request: Request, instance_id: str, name: str) -> HttpResponse:
    topic = access.topic(request, instance_id, name, "mq:UpdateTopic")
    form = ModeForm(request.POST)
    if form.is_valid():
        services.set_topic_permission(actor=request.actor, topic=topic, **form.cleaned_data)
        messages.success(request, f"{topic.name} is now: {topic.get_perm_display().lower()}.")
    else:
        messages.error(request, "The mode is read and write, read only, or write only.")
    return htmx.done(request, "topics.detail", topic.instance.instance_id, topic.name)


def delete(request: Request, instance_id: str, name: str) -> HttpResponse:
    topic = access.topic(request, instance_id, name, "mq:DeleteTopic")
    wanted = deletion.Deletion(
        kind="topic",
        name=topic.name,
        warning="Its messages, the subscriptions of all groups and the grants on it go with it.",
        cancel_url=reverse("topics.detail", args=[instance_id, topic.name]),
    )
    return deletion.confirm(
        request,
        wanted,
        lambda: services.delete_topic(actor=request.actor, topic=topic),
        ("topics.list", topic.instance.instance_id),
    )
