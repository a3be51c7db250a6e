"""Queues of SMQ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms

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

_FOREIGN = ("endpoint", "accessKeyId", "accessKeySecret")


class QueueDestination(Destination):
    """Simple Message Queue."""

    kind = task_sinks.QUEUE
    title = "Simple Message Queue (SMQ)"
    fields = ("sink_queue", "sink_base64", "sink_priority", "sink_delay")
    required = ("sink_queue",)
    places = {
        "queue": "sink_queue", "base64": "sink_base64", "priority": "sink_priority", "delaySeconds": "sink_delay",
    }  # fmt: skip
    hint = "A message of a queue is a body and nothing else, of 64 KiB at most. A queue keeps no order."

    def made(self, actor: Actor, sink: Document) -> dict[str, forms.Field]:
        foreign = f" At {sink.get('endpoint')}, with a key of its own." if sink.get("accessKeyId") else ""
        return {
            "sink_queue": forms.CharField(
                label="Queue",
                required=False,
                max_length=120,
                widget=forms.TextInput(attrs=PLAIN | {"list": "inflow-queues"}),
                help_text=foreign.strip(),
            ),
            "sink_base64": forms.BooleanField(
                label="Encode bodies in Base64",
                required=False,
                help_text="As the vendor's clients read them unless they are told otherwise.",
            ),
            "sink_priority": forms.IntegerField(
                label="Priority",
                required=False,
                min_value=PRIORITY_LEAST,
                max_value=PRIORITY_MOST,
                help_text=f"{PRIORITY_LEAST} comes first, {PRIORITY_MOST} last; empty for {PRIORITY_DEFAULT}.",
            ),
            "sink_delay": forms.IntegerField(
                label="Delay (seconds)",
                required=False,
                min_value=0,
                max_value=MOST_DELAY,
                help_text=f"0 to {MOST_DELAY:,}; empty for the queue's own.",
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
        return f"queue {sink.get('queue') or ''}"


def require_queue(actor: Actor, field: str, name: str) -> None:
    """Raise Refused for a queue that the account has not; whether it has one is not known while the service is away."""
    try:
        queues.queue(actor.tenant, name)
    except QueueServiceUnavailable:
        return
    except Refused as refused:
        if refused.symbol == NOT_FOUND:
            raise Refused("QUEUE_NOT_FOUND", f"There is no queue {name} of the account's own.", field) from refused
        raise
