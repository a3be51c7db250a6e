"""Changes of queues and their messages, each written down. Raise Refused and QueueServiceUnavailable."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping

from django.utils.translation import gettext as _

from brokercore.smq.client import Delivered
from brokercore.smq.wire.messages import Sent
from brokercore.smq.wire.queues import LOGGING, RANGES
from console.accounts.actor import Actor
from console.audit import record as audit
from console.queues import access
from console.queues.client import FIELD, GONE, queues_of, refusal
from console.web.errors import Refused

WAIT_SECONDS = 10
"""How long a receive by hand may wait: a page's request is held so long."""


def create_queue(*, actor: Actor, name: str, attributes: Mapping[str, int]) -> bool:
    """Make a queue; what is not named has its default. False when it was there with the same attributes."""
    checked = _checked(attributes)
    with queues_of(actor.tenant) as client:
        made = client.create_queue(name, checked)
    if made:
        audit.record(actor, "queues.queue.create", _resource(actor, name), detail=checked)
    return made


def set_attributes(*, actor: Actor, name: str, attributes: Mapping[str, int]) -> None:
    """Change attributes of a queue; what is not named stays."""
    checked = _checked(attributes)
    with queues_of(actor.tenant) as client:
        client.set_attributes(name, checked)
    audit.record(actor, "queues.queue.update", _resource(actor, name), detail=checked)


def delete_queue(*, actor: Actor, name: str) -> None:
    """Delete a queue with all that is in it."""
    with queues_of(actor.tenant) as client:
        client.queue(name)
        client.delete_queue(name)
    audit.record(actor, "queues.queue.delete", _resource(actor, name))


def send_message(
    *,
    actor: Actor,
    name: str,
    body: str,
    delay_s: int | None = None,
    priority: int | None = None,
    as_base64: bool = False,
) -> Sent:
    """Send a text; as Base64 for consumers that decode it, as the vendor's SDKs for Java and Python do."""
    data = body.encode()
    with queues_of(actor.tenant) as client:
        sent = client.send(name, b64encode(data) if as_base64 else data, delay_s=delay_s, priority=priority)
    audit.record(actor, "queues.message.send", _resource(actor, name), detail={"message_id": sent.id})
    return sent


def receive_messages(*, actor: Actor, name: str, most: int = 1, wait_s: int = 0) -> list[Delivered]:
    """Receive up to 16 messages: other consumers do not see them until their visibility timeout ends."""
    if not 0 <= wait_s <= WAIT_SECONDS:
        raise Refused(
            FIELD,
            _("The wait is %(wait_s)s s; allowed are 0 to %(wait_seconds)s.")
            % {"wait_s": wait_s, "wait_seconds": WAIT_SECONDS},
            "wait_s",
        )
    with queues_of(actor.tenant) as client:
        found = client.receive(name, most, wait_s)
    if found:
        ids = [one.id for one in found]
        audit.record(actor, "queues.message.receive", _resource(actor, name), detail={"message_ids": ids})
    return found


def hide_message(*, actor: Actor, name: str, handle: str, seconds: int) -> tuple[str, int]:
    """Hide a received message for so long from now on; its new handle, and when it is visible again (epoch ms)."""
    with queues_of(actor.tenant) as client:
        hidden = client.hide(name, handle, seconds)
    audit.record(actor, "queues.message.hide", _resource(actor, name), detail={"seconds": seconds})
    return hidden


def delete_message(*, actor: Actor, name: str, handle: str) -> None:
    """Delete a received message. Raises Refused when its handle has ended."""
    if not handle:
        raise Refused(GONE, _("The receipt handle is missing."), "handle")
    with queues_of(actor.tenant) as client:
        refused = client.delete(name, [handle])
    for _unused, why in refused:
        raise refusal(why)
    audit.record(actor, "queues.message.delete", _resource(actor, name))


def _checked(attributes: Mapping[str, int]) -> dict[str, int]:
    """The attributes, each in its range. Raises Refused."""
    for name, value in attributes.items():
        allowed = RANGES.get(name)
        if allowed is None and name != LOGGING:
            raise Refused(FIELD, _("There is no attribute %(name)s.") % {"name": name}, name)
        if allowed is not None and not allowed.least <= value <= allowed.most:
            raise Refused(
                FIELD,
                _("%(name)s is %(value)s; allowed are %(least)s to %(most)s.")
                % {"name": name, "value": value, "least": allowed.least, "most": allowed.most},
                name,
            )
    return dict(attributes)


def _resource(actor: Actor, name: str) -> str:
    return access.resource(actor.tenant, "", name)
