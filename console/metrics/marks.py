"""What somebody did that changes what flows, as marks on an axis of time: from the audit, for who may read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from console.accounts.actor import Actor, service_resource
from console.audit.queries import Filters, entries
from console.topics.names import apart
from console.web import zone

OFFSET_RESET = "messaging.offset.reset"
#: What moves a group, as the audit calls it, and what people do.
OF_MESSAGES = {OFFSET_RESET: "offset reset", "messaging.dead_letter.resend": "dead letters sent again"}
OF_GROUPS = OF_MESSAGES | {
    "topics.group.create": "group created",
    "topics.group.update": "group changed",
    "topics.group.delete": "group deleted",
}
OF_TOPICS = {
    "topics.topic.create": "topic created",
    "topics.topic.update": "topic changed",
    "topics.topic.delete": "topic deleted",
}
_MOST = 20


@dataclass(frozen=True)
class Mark:
    """What was done, by whom and to what, at a moment in epoch ms."""

    at_ms: float
    text: str


def marks(
    actor: Actor,
    begin_ms: int,
    end_ms: int,
    what: Mapping[str, str] = OF_MESSAGES,
    *,
    resources: Sequence[str] | None = None,
) -> list[Mark]:
    """The latest of these actions that succeeded within a range of time, of the actor's account, latest first.

    Of these resources (physical names) alone, where some are given; they are told without their namespace.
    Empty for who may not read the audit.
    """
    trail = service_resource("actiontrail", actor.tenant)
    if not actor.decide("actiontrail:Read", trail, owner=actor.tenant).allowed:
        return []
    found = entries(actor.tenant, Filters(begin=zone.local(begin_ms), end=zone.local(end_ms)))
    found = found.filter(action__in=what, result="success")
    if resources is not None:
        found = found.filter(resource__in=resources)
    return [
        Mark(one.at.timestamp() * 1000, f"{what[one.action]} by {one.actor}: {apart(one.resource)[1]}")
        for one in found[:_MOST]
    ]
