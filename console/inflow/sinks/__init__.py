"""The kinds of sinks that the console offers, by the name that a document has for each.

Another kind is a module here with a `Destination`, its entry below, and a line in `inflow.css` that shows its fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _

from analytics.inflow import task_sinks
from console.inflow.sinks.endpoint import EndpointDestination
from console.inflow.sinks.queue import QueueDestination
from console.inflow.sinks.shape import Destination, Document
from console.inflow.sinks.topic import TopicDestination

DESTINATIONS: Mapping[str, Destination] = {
    one.kind: one for one in (TopicDestination(), QueueDestination(), EndpointDestination())
}
"""In the order in which the wizard offers them."""


def of(sink: Document) -> Destination:
    """That of a document's part `sink`, whatever stands in it: of a kind that there is not that of topics."""
    kind = sink.get("kind")
    return DESTINATIONS.get(kind if isinstance(kind, str) else "", DESTINATIONS[task_sinks.TOPIC])


def sink_of(document: Mapping[str, Any]) -> Document:
    """The part `sink` of a document; empty where that is none."""
    found = document.get("sink")
    return found if isinstance(found, Mapping) else {}


def dead_letters_of(document: Mapping[str, Any]) -> str:
    """What pages call the place of dead letters; empty for none."""
    if queue := document.get("deadLetterQueue"):
        return _("queue %(queue)s") % {"queue": queue}
    instance = document.get("deadLetterInstance")
    return f"{document.get('deadLetterTopic') or ''}{f' ({instance})' if instance else ''}"
