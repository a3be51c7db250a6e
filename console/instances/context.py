"""What every page's frame shows: the instances to choose from and the chosen one."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from console.instances.models import Instance


def navigation(request: HttpRequest) -> dict[str, Any]:
    """`instances` of the tenant and the `current_instance` of the URL, if any."""
    actor = getattr(request, "actor", None)
    if actor is None:
        return {}
    instances = list(Instance.objects.filter(tenant=actor.tenant).order_by("name")[:200])
    match = request.resolver_match
    chosen = match.kwargs.get("instance_id") if match else None
    return {"instances": instances, "current_instance": next((i for i in instances if i.instance_id == chosen), None)}
