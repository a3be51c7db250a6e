"""When, where from and through which door each AccessKey was last used.

Key space (Redis database 0):
  gantry:acl:used  hash  AccessKey ID -> "<epoch ms> <channel> <address>"; channel broker, api or sql

The broker writes its own fields (brokercore/server/key_uses.py), the console those of the API and the SQL door.
Temporary keys are left out: they end by themselves.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import cast

import redis
from django.conf import settings
from redis.exceptions import RedisError

from console.accounts.models import AccessKey

USED = "gantry:acl:used"
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KeyUse:
    """One use: `channel` is broker, api or sql; both texts are empty for a use that only left its time."""

    at: datetime
    channel: str = ""
    address: str = ""


def note(access_key_id: str, channel: str, address: str) -> None:
    """Remember a use. That Redis does not answer is logged: it must not stop the caller's request."""
    value = f"{int(time.time() * 1000)} {channel} {address}"
    try:
        _redis(settings.REDIS_URL).hset(USED, access_key_id, value)
    except RedisError as error:
        log.warning("the last use of %s was not stored: %s", access_key_id, error)


def forget(access_key_id: str) -> None:
    """Drop what is known of a key that was deleted."""
    try:
        _redis(settings.REDIS_URL).hdel(USED, access_key_id)
    except RedisError as error:
        log.warning("the last use of %s was not dropped: %s", access_key_id, error)


def last_uses(keys: Iterable[AccessKey]) -> dict[str, KeyUse]:
    """The last use of each key that was ever used, by its id. Raises RedisError."""
    keys = list(keys)
    found = {key.access_key_id: KeyUse(key.last_used_at) for key in keys if key.last_used_at is not None}
    if not keys:
        return found
    stored = cast("list[str | None]", _redis(settings.REDIS_URL).hmget(USED, [key.access_key_id for key in keys]))
    for key, text in zip(keys, stored, strict=True):
        use = _parsed(text)
        # The database's time is up to a minute younger than a Redis that was restored from a copy.
        if use is not None and (key.last_used_at is None or use.at >= key.last_used_at.replace(microsecond=0)):
            found[key.access_key_id] = use
    return found


def known_uses(keys: Iterable[AccessKey]) -> tuple[dict[str, KeyUse], bool]:
    """The last uses, and whether they are all that there is to know: without Redis only those of API and SQL are."""
    keys = list(keys)
    try:
        return last_uses(keys), True
    except RedisError as error:
        log.warning("the last uses of AccessKeys cannot be read: %s", error)
    return {key.access_key_id: KeyUse(key.last_used_at) for key in keys if key.last_used_at is not None}, False


def _parsed(text: str | None) -> KeyUse | None:
    milliseconds, _, rest = (text or "").partition(" ")
    if not milliseconds.isdecimal():
        return None
    channel, _, address = rest.partition(" ")
    return KeyUse(datetime.fromtimestamp(int(milliseconds) / 1000, UTC), channel, address)


@lru_cache(maxsize=2)
def _redis(url: str) -> redis.Redis:
    return redis.Redis.from_url(url, db=0, socket_timeout=5, decode_responses=True)
