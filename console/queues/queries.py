"""Reads of queues, all from the queue service. The account comes first. Raise Refused and QueueServiceUnavailable."""

from __future__ import annotations

import binascii
from base64 import b64decode
from dataclasses import dataclass

from brokercore.smq.client import MOST_LISTED, Delivered, QueueClient
from brokercore.smq.wire.errors import Code, SmqError
from brokercore.smq.wire.queues import QueueState
from console.accounts.models import Tenant
from console.messaging import records
from console.outbox.queues import address_of
from console.queues.client import queues_of

MOST_NAMES = 10_000
"""Queues that a list knows of; nobody pages through more."""
MOST_COUNTED = 500
"""Queues of which a list asks all counters, to sort by them; of a longer one those of the shown page are asked."""


@dataclass(slots=True)
class Row:
    """A line of the list; `state` is None until it was asked for, and of a queue that went meanwhile."""

    name: str
    state: QueueState | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """The queues whose names have a text. Their states are known when `is_counted`."""

    rows: list[Row]
    is_counted: bool
    is_cut: bool
    """True when the account has more than are listed."""


@dataclass(frozen=True, slots=True)
class ShownMessage:
    """A message as a page shows it. `is_decoded` is False where Base64 was wished and the body is none."""

    delivery: Delivered
    body: records.BodyView
    preview: str
    is_decoded: bool


def endpoint(tenant: Tenant) -> str:
    """The address of an account's queues, as clients write it."""
    return address_of(tenant)


def shown(delivery: Delivered, *, decodes: bool) -> ShownMessage:
    """The message with its body as text, JSON or hexadecimal digits, whichever suits it."""
    decoded = _decoded(delivery.body) if decodes else None
    body = delivery.body if decoded is None else decoded
    return ShownMessage(delivery, records.view(body), records.preview(body, 80), decoded is not None)


def queue(tenant: Tenant, name: str) -> QueueState:
    """What a queue is and holds now."""
    with queues_of(tenant) as client:
        return client.queue(name)


def listing(tenant: Tenant, text: str = "") -> Listing:
    """The queues whose names have `text` in them, in any case, by name."""
    with queues_of(tenant) as client:
        # Names first: counters of hundreds of queues take longer than the names of thousands.
        names, marker = client.queue_names(most=MOST_LISTED)
        if len(names) <= MOST_COUNTED:
            states, _ = client.queues(most=MOST_COUNTED)
            return Listing([Row(one.name, one) for one in states if _has(one.name, text)], True, False)
        while marker and len(names) < MOST_NAMES:
            more, marker = client.queue_names(marker=marker, most=MOST_LISTED)
            names += more
        return Listing([Row(name) for name in names if _has(name, text)], False, bool(marker))


def fill(tenant: Tenant, rows: list[Row]) -> None:
    """Ask for the states of rows that have none."""
    with queues_of(tenant) as client:
        for row in rows:
            if row.state is None:
                row.state = _state(client, row.name)


def peek(tenant: Tenant, name: str, most: int) -> list[Delivered]:
    """The messages that would be received next; nothing of them changes."""
    with queues_of(tenant) as client:
        return client.peek(name, most)


def _state(client: QueueClient, name: str) -> QueueState | None:
    try:
        return client.queue(name)
    except SmqError as error:
        if error.code is Code.QUEUE_NOT_EXIST:
            return None
        raise


def _decoded(body: bytes) -> bytes | None:
    try:
        return b64decode(body, validate=True)
    except (binascii.Error, ValueError):
        return None


def _has(name: str, text: str) -> bool:
    return text.lower() in name.lower()
