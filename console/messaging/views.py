"""Pages of messages, of a group's consumers and its offsets, and of dead letters."""

from __future__ import annotations

from typing import Any

from django.contrib import messages as notices
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from brokercore.client.errors import ClientError
from console.accounts.actor import Actor
from console.accounts.http import Request
from console.instances import access as instances
from console.instances import broker
from console.instances.models import Instance
from console.messaging import consumption, dead_letters, queries, records, services
from console.messaging import trace as traces
from console.messaging.forms import IdSearchForm, KeySearchForm, PublishForm, ResetForm, TargetForm, TimeSearchForm
from console.messaging.queries import FOREVER_MS, Source
from console.messaging.records import MessageRecord, Position
from console.messaging.status import clients_of, diagnose, group_status, thread_stack, topics_by_backlog
from console.messaging.tables import Letters, LettersTable
from console.metrics.queries import dead_letter_counts
from console.topics import access as topics
from console.topics import many
from console.topics.models import Group, Topic
from console.topics.queries import visible_groups, visible_topics
from console.web import bulk, forms, htmx, streams
from console.web.errors import Refused
from console.web.languages import gettext_lazy
from console.web.paging import LazyRows, configured, search_text

TABS = {"time": TimeSearchForm, "id": IdSearchForm, "key": KeySearchForm}
TITLES = {"time": gettext_lazy("By topic and time"), "id": gettext_lazy("By message ID"), "key": gettext_lazy("By key")}
_SUGGESTED_TOPICS, MAX_NAME = 100, 128
_TO_SEARCH = "mq:QueryMessage"
_CHOSEN_TO = {"search": _TO_SEARCH, "reset": "mq:QueryTopic"}
"""What the caller must be able to do with topics that are suggested, by what it chooses them for."""


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
        "names": _suggestions(request.actor, instance),
    }
    if form.is_valid():
        topic: Topic = form.cleaned_data["topic"]
        topics.topic(request, instance_id, topic.name, "mq:QueryMessage")
        with forms.refusals_on(form):
            context |= {"topic": topic} | _found(request, tab, Source.of_topic(topic), form.cleaned_data)
    return forms.show_part(request, "messaging/search.html", "messaging/_search.html", form, context)


@require_GET
def topic_names(request: Request, instance_id: str) -> HttpResponse:
    """Topics to choose from that have what was typed in their names, of those to search or (`to=reset`) to reset in."""
    instance = topics.instance(request, instance_id, "mq:QueryInstance")
    typed = request.GET.get("topic", "").strip()[:MAX_NAME]
    names = _suggestions(request.actor, instance, typed, _CHOSEN_TO.get(request.GET.get("to", ""), _TO_SEARCH))
    return render(request, "messaging/_topic_names.html", {"names": names})


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
        "body": records.view(record.body, request.GET.get("body", "")),
        "place": str(record.position),
    }
    return htmx.page(request, "messaging/message.html", "messaging/_body.html", context)


@require_GET
def body(request: Request, instance_id: str, name: str, message_id: str) -> HttpResponse:
    """The body's bytes as a download, never as something a browser would show."""
    topic = topics.topic(request, instance_id, name, "mq:QueryMessage")
    record, _unused = _open(request, Source.of_topic(topic), message_id)
    return download(record)


@require_GET
def track(request: Request, instance_id: str, name: str, message_id: str) -> HttpResponse:
    """Which groups have consumed the message."""
    topic = topics.topic(request, instance_id, name, "mq:QueryMessage")
    record, _unused = _open(request, Source.of_topic(topic), message_id)
    found = consumption.delivery_tracks(broker.admin(topic.instance.cluster), topic, record, request.actor.tenant)
    context = {"instance": topic.instance, "topic": topic, "message": record, "place": str(record.position)}
    return render(request, "messaging/_tracks.html", context | {"found": found})


@require_http_methods(["GET", "POST"])
def push(request: Request, instance_id: str, name: str, message_id: str, group_id: str) -> HttpResponse:
    """Hand the message to one client of a group, whatever the group consumed, and show what the client made of it."""
    topic = topics.topic(request, instance_id, name, "mq:QueryMessage")
    group = topics.group(request, instance_id, group_id, "mq:ResendDeadLetter")
    record, _unused = _open(request, Source.of_topic(topic), message_id)
    context: dict[str, Any] = {"instance": topic.instance, "topic": topic, "group": group, "message": record}
    context |= {"place": str(record.position), "chosen": request.POST.get("client", "")}
    with forms.refusals_in(context, "refusal"):
        connection = clients_of(group)
        context["clients"] = [one.client_id for one in connection.connections] if connection else []
        if request.method == "POST":
            context["result"] = services.push_message(request.actor, group, topic, record, context["chosen"])
    response = htmx.page(request, "messaging/push.html", "messaging/_push.html", context)
    response.status_code = 422 if "refusal" in context else 200
    return response


