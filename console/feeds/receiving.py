"""A request becomes an event that is in the database, for good, before it is answered.

With PostgreSQL a commit is on the disk, and so it is here with SQLite, which elsewhere in the console may lose the last
moments with the machine. What waits for its log is bounded by account: who sends more is told to wait.
"""

from __future__ import annotations

import uuid
from datetime import timedelta

from django.conf import settings
from django.db import connection, transaction
from django.db.models import F
from django.utils import timezone

from analytics.inflow.webhook import Request, event_of
from console.accounts.models import Tenant
from console.feeds.models import Arrival, Feed, Receipt, Waiting
from console.feeds.queries import hash_of

WINDOW = timedelta(hours=24)
"""For so long a request that is sent again is known by its idempotency key."""
LONGEST_KEY = 512
"""Characters of what tells requests that are sent again."""


class NoRoom(Exception):  # noqa: N818
    """As much of the account waits as may."""


def store(feed: Feed, request: Request, hidden: frozenset[str] = frozenset()) -> str:
    """Keep a request as an event, and return that event's ID: for one that was sent again the ID that it had.

    Raises BodyRefused, and NoRoom.
    """
    key = request.deduplication
    if key and (known := _known(feed, key)):
        return known
    now, identity = timezone.now(), str(uuid.uuid4())
    event = event_of(request, identity=identity, task=feed.name, at=now, hidden=hidden)
    _be_durable()
    with transaction.atomic():
        # First of all the account's row: who else stores waits here, and sees the key then.
        _count(feed.tenant, len(event))
        if key:
            if known := _known(feed, key):
                _count(feed.tenant, -len(event), -1)
                return known
            Receipt.objects.filter(feed=feed, key_hash=hash_of(key)).delete()
            Receipt.objects.create(feed=feed, key_hash=hash_of(key), event_id=identity, at=now)
        at_ms = int(now.timestamp() * 1000)
        Arrival.objects.create(feed=feed, event_id=identity, at_ms=at_ms, size=len(event), event=event)
    return identity


def _known(feed: Feed, key: str) -> str | None:
    since = timezone.now() - WINDOW
    return (
        Receipt.objects.filter(feed=feed, key_hash=hash_of(key), at__gte=since)
        .values_list("event_id", flat=True)
        .first()
    )


def _count(tenant: Tenant, size: int, events: int = 1) -> None:
    Waiting.objects.get_or_create(tenant=tenant)
    row = Waiting.objects.filter(tenant=tenant)
    if events > 0:
        row = row.filter(events__lt=settings.WEBHOOK_WAITING_EVENTS, bytes__lte=settings.WEBHOOK_WAITING_BYTES - size)
    if not row.update(events=F("events") + events, bytes=F("bytes") + size):
        raise NoRoom


def _be_durable() -> None:
    """The commits of this connection, which is that of one request, are on the disk when they return."""
    if connection.vendor == "sqlite" and not connection.in_atomic_block:
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA synchronous=FULL")
