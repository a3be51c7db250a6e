"""Topics of RocketMQ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.utils.translation import gettext as _

from analytics.inflow import task_sinks
from analytics.inflow.fields import METHODS
from analytics.inflow.task import Task
from analytics.inflow.task_sinks import TopicSink
from brokercore.names import wrap
from console.accounts.actor import Actor
from console.inflow import offers
from console.inflow.sinks.shape import PLAIN, Destination, Document
from console.pipelines import starts
from console.topics.models import OrderType
from console.web.errors import Refused
from console.web.languages import gettext_lazy

_FOREIGN = ("ordered", "endpoint", "instanceID", "accessId", "accessKey", "producerGroup")


class TopicDestination(Destination):
    """ApsaraMQ for RocketMQ."""

    kind = task_sinks.TOPIC
    title = gettext_lazy("ApsaraMQ for RocketMQ")
    fields = ("instance", "topic", "routes")
    required = ("topic",)
    parts = tuple(METHODS)
    places = {"topic": "topic", "instanceID": "instance"}
    hint = gettext_lazy("To a topic that keeps an order, changes of one primary key are sent in their order.")

    def made(self, actor: Actor, sink: Document) -> dict[str, forms.Field]:
        offered = offers.instances(actor)
        if sink.get("accessId"):
            offered = [("", _("%(sink)s, with a key of its own") % {"sink": sink.get("endpoint", "")}), *offered]
        return {
            "instance": forms.ChoiceField(label=_("Instance"), required=False, choices=offered),
            "topic": forms.CharField(
                label=_("Topic"),
                required=False,
                max_length=127,
                widget=forms.TextInput(attrs=PLAIN | {"list": "inflow-topics"}),
            ),
            "routes": forms.CharField(
                label=_("Other topics"),
                required=False,
                max_length=8 * 1024,
                widget=forms.TextInput(attrs=PLAIN),
                help_text=_(
                    "Of the same instance, separated by commas. An event may go to one of them by its field "
                    "gantrytopic."
                ),
            ),
        }

    def initial(self, actor: Actor, sink: Document) -> dict[str, Any]:
        instance = sink.get("instanceID", "")
        if sink and not instance and not sink.get("accessId"):
            instance = offers.instance_of(actor, "", str(sink.get("topic") or ""))
        return {"instance": instance, "topic": sink.get("topic"), "routes": ", ".join(sink.get("routes", ()))}

    def document(self, actor: Actor, told: Mapping[str, Any], before: Document) -> dict[str, Any]:
        topic, instance = told.get("topic", ""), told.get("instance", "")
        found: dict[str, Any] = {"topic": topic}
        if before.get("accessId") and not instance:
            found |= {name: before[name] for name in _FOREIGN if name in before}
        else:
            if namespace := offers.namespace_of(actor, instance):
                found["instanceID"] = namespace
            if offers.is_ordered(actor, instance, topic):
                found["ordered"] = True
        if routes := [name for one in told.get("routes", "").split(",") if (name := one.strip())]:
            found["routes"] = routes
        return found

    def require(self, actor: Actor, task: Task) -> None:
        """Topics take messages of one kind. Of a topic of another cluster nothing is known."""
        sink = task.sink
        if isinstance(sink, TopicSink) and "accessId" not in sink.reach:
            namespace = sink.reach.get("instanceID", "")
            require_kind(actor, "sink.topic", wrap(namespace, sink.topic), ordered=sink.is_ordered)
            if task.dead_letters.topic:
                require_kind(actor, "deadLetterTopic", wrap(namespace, task.dead_letters.topic))

    def named(self, sink: Document) -> str:
        return str(sink.get("topic") or "")


def require_kind(actor: Actor, field: str, physical_name: str, *, ordered: bool = False) -> None:
    """Raise Refused for a topic that takes no messages of this kind; `field` is the place that names it."""
    topic = starts.find_topic(actor, physical_name)
    if topic is None:
        return
    kind = OrderType(topic.order_type)
    if (kind in offers.ORDERED) != ordered or kind in (OrderType.TRANSACTIONAL, OrderType.DELAYED):
        text = (
            _(
                "The topic %(topic)s is of the kind %(kind)s; an ordered one, as the task keeps the order of keys, is "
                "needed."
            )
            if ordered
            else _("The topic %(topic)s is of the kind %(kind)s; one of the kind Normal is needed.")
        )
        raise Refused("TOPIC_OF_OTHER_KIND", text % {"topic": topic.name, "kind": kind.label}, field)
