"""Writes of feeds on behalf of who writes their inflow tasks, and records it there."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.db.models import F, Sum
from django.db.models.functions import Greatest
from django.utils import timezone
from django.utils.translation import gettext as _

from analytics import lake
from console.accounts.crypto import encrypt
from console.accounts.models import Tenant
from console.feeds.models import Arrival, Feed, Kind, Waiting
from console.feeds.queries import folder_of, hash_of
from console.web.errors import Refused

#: Of a token and of a key, before they are text.
_SECRET_BYTES = 32


@transaction.atomic
def keep(*, tenant: Tenant, name: str, holder: str, kind: Kind, told: Mapping[str, Any], retention_days: int) -> Feed:
    """The feed of a task, made or changed; `holder` is the task's key. A new one is paused.

    A schedule whose times have changed sends nothing that was due before. Raises Refused.
    """
    if not lake.is_folder():
        raise Refused(
            "LAKE_REMOTE",
            _("The events of this source need a lake in a folder; this one is in object storage."),
            "source.kind",
        )
    settings = json.dumps(told, sort_keys=True)
    feed = Feed.objects.select_for_update().filter(tenant=tenant, holder=holder, kind=kind, deleted_at=None).first()
    if feed is None:
        feed = Feed.objects.create(
            tenant=tenant, name=name, holder=holder, kind=kind, settings=settings, retention_days=retention_days
        )
        folder_of(feed).mkdir(parents=True, exist_ok=True)  # who reads may begin before who fills
        return feed
    times = ("cron", "timeZone")
    if [feed.told.get(one) for one in times] != [told.get(one) for one in times]:
        feed.begins_at = timezone.now()
    feed.settings, feed.retention_days = settings, retention_days
    feed.save(update_fields=["settings", "retention_days", "begins_at"])
    return feed


def pause(feed: Feed) -> None:
    """A schedule sends nothing any more; a webhook goes on."""
    Feed.objects.filter(pk=feed.pk).update(paused=True)


def resume(feed: Feed) -> None:
    """A schedule sends what is due from now on. Nothing happens to one that is not paused."""
    Feed.objects.filter(pk=feed.pk, paused=True).update(paused=False, begins_at=timezone.now())


@transaction.atomic
def delete(feed: Feed) -> None:
    """Let nothing more come in, and its log be removed."""
    Waiting.objects.filter(tenant=feed.tenant).update(events=F("events"))  # the row is this transaction's from here on
    gone = Arrival.objects.filter(feed=feed)
    size = gone.aggregate(size=Sum("size"))["size"] or 0
    count, _unused = gone.delete()
    take_off(feed.tenant, count, size)
    Feed.objects.filter(pk=feed.pk).update(deleted_at=timezone.now(), token_hash="", key_encrypted="")


def renew_token(feed: Feed) -> str:
    """A new address, whose token is told this once; the one before is nobody's any more."""
    token = secrets.token_urlsafe(_SECRET_BYTES)
    Feed.objects.filter(pk=feed.pk, deleted_at=None).update(token_hash=hash_of(token), token_at=timezone.now())
    return token


def renew_key(feed: Feed) -> str:
    """A new key for signatures, which is told this once; those by the one before are wrong."""
    key = secrets.token_urlsafe(_SECRET_BYTES)
    Feed.objects.filter(pk=feed.pk, deleted_at=None).update(key_encrypted=encrypt(key), key_at=timezone.now())
    return key


def take_off(tenant: Tenant, events: int, size: int) -> None:
    """So many do not wait any more."""
    rest = Greatest(F("events") - events, 0), Greatest(F("bytes") - size, 0)
    Waiting.objects.filter(tenant=tenant).update(events=rest[0], bytes=rest[1])
