"""What the visitor may do with a topic, so that no page offers what it would refuse."""

from __future__ import annotations

from django import template

from brokercore.policy import mq_resource
from console.accounts.actor import Actor
from console.topics.models import Topic

register = template.Library()


@register.simple_tag(takes_context=True)
def may(context: template.Context, action: str, topic: Topic) -> bool:
    """Whether the visitor may do `action` on the topic; nothing is recorded."""
    actor: Actor = context["request"].actor
    return actor.decide(action, mq_resource(topic.physical_name), owner=topic.instance.tenant).allowed
