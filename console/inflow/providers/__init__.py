"""The kinds of sources that the console offers, by the name that a document has for each.

Another kind is a module here with a `Provider`, its entry below, and a line in `inflow.css` that shows its fields.
"""

from __future__ import annotations

from collections.abc import Mapping

from analytics.inflow import task_sources
from console.inflow.providers.changes import Changes
from console.inflow.providers.feeds import Schedules, Webhooks
from console.inflow.providers.queues import Queues
from console.inflow.providers.shape import Provider
from console.inflow.providers.topics import Topics

PROVIDERS: Mapping[str, Provider] = {one.kind: one for one in (Changes(), Topics(), Queues(), Webhooks(), Schedules())}
"""In the order in which the wizard offers them."""


def of(source: object) -> Provider:
    """That of a document's part `source`, whatever stands in it: of a kind that there is not the one of changes."""
    kind = source.get("kind") if isinstance(source, Mapping) else None
    return PROVIDERS.get(kind if isinstance(kind, str) else "", PROVIDERS[task_sources.CHANGES])
