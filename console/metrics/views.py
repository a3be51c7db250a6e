"""Statistics pages: curves of topics and groups, drawn from samples."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.views.decorators.http import require_GET

from console.accounts.http import Request
from console.instances import access as instances
from console.metrics import figures, queries
from console.metrics.forms import CurveForm
from console.metrics.queries import Curve
from console.topics import access as topics
from console.topics.names import shown_name
from console.topics.queries import visible_groups, visible_topics
from console.web import htmx

_TABLE_ROWS = 200
_INDEX_ROWS = 500
TOPIC_COLOR, GROUP_COLOR = "#066fd1", "#2fb344"


@require_GET
def index(request: Request, instance_id: str) -> HttpResponse:
    """Topics and groups of the instance with their rates now."""
    instance = instances.instance(request, instance_id, "mq:QueryTrend")
    rates = queries.rates(instance.cluster)

    own_topics = visible_topics(request.actor, instance, "mq:QueryTrend")[:_INDEX_ROWS]
    own_groups = visible_groups(request.actor, instance, "mq:QueryTrend")[:_INDEX_ROWS]
    context = {
        "instance": instance,
        "age_seconds": rates.age_seconds,
        "topics": [(t, rates.in_tps.get(t.physical_name)) for t in own_topics],
        "groups": [(g, rates.out_tps.get(g.physical_name), rates.backlog.get(g.physical_name)) for g in own_groups],
    }
    return htmx.page(request, "metrics/index.html", "metrics/_index.html", context)


@require_GET
def topic(request: Request, instance_id: str, name: str) -> HttpResponse:
    """Messages written to a topic over time."""
    found = topics.topic(request, instance_id, name, "mq:QueryTrend")
    form = CurveForm.of_query(request.GET.dict())
    curve = queries.topic_curve(found, **form.arguments())
    context = {"instance": found.instance, "topic": found, "form": form} | _shown(curve, "Input", TOPIC_COLOR)
    return htmx.page(request, "metrics/topic.html", "metrics/_curve.html", context)


@require_GET
def group(request: Request, instance_id: str, group_id: str) -> HttpResponse:
    """Messages a group consumed over time, of all its topics or of one."""
    found = topics.group(request, instance_id, group_id, "mq:QueryTrend")
    form = CurveForm.of_query(request.GET.dict())
    consumed = queries.group_topics(found)
    chosen = next((t for t in consumed if shown_name(found.instance, t) == request.GET.get("topic")), None)
    curve = queries.group_curve(found, [chosen] if chosen else consumed, **form.arguments())
    context = {
        "instance": found.instance,
        "group": found,
        "form": form,
        "consumed": [shown_name(found.instance, t) for t in consumed],
        "chosen": shown_name(found.instance, chosen) if chosen else "",
    }
    return htmx.page(
        request, "metrics/group.html", "metrics/_curve.html", context | _shown(curve, "Output", GROUP_COLOR)
    )


def _shown(curve: Curve, name: str, color: str) -> dict[str, Any]:
    values = [p.value for p in curve.points if p.value is not None]
    return {
        "curve": curve,
        "unit": figures.unit(curve),
        "figure": figures.line(curve, name, color=color),
        "rows": list(reversed(curve.points))[:_TABLE_ROWS],
        "left_out": max(0, len(curve.points) - _TABLE_ROWS),
        "highest": max(values, default=None),
        "total": sum(values) if curve.measure == "count" else None,
        "gaps": sum(p.value is None for p in curve.points),
    }
