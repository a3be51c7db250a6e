"""What every page's frame shows: the side navigation, the instances to choose from and the chosen one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from django.http import HttpRequest
from django.urls import ResolverMatch, reverse

from brokercore.policy import mq_resource
from console.accounts.actor import Actor, platform_resource, service_resource, tenant_resource
from console.instances.models import Instance
from console.instances.queries import has_other_clusters
from console.web import regions
from console.web.navigation import above, sections

_CHOSEN = "chosen_instance"
# Each cell of a table is a template of its own and would ask for the frame again.
_PLACE = "MQ_INST_OF_THE_CHOICE"
_FRAME = "_gantry_frame"
_SHOWN = 200


@dataclass(frozen=True)
class Choice:
    """One instance of the top bar's chooser and where it leads."""

    instance: Instance
    url: str
    current: bool


def navigation(request: HttpRequest) -> dict[str, Any]:
    """`navigation`, `instances` the actor may see, `instance_choices`, `current_instance` and `other_clusters`.

    The chosen instance is that of the URL; on pages outside an instance, the one chosen last. `section` is the entry of
    the navigation that the page is below; None on the entry's own page.
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
        shown_sections = sections(shown, None, None)
        section = above(shown_sections, request.path)
        return {"navigation": shown_sections, "section": section, "other_clusters": has_other_clusters}
    instances = choosable(actor)
    wanted = match.kwargs.get("instance_id") if match else None
    by_id = {i.instance_id: i for i in instances}
    if wanted in by_id and request.session.get(_CHOSEN) != wanted:
        request.session[_CHOSEN] = wanted
    current = by_id.get(wanted or request.session.get(_CHOSEN, "")) or (instances[0] if instances else None)
    address = _same_page(match)
    choices = [
        Choice(i, address.replace(_PLACE, i.instance_id), current is not None and i.pk == current.pk) for i in instances
    ]
    shown_sections = sections(shown, current.instance_id if current else None, partial(may_open, actor))
    return {
        "navigation": shown_sections,
        "section": above(shown_sections, request.path),
        "instances": instances,
        "instance_choices": choices,
        "current_instance": current,
        "several_regions": regions.are_several(),
        "other_clusters": has_other_clusters,
    }


def choosable(actor: Actor) -> list[Instance]:
    """The account's instances that the actor may see, by name; so many as the top bar shows."""
    mine = Instance.objects.filter(tenant=actor.tenant).select_related("cluster").order_by("name")[:_SHOWN]
    resources = {mq_resource(instance.instance_id): instance for instance in mine}
    allowed = actor.allowed("mq:QueryInstance", dict.fromkeys(resources, ""), owner=actor.tenant)
    return [instance for resource, instance in resources.items() if resource in allowed]


def chosen(request: HttpRequest, instances: list[Instance]) -> Instance | None:
    """Of these the one that was chosen last, else the first."""
    wanted = request.session.get(_CHOSEN, "")
    return next((one for one in instances if one.instance_id == wanted), instances[0] if instances else None)


def may_open(actor: Actor, action: str, path: str) -> bool:
    """Whether a page of the account would let the actor in."""
    service = action.partition(":")[0]
    if service == "mq":
        return actor.decide(
            action, mq_resource(path) if path else tenant_resource(actor.tenant), owner=actor.tenant
        ).allowed
    if service == "platform":  # some of it is open to accounts that may adopt
        return actor.decide(action, platform_resource(path), owner=None).allowed
    return actor.decide(action, service_resource(service, actor.tenant, path), owner=actor.tenant).allowed


def _same_page(match: ResolverMatch | None) -> str:
    """The page shown now, of the instance in _PLACE; from the page of one topic or group, the instance's own page.

    The address is made once and not for each of hundreds of instances.
    """
    if match is not None and match.url_name and set(match.kwargs) == {"instance_id"}:
        return reverse(match.url_name, args=[_PLACE])
    return reverse("instances.detail", args=[_PLACE])
