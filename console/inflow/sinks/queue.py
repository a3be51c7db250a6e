"""Queues of SMQ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.utils.translation import gettext as _

from analytics.inflow import task_sinks
from analytics.inflow.task import Task
from analytics.inflow.task_sinks import MOST_DELAY, QueueSink
from brokercore.smq.client import QueueServiceUnavailable
from brokercore.smq.wire.messages import PRIORITY_DEFAULT, PRIORITY_LEAST, PRIORITY_MOST
from console.accounts.actor import Actor
from console.inflow.sinks.shape import PLAIN, Destination, Document
from console.queues import queries as queues
from console.queues.client import NOT_FOUND
from console.web.errors import Refused
from console.web.languages import gettext_lazy

_FOREIGN = ("endpoint", "accessKeyId", "accessKeySecret")


class QueueDestination(Destination):
    """Simple Message Queue."""

    kind = task_sinks.QUEUE
    title = gettext_lazy("Simple Message Queue (SMQ)")
    fields = ("sink_queue", "sink_base64", "sink_priority", "sink_delay")
    required = ("sink_queue",)
    places = {
        "queue": "sink_queue", "base64": "sink_base64", "priority": "sink_priority", "delaySeconds": "sink_delay",
    }  # fmt: skip
    hint = gettext_lazy("A message of a queue is a body and nothing else, of 64 KiB at most. A queue keeps no order.")

    def made(self, actor: Actor, sink: Document) -> dict[str, forms.Field]:
        foreign = (
            _(" At %(sink)s, with a key of its own.") % {"sink": sink.get("endpoint")}
            if sink.get("accessKeyId")
            else ""
        )
        return {
            "sink_queue": forms.CharField(
                label=_("Queue"),
                required=False,
                max_length=120,
                widget=forms.TextInput(attrs=PLAIN | {"list": "inflow-queues"}),
                help_text=foreign.strip(),
            ),
            "sink_base64": forms.BooleanField(
                label=_("Encode bodies in Base64"),
                required=False,
                help_text=_("As the vendor's clients read them unless they are told otherwise."),
            ),
            "sink_priority": forms.IntegerField(
                label=_("Priority"),
                required=False,
                min_value=PRIORITY_LEAST,
                max_value=PRIORITY_MOST,
                help_text=_("%(priority_least)s comes first, %(priority_most)s last; empty for %(priority_default)s.")
                % {
                    "priority_least": PRIORITY_LEAST,
                    "priority_most": PRIORITY_MOST,
                    "priority_default": PRIORITY_DEFAULT,
                },
            ),
            "sink_delay": forms.IntegerField(
                label=_("Delay (seconds)"),
                required=False,
                min_value=0,
                max_value=MOST_DELAY,
                help_text=_("0 to %(most_delay)s; empty for the queue's own.") % {"most_delay": f"{MOST_DELAY:,}"},
            ),
        }

    def initial(self, actor: Actor, sink: Document) -> dict[str, Any]:
        return {field: sink.get(name) for name, field in self.places.items()}

    def document(self, actor: Actor, told: Mapping[str, Any], before: Document) -> dict[str, Any]:
        found: dict[str, Any] = {"queue": told.get("sink_queue", "")}
        found |= {name: before[name] for name in _FOREIGN if name in before}
        if told.get("sink_base64"):
            found["base64"] = True
        for name, field in (("priority", "sink_priority"), ("delaySeconds", "sink_delay")):
            if told.get(field) is not None:
                found[name] = told[field]
        return found

    def require(self, actor: Actor, task: Task) -> None:
        if isinstance(task.sink, QueueSink) and not task.sink.reach:
            require_queue(actor, "sink.queue", task.sink.queue)

    def named(self, sink: Document) -> str:
        return _("queue %(sink)s") % {"sink": sink.get("queue") or ""}


def require_queue(actor: Actor, field: str, name: str) -> None:
    """Raise Refused for a queue that the account has not; whether it has one is not known while the service is away."""
    try:
        queues.queue(actor.tenant, name)
    except QueueServiceUnavailable:
        return
    except Refused as refused:
        if refused.symbol == NOT_FOUND:
            raise Refused(
                "QUEUE_NOT_FOUND", _("There is no queue %(name)s of the account's own.") % {"name": name}, field
            ) from refused
        raise
