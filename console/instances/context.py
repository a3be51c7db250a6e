"""What every page's frame shows: the side navigation, the instances to choose from and the chosen one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from django.urls import ResolverMatch, reverse

from brokercore.policy import mq_resource
from console.accounts.actor import Actor
from console.instances.models import Instance
from console.web.navigation import sections

_CHOSEN = "chosen_instance"
# Each cell of a table is a template of its own and would ask for the frame again.
_FRAME = "_gantry_frame"
_SHOWN = 200


@dataclass(frozen=True)
class Choice:
    """One instance of the top bar's chooser and where it leads."""

    instance: Instance
    url: str
    current: bool


def navigation(request: HttpRequest) -> dict[str, Any]:
    """`navigation`, `instances` the actor may see, `instance_choices` and `current_instance`.

    The chosen instance is that of the URL; on pages outside an instance, the one chosen last.
    """
    actor = getattr(request, "actor", None)
    if actor is None or getattr(request, "htmx", False):
        return {}
    if not hasattr(request, _FRAME):
        setattr(request, _FRAME, _frame(request, actor))
    frame: dict[str, Any] = getattr(request, _FRAME)
    return frame


def _frame(request: HttpRequest, actor: Actor) -> dict[str, Any]:
    match = request.resolver_match
    shown = (match.url_name if match else None) or ""
    if actor.own_tenant is None:
        return {"navigation": sections(shown, None, platform=True)}
    instances = [
        instance
        for instance in Instance.objects.filter(tenant=actor.tenant).order_by("name")[:_SHOWN]
        if actor.decide("mq:QueryInstance", mq_resource(instance.instance_id), owner=actor.tenant).allowed
    ]
    wanted = match.kwargs.get("instance_id") if match else None
    by_id = {i.instance_id: i for i in instances}
    if wanted in by_id and request.session.get(_CHOSEN) != wanted:
        request.session[_CHOSEN] = wanted
    current = by_id.get(wanted or request.session.get(_CHOSEN, "")) or (instances[0] if instances else None)
    choices = [Choice(i, _same_page(match, i), current is not None and i.pk == current.pk) for i in instances]
    return {
        "navigation": sections(shown, current.instance_id if current else None),
        "instances": instances,
        "instance_choices": choices,
        "current_instance": current,
    }


def _same_page(match: ResolverMatch | None, instance: Instance) -> str:
    """The page shown now, of another instance; from the page of one topic or group, the instance's own page."""
    if match is not None and match.url_name and set(match.kwargs) == {"instance_id"}:
        return reverse(match.url_name, args=[instance.instance_id])
    return reverse("instances.detail", args=[instance.instance_id])
