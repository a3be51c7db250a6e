"""Statistics pages: curves of topics and groups, drawn from samples."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from console.accounts.http import Request
from console.instances import access as instances
from console.instances.models import Instance
from console.metrics import figures, queries
from console.metrics.flow import Flow, group_flow, topic_flow
from console.metrics.forms import CurveForm
from console.metrics.marks import OF_GROUPS, OF_TOPICS, Mark, marks
from console.metrics.tables import GroupRates, TopicRates
from console.topics import access as topics
from console.topics.names import shown_name
from console.topics.queries import visible_groups, visible_topics
from console.topics.tables import sortable_groups, sortable_topics
from console.web import forms, htmx, streams
from console.web.paging import configured, records, search_text

_TABLE_ROWS = 200


@streams.part
@require_GET
def index(request: Request, instance_id: str) -> HttpResponse:
    """Topics of the instance with their rates now, or (`tab=groups`) its groups."""
    instance, text = instances.instance(request, instance_id, "mq:QueryTrend"), search_text(request)
    of_groups = request.GET.get("tab") == "groups"
    table = _groups(request, instance, text) if of_groups else _topics(request, instance, text)
    here = reverse("metrics.index", args=[instance.instance_id])
    context = {
        "instance": instance,
        "table": table,
        "q": text,
        "kind": "groups" if of_groups else "topics",
        "tabs": [
            {"title": _("Topics"), "url": here, "active": not of_groups},
            {"title": _("Groups"), "url": f"{here}?tab=groups", "active": of_groups},
        ],
    }
    return htmx.page(request, "metrics/index.html", "metrics/_index.html", context)


def _topics(request: Request, instance: Instance, text: str) -> TopicRates:
    found = visible_topics(request.actor, instance, "mq:QueryTrend", text=text)
    table: TopicRates = configured(request, TopicRates(sortable_topics(request, instance, found)))
    shown = [topic.physical_name for topic in records(table)]
    table.rates = queries.rates(instance.cluster, topics=shown, groups=[])
    table.hours = queries.topic_hours(instance.cluster, shown)
    return table


def _groups(request: Request, instance: Instance, text: str) -> GroupRates:
    found = visible_groups(request.actor, instance, "mq:QueryTrend", text=text)
    table: GroupRates = configured(request, GroupRates(sortable_groups(request, instance, found)))
    shown = [group.physical_name for group in records(table)]
    table.rates = queries.rates(instance.cluster, topics=[], groups=shown)
    table.hours = queries.group_hours(instance.cluster, table.rates.backlog)
    return table


@streams.part
@require_GET
def topic(request: Request, instance_id: str, name: str) -> HttpResponse:
    """Messages written to a topic over time."""
    found = topics.topic(request, instance_id, name, "mq:QueryTrend")
    form = CurveForm.of_query(request.GET.dict())
    context = {"instance": found.instance, "topic": found, "file_name": f"{found.name}.png"}
    flow = topic_flow(found, form.asked())
    done = marks(request.actor, flow.starts[0], flow.end_ms, OF_TOPICS, resources=[found.physical_name])
    context |= _shown(request, form, flow, done)
    return forms.show_part(request, "metrics/topic.html", "metrics/_curve.html", form, context)


@streams.part
@require_GET
def group(request: Request, instance_id: str, group_id: str) -> HttpResponse:
    """What came for a group, what it consumed, what waited and what died over time, of all its topics or of one."""
    found = topics.group(request, instance_id, group_id, "mq:QueryTrend")
    form = CurveForm.of_query(request.GET.dict())
    consumed = queries.group_topics(found)
    chosen = next((t for t in consumed if shown_name(found.instance, t) == request.GET.get("topic")), None)
    shown = group_flow(request.actor, found, chosen, form.asked())
    context = {
        "instance": found.instance,
        "group": found,
        "file_name": f"{found.group_id}.png",
        "consumed": [shown_name(found.instance, t) for t in consumed],
        "chosen": shown_name(found.instance, chosen) if chosen else "",
    }
    resources = [found.physical_name, *consumed]
    done = marks(request.actor, shown.starts[0], shown.end_ms, OF_GROUPS | OF_TOPICS, resources=resources)
    context |= _shown(request, form, shown, done)
    return forms.show_part(request, "metrics/group.html", "metrics/_curve.html", form, context)


def _shown(request: Request, form: CurveForm, flow: Flow, done: list[Mark]) -> dict[str, Any]:
    links = form.links(request.path, request.GET.dict())
    return {
        "flow": flow,
        "links": links,
        "here": request.build_absolute_uri(links.here),
        "unit": figures.unit(flow),
        "figure": None if flow.is_empty else figures.flow(flow, done),
        "marks": done,
        "legend": figures.legend(flow),
        "rows": figures.rows(flow, _TABLE_ROWS),
        "not_shown": max(0, len(flow.starts) - _TABLE_ROWS),
        "gaps": sum(flow.gaps),
    }