@require_GET
def trace(request: Request, instance_id: str, name: str, message_id: str) -> HttpResponse:
    """What became of the message, step by step."""
    topic = topics.topic(request, instance_id, name, "mq:QueryMessage")
    record, _unused = _open(request, Source.of_topic(topic), message_id)
    steps = traces.steps(broker.admin(topic.instance.cluster), topic, record, request.actor.tenant)
    context = {"instance": topic.instance, "steps": steps, "told": any(step.group for step in steps)}
    return render(request, "messaging/_trace.html", context)


@require_http_methods(["GET", "POST"])
def publish(request: Request, instance_id: str, name: str) -> HttpResponse:
    """Publish a test message of the topic's type."""
    topic = topics.topic(request, instance_id, name, "mq:PUB")
    context: dict[str, Any] = {"instance": topic.instance, "topic": topic}
    if request.method == "GET":
        initial, problem = _anew(request, topic)
        context |= {"problem": problem, "anew": bool(initial)}
        return forms.show(request, "messaging/publish.html", PublishForm(topic=topic, initial=initial), context)
    form = PublishForm(request.POST, topic=topic)
    if form.is_valid():
        arguments = form.arguments()
        with forms.refusals_on(form):
            result = services.publish_test_message(request.actor, topic, **arguments)
            context |= {"result": result, "deliver_at_ms": arguments["deliver_at_ms"]}
    return forms.show_part(request, "messaging/publish.html", "messaging/_publish.html", form, context)


def _anew(request: Request, topic: Topic) -> tuple[dict[str, Any], str]:
    """What a new message takes over from a dead letter (`group` and `letter`), and why it cannot."""
    group_id, reference = request.GET.get("group", ""), request.GET.get("letter", "")
    if not group_id or not reference:
        return {}, ""
    group = topics.group(request, topic.instance.instance_id, group_id, "mq:QueryMessage")
    found = dead_letters.find(group, reference)
    if found is None:
        raise Http404("no such dead letter")
    record = found.record
    try:
        body = record.body.decode()
    except UnicodeDecodeError:
        return {}, _("The body of the dead letter is no text, so that it cannot be edited here.")
    pairs = dead_letters.own_properties(record)
    return {
        "body": body,
        "tag": record.tag,
        "key": " ".join(record.keys),
        "sharding_key": record.sharding_key,
        "properties": "\n".join(f"{name}={value}" for name, value in pairs.items()),
    }, ""


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
            wanted={"tag": cleaned["tag"]} if cleaned.get("tag") else None,
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


def _suggestions(actor: Actor, instance: Instance, typed: str = "", action: str = _TO_SEARCH) -> list[str]:
    """Topics to choose from: those that the caller may ask, with what was typed in their names."""
    found = visible_topics(actor, instance, action, text=typed)
    return list(found.values_list("name", flat=True)[:_SUGGESTED_TOPICS])


@streams.part
@require_GET
def status(request: Request, instance_id: str, group_id: str) -> HttpResponse:
    """Consumer status: progress per topic and queue, connections; htmx asks for it again to refresh."""
    group = topics.group(request, instance_id, group_id, "mq:QueryGroup")
    context = {"instance": group.instance, "group": group, "status": group_status(group)}
    return htmx.page(request, "messaging/status.html", "messaging/_status.html", context)


@require_GET
def clients(request: Request, instance_id: str, group_id: str) -> HttpResponse:
    """What the clients say of themselves; slow, so the status page asks for it when it is there."""
    group = topics.group(request, instance_id, group_id, "mq:QueryGroup")
    context = {"instance": group.instance, "group": group, "diagnosis": diagnose(group)}
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
        "stack": thread_stack(group, client_id),
    }
    return htmx.page(request, "messaging/stack.html", "messaging/_stack.html", context)


