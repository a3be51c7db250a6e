"""Whether a topic's page offers its archive."""

from __future__ import annotations

from django import template

from console.archive import access
from console.topics.models import Topic

register = template.Library()


@register.simple_tag(takes_context=True)
def may_archive(context: template.Context, topic: Topic) -> bool:
    """Whether the visitor may archive the topic; nothing is recorded."""
    return access.may_archive(context["request"].actor, topic)
