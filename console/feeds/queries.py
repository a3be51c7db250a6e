"""Reads of feeds. The account comes first."""

from __future__ import annotations

import hashlib
from pathlib import Path

from analytics import lake
from analytics.errors import AnalyticsError
from analytics.inflow.event_reader import Range, Reader
from analytics.inflow.segments import Entry
from console.accounts.models import Tenant
from console.catalog.storage import TRACKING_BUCKET
from console.feeds.models import Feed, Kind

WEBHOOK = Kind.WEBHOOK


def feed(tenant: Tenant, name: str) -> Feed | None:
    """The feed of an inflow task; None where it has none."""
    return Feed.objects.select_related("tenant").filter(tenant=tenant, name=name, deleted_at=None).first()


def held(tenant: Tenant, holder: str) -> list[Feed]:
    """The feeds of a task, by the task's key: one at most of each kind."""
    return list(Feed.objects.select_related("tenant").filter(tenant=tenant, holder=holder, deleted_at=None))


def feed_of_token(token: str) -> Feed | None:
    """The feed whose address has this token, of an account that is enabled. One look-up, whatever the token is."""
    found = Feed.objects.select_related("tenant").filter(token_hash=hash_of(token), tenant__enabled=True)
    return found.first()


def hash_of(token: str) -> str:
    """What is kept of a token, or of an idempotency key."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def log_of(feed: Feed) -> str:
    """The folder of the lake that has its log, and nothing else."""
    return f"oss://{TRACKING_BUCKET}/{feed.tenant.uid}/{feed.feed_id}/"


def folder_of(feed: Feed) -> Path:
    """The log's folder on this machine. Raises LakeError where the lake is no folder."""
    return Path(lake.lake_path(log_of(feed)))


def range_of(feed: Feed) -> Range:
    """What is in the log now; nothing where it cannot be read."""
    try:
        with Reader(folder_of(feed)) as reader:
            return reader.range()
    except (AnalyticsError, OSError):
        return Range()


def recent(feed: Feed, most: int, most_bytes: int) -> list[Entry]:
    """The last events of the log, the newest first; none where it cannot be read."""
    try:
        with Reader(folder_of(feed)) as reader:
            return reader.tail(most, most_bytes)[::-1]
    except (AnalyticsError, OSError):
        return []