@require_http_methods(["GET", "POST"])
def reset(request: Request, instance_id: str, group_id: str) -> HttpResponse:
    """Reset the offset in one topic: the form, then what it would skip or repeat, then the reset."""
    group = topics.group(request, instance_id, group_id, "mq:ResetOffset")
    data = request.POST if request.method == "POST" else request.GET if "to" in request.GET else None
    own = _topics_of(request.actor, group)
    form = ResetForm(
        data,
        actor=request.actor,
        instance=group.instance,
        initial={"topic": request.GET.get("topic") or next(iter(own), "")},
    )
    context = {
        "instance": group.instance,
        "group": group,
        "own": own,
        "names": list(dict.fromkeys([*own, *_suggestions(request.actor, group.instance, "", _CHOSEN_TO["reset"])])),
    }
    if data is None:
        return forms.show(request, "messaging/reset.html", form, context)
    if form.is_valid():
        topic = topics.topic(request, instance_id, form.cleaned_data["topic"].name, "mq:QueryTopic")
        target, queue = form.cleaned_data["target"], form.cleaned_data["queue"].strip()
        with forms.refusals_on(form):
            if request.method == "POST":
                services.reset_offset(request.actor, group, topic, target, queue)
                said = (
                    _("The offset of %(group_id)s in queue %(queue)s of %(topic)s was reset.")
                    if queue
                    else _("The offset of %(group_id)s in %(topic)s was reset.")
                )
                notices.success(request, said % {"group_id": group.group_id, "queue": queue, "topic": topic.name})
                return htmx.done(request, "messaging.status", instance_id, group_id)
            context |= {"topic": topic, "preview": services.preview_reset(group, topic, target, queue)}
    return forms.show_part(request, "messaging/reset.html", "messaging/_reset.html", form, context)


@require_POST
def reset_many(request: Request, instance_id: str) -> HttpResponse:
    """Reset the offsets of many groups, each in all topics that it consumes and the visitor sees."""
    actor = request.actor
    instance = instances.instance(request, instance_id, "mq:QueryInstance")
    form = many.chosen_form(TargetForm, request.POST)

    def act(key: str) -> str:
        group = many.group_of(actor, instance, key, many.RESET)
        names = _visible(actor, group, topics_by_backlog(group))
        if not names:
            told = _("It consumes no topic that you see, so there is no offset to reset.")
            raise Refused("BIZ_TOPIC_NOT_FOUND", told)
        for name in names:
            topic = visible_topics(actor, instance, _CHOSEN_TO["reset"]).get(name=name)
            services.reset_offset(actor, group, topic, form.cleaned_data["target"])
        return ", ".join(names)

    deed = bulk.Deed(
        title=_("Reset the offsets of groups"),
        question=lambda n: (
            ngettext("Reset the offsets of %(n)s group", "Reset the offsets of %(n)s groups", n) % {"n": n}
        ),
        warning=_(
            "In every topic that each of them consumes. Groups that are offline are moved too; online clients jump "
            "within about ten seconds. Messages that wait for a retry are not touched."
        ),
        act=act,
        form=form,
        **many.groups(actor, instance, many.RESET),
    )
    return bulk.answer(request, deed)


def _topics_of(actor: Actor, group: Group) -> list[str]:
    """The topics that the group consumes and the caller may see, largest backlog first; none in an outage."""
    try:
        consumed = topics_by_backlog(group)
    except ClientError:
        return []
    return _visible(actor, group, consumed)


def _visible(actor: Actor, group: Group, consumed: list[str]) -> list[str]:
    """The names of those of these topics that the caller may see, in their order."""
    visible = visible_topics(actor, group.instance, _CHOSEN_TO["reset"]).filter(physical_name__in=consumed)
    names = dict(visible.values_list("physical_name", "name"))
    return [names[physical] for physical in consumed if physical in names]


@streams.part
@require_GET
def dead_letter_index(request: Request, instance_id: str) -> HttpResponse:
    """The groups of the instance with the number of letters of each, as last sampled."""
    instance, text = instances.instance(request, instance_id, "mq:QueryGroup"), search_text(request)
    groups = visible_groups(request.actor, instance, text=text)
    names = list(groups.values_list("physical_name", "group_id"))
    counts, sampled_at = dead_letter_counts(instance.cluster, [name for name, _unused in names])
    rows: LazyRows[tuple[str, str]] = LazyRows(
        names,
        lambda one: Letters(one[1], counts.get(one[0])),
        {"group_id": lambda one: one[1], "letters": lambda one: counts.get(one[0])},
    )
    context = {
        "instance": instance,
        "table": configured(request, LettersTable(rows)),
        "sampled_at": sampled_at,
        "q": text,
    }
    return htmx.page(request, "messaging/dead_letter_index.html", "messaging/_dead_letter_index.html", context)
