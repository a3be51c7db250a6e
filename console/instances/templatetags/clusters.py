"""`{% load clusters %}`: what the brokers of a cluster cannot do, on the pages where it is missing."""

from __future__ import annotations

from django import template

from brokercore.client.admin import Capability
from console.instances import capabilities
from console.instances.models import Cluster

register = template.Library()


@register.inclusion_tag("includes/cannot.html")
def cannot(cluster: Cluster, *wanted: str) -> dict[str, list[str]]:
    """A note with a sentence for each capability (`Capability`'s words) that the brokers lack; nothing without one."""
    return {"sentences": capabilities.missing(cluster, *map(Capability, wanted))}
