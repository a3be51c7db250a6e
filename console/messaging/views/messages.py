"""Searching messages, looking at one, publishing a test message."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods

from console.accounts.actor import Actor
from console.instances import broker
from console.instances.models import Instance
from console.messaging import bodies, queries, services, tracks
from console.messaging.forms import IdSearchForm, KeySearchForm, PublishForm, TimeSearchForm
from console.messaging.queries import FOREVER_MS, Source
from console.messaging.records import MessageRecord, Position
from console.topics import access as topics
from console.topics.models import Topic
from console.topics.queries import visible_topics
from console.web import htmx
from console.web.errors import Refused
from console.web.http import Request

TABS = {"time": TimeSearchForm, "id": IdSearchForm, "key": KeySearchForm}
TITLES = {"time": "By topic and time", "id": "By message id", "key": "By key"}
_SUGGESTED_TOPICS = 300


@require_GET
def search(request: Request, instance_id: str) -> HttpResponse:
    """Find messages by topic and time, by id or by key; with a `topic` in the query the search runs at once."""
    instance = topics.instance(request, instance_id, "mq:QueryInstance")
    tab = request.GET.get("by", "time")
    if tab not in TABS:
        raise Http404("no such search")
    submitted = "search" in request.GET or "task" in request.GET
    form = TABS[tab](
        request.GET if submitted else None,
        actor=request.actor,
        instance=instance,
        initial={"topic": request.GET.get("topic", "")},
    )
    context: dict[str, Any] = {
        "instance": instance,
        "tab": tab,
        "tabs": _tabs(instance, tab),
        "form": form,
        "names": _suggestions(request.actor, instance),
    }
    if submitted and form.is_valid():
        topic: Topic = form.cleaned_data["topic"]
        topics.topic(request, instance_id, topic.name, "mq:QueryMessage")
        try:
            context |= {"topic": topic} | _found(request, tab, Source.of_topic(topic), form.cleaned_data)
        except Refused as refusal:
            form.add_error(None, refusal.message)
    if submitted and not form.is_valid():
        return htmx.invalid(
            request, "messaging/_search.html" if htmx.is_fragment(request) else "messaging/search.html", context
        )
    return htmx.page(request, "messaging/search.html", "messaging/_search.html", context)


@require_GET
def message(request: Request, instance_id: str, name: str, message_id: str) -> HttpResponse:
    """One message with everything known of it; htmx asks for the body card in another form."""
    topic = topics.topic(request, instance_id, name, "mq:QueryMessage")
    record, copies = _open(request, Source.of_topic(topic), message_id)
    context = {
        "instance": topic.instance,
        "topic": topic,
        "message": record,
        "copies": copies,
        "body": bodies.view(record.body, request.GET.get("body", "")),
        "place": str(record.position),
    }
    return htmx.page(request, "messaging/message.html", "messaging/_body.html", context)


@require_GET
def body(request: Request, instance_id: str, name: str, message_id: str) -> HttpResponse:
    """The body's bytes as a download, never as something a browser would show."""
    topic = topics.topic(request, instance_id, name, "mq:QueryMessage")
    record, _ = _open(request, Source.of_topic(topic), message_id)
    return download(record)


@require_GET
def track(request: Request, instance_id: str, name: str, message_id: str) -> HttpResponse:
    """Which groups have consumed the message."""
    topic = topics.topic(request, instance_id, name, "mq:QueryMessage")
    record, _ = _open(request, Source.of_topic(topic), message_id)
    found = tracks.delivery_tracks(broker.admin(topic.instance.cluster), topic, record, request.actor.tenant)
    return render(request, "messaging/_tracks.html", {"instance": topic.instance, "found": found})


@require_http_methods(["GET", "POST"])
def publish(request: Request, instance_id: str, name: str) -> HttpResponse:
    """Publish a test message of the topic's type."""
    topic = topics.topic(request, instance_id, name, "mq:PUB")
    context: dict[str, Any] = {"instance": topic.instance, "topic": topic}
    if request.method == "GET":
        return render(request, "messaging/publish.html", context | {"form": PublishForm(topic=topic)})
    form = PublishForm(request.POST, topic=topic)
    context["form"] = form
    if form.is_valid():
        arguments = form.arguments()
        try:
            result = services.publish_test_message(request.actor, topic, **arguments)
        except Refused as refusal:
            form.add_error(refusal.field if refusal.field in form.fields else None, refusal.message)
        else:
            context |= {"result": result, "deliver_at_ms": arguments["deliver_at_ms"]}
    if not form.is_valid():
        return htmx.invalid(
            request, "messaging/_publish.html" if htmx.is_fragment(request) else "messaging/publish.html", context
        )
    return htmx.page(request, "messaging/publish.html", "messaging/_publish.html", context)


def download(record: MessageRecord) -> HttpResponse:
    """An answer with a body as a file."""
    response = HttpResponse(record.body, content_type="application/octet-stream")
    response["Content-Disposition"] = (
        f'attachment; filename="message-{record.position.queue_id}-{record.position.offset}.bin"'
    )
    return response


def _found(request: Request, tab: str, source: Source, cleaned: dict[str, Any]) -> dict[str, Any]:
    if tab == "id":
        return {"found": queries.find_by_id(source, cleaned["message_id"])}
    if tab == "key":
        begin, end = cleaned.get("begin") or 0, cleaned.get("end")
        return {"found": queries.find_by_key(source, cleaned["key"], begin, FOREVER_MS if end is None else end + 999)}
    page = page_number(request)
    if task_id := request.GET.get("task"):
        return {"page": queries.next_page(request.actor, source, task_id, page)}
    return {
        "page": queries.search_by_time(
            request.actor,
            source,
            cleaned["begin_ms"],
            cleaned["end_ms"],
            newest_first=cleaned.get("order") != "oldest",
            tag=cleaned.get("tag", ""),
        )
    }


def page_number(request: Request) -> int:
    """The page asked for, 1 when the query says nothing useful."""
    text = request.GET.get("page", "1")
    return int(text) if text.isdecimal() and len(text) < 4 else 1


def _open(request: Request, source: Source, message_id: str) -> tuple[MessageRecord, list[MessageRecord]]:
    """The message of a link, by its place (`at`) or by its id, and other entries with the same id."""
    position = Position.parse(request.GET.get("at", ""))
    if position is not None:
        record = queries.message_at(source, position)
        if record is not None and message_id in (record.message_id, record.offset_message_id):
            return record, []
    found = queries.find_by_id(source, message_id)
    if not found:
        raise Http404("no such message")
    return found[0], found[1:]


def _tabs(instance: Instance, chosen: str) -> list[dict[str, Any]]:
    here = reverse("messaging.search", args=[instance.instance_id])
    return [{"title": title, "url": f"{here}?by={key}", "active": key == chosen} for key, title in TITLES.items()]


def _suggestions(actor: Actor, instance: Instance) -> list[str]:
    """Topics to choose from: those the caller may query."""
    found = visible_topics(actor, instance, "mq:QueryMessage")
    return list(found.values_list("name", flat=True)[:_SUGGESTED_TOPICS])
