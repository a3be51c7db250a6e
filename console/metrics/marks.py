"""What somebody did that changes what flows, as marks on an axis of time: from the audit, for who may read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

from console.accounts.actor import Actor, service_resource
from console.audit.queries import Filters, entries
from console.topics.names import apart
from console.web import zone
from console.web.languages import gettext_lazy

OFFSET_RESET = "messaging.offset.reset"
#: What moves a group, as the audit calls it, and what people do.
OF_MESSAGES = {
    OFFSET_RESET: gettext_lazy("offset reset"),
    "messaging.dead_letter.resend": gettext_lazy("dead letters sent again"),
}
OF_GROUPS = OF_MESSAGES | {
    "topics.group.create": gettext_lazy("group created"),
    "topics.group.update": gettext_lazy("group changed"),
    "topics.group.delete": gettext_lazy("group deleted"),
}
OF_TOPICS = {
    "topics.topic.create": gettext_lazy("topic created"),
    "topics.topic.update": gettext_lazy("topic changed"),
    "topics.topic.delete": gettext_lazy("topic deleted"),
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
        Mark(
            one.at.timestamp() * 1000,
            _("%(what)s by %(actor)s: %(resource)s")
            % {"what": what[one.action], "actor": one.actor, "resource": apart(one.resource)[1]},
        )
        for one in found[:_MOST]
    ]
