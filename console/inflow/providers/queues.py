"""Messages of a queue of the queue service, which are deleted once they are delivered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.utils.translation import gettext as _

from analytics.inflow import task_sources
from analytics.inflow.messages import QueueEvents
from analytics.inflow.task import Task
from analytics.inflow.transform import Event
from brokercore.smq.client import Delivered
from console.accounts.actor import Actor
from console.inflow.providers.shape import PLAIN, Document, Provider, Recent
from console.inflow.providers.topics import written_as
from console.inflow.sample_events import RECENT
from console.inflow.sinks.queue import require_queue
from console.queues import access, queries
from console.web.errors import Refused
from console.web.languages import gettext_lazy

PEEK, RECEIVE = "mns:PeekMessage", "mns:ReceiveMessage"
_SAMPLE = Delivered("5F290C926D472878-2-14D9529A8FA-200000001", b'{"n": 7}', 8, 1, 1_768_465_800_120, 1_768_465_801_000)
_REACH = ("endpoint", "accessKeyId", "accessKeySecret")


class Queues(Provider):
    """Simple Message Queue."""

    kind = task_sources.QUEUE
    title = gettext_lazy("Simple Message Queue (SMQ)")
    fields = ("source_queue", "source_base64", "source_format")
    required = ("source_queue",)
    places = {"queue": "source_queue", "format": "source_format", "base64": "source_base64"}

    def made(self, actor: Actor, source: Document) -> dict[str, forms.Field]:
        elsewhere = (
            _(" It is at %(endpoint)s, read with a key of its own.") % {"endpoint": source["endpoint"]}
            if source.get("accessKeyId")
            else ""
        )
        return {
            "source_queue": forms.CharField(
                label=_("Queue name"),
                max_length=120,
                required=False,
                widget=forms.TextInput(attrs=PLAIN | {"list": "inflow-queues"}),
                help_text=_("Its messages are deleted once they are delivered.%(elsewhere)s")
                % {"elsewhere": elsewhere},
            ),
            "source_base64": forms.BooleanField(
                label=_("Base64 decoding: bodies are Base64, as the vendor's SDKs send them"), required=False
            ),
        }

    def initial(self, source: Document) -> dict[str, Any]:
        return {
            "source_queue": source.get("queue"),
            "source_base64": source.get("base64") is True,
            "source_format": written_as(source),
        }

    def document(self, told: Mapping[str, Any], before: Document) -> dict[str, Any]:
        found = {"queue": told.get("source_queue"), "format": told.get("source_format")}
        found |= {name: before[name] for name in _REACH if before.get("accessKeyId") and name in before}
        if told.get("source_base64"):
            found["base64"] = True
        return {name: value for name, value in found.items() if value not in (None, "")}

    def require(self, actor: Actor, task: Task, before: Document | None) -> None:
        """The queue is there, if it is one of the account's."""
        if task.source.get("accessKeyId") is not None:
            return
        name = str(task.source.get("queue"))
        access.require_queue(actor, RECEIVE, name)
        require_queue(actor, "source.queue", name)

    def named(self, source: Document) -> str:
        return str(source.get("queue") or "")

    def recent(self, actor: Actor, source: Document) -> Sequence[Recent]:
        """What would be received next from the account's queue, for who may peek at it."""
        name = str(source.get("queue") or "")
        if source.get("accessKeyId") or not name or not access.may(actor, PEEK, name):
            return ()
        try:
            found = queries.peek(actor.tenant, name, RECENT)
        except Refused:
            return ()
        made = _events(source)
        return [Recent(number, one.enqueued_ms, made.event(one), one.id) for number, one in enumerate(found)]

    def example(self, source: Document) -> Event:
        return QueueEvents(str(source.get("queue") or "orders"), written_as(source)).event(_SAMPLE)


def _events(source: Document) -> QueueEvents:
    return QueueEvents(str(source["queue"]), written_as(source), unwraps=source.get("base64") is True)
