"""What other pages show of alarms."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django import template
from django.urls import reverse

from console.alarms import access
from console.instances.models import Instance

register = template.Library()


@register.inclusion_tag("alarms/_watch.html", takes_context=True)
def watch(context: template.Context, condition: str, instance: Instance, name: str) -> dict[str, Any]:
    """A button that leads to a new rule about a group or topic, for who may make one in the instance's account."""
    actor = context["request"].actor
    if actor.is_platform_admin or actor.tenant.pk != instance.tenant_id or not access.may(actor, access.PUT):
        return {}
    asked = {"condition": condition, "instance": instance.instance_id, "names": name}
    return {"watch_url": f"{reverse('alarms.rule_create')}?{urlencode(asked)}"}
