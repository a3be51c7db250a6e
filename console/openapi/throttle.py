"""Limits of calls a minute, counted in Redis by the minutes of the clock.

When Redis does not answer, each process counts for itself: nobody is locked out by the outage, and nothing is open.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections import Counter

from django.conf import settings
from django.core.cache import cache
from redis.exceptions import RedisError

from console.accounts.actor import Actor
from console.openapi import envelope
from console.web.errors import Refused

log = logging.getLogger(__name__)
_WINDOW_SECONDS = 60
_KEPT_SECONDS = 2 * _WINDOW_SECONDS
LIMITS = {"status": "API_STATUS_PER_MINUTE", "query": "API_QUERIES_PER_MINUTE"}
"""The setting behind each limit that an operation can be declared with."""


def check_call(kind: str, actor: Actor) -> None:
    """Count a call of a limited kind (of LIMITS, or empty) for the caller's key. Raises Refused BIZ_THROTTLED."""
    limit = getattr(settings, LIMITS[kind]) if kind else 0
    if limit and _add(f"call:{kind}:{actor.access_key_id or actor.name}") > limit:
        message = f"More than {limit} calls of this kind a minute with one AccessKey; try again in the next minute."
        raise Refused(envelope.THROTTLED, message)


def check_address(address: str) -> None:
    """Raises Refused BIZ_THROTTLED when too many signatures from this address were refused in this minute."""
    limit = settings.API_FAILURES_PER_MINUTE
    if limit and _count(f"address:{address}") >= limit:
        message = f"More than {limit} refused signatures a minute from {address}; try again in the next minute."
        raise Refused(envelope.THROTTLED, message)


def note_failure(address: str, access_key_id: str) -> bool:
    """Count a refused signature; True when this key ID has had too many in this minute.

    That never keeps a right signature out: whoever knows a key ID could otherwise lock its owner out.
    """
    limit = settings.API_FAILURES_PER_MINUTE
    if not limit:
        return False
    _add(f"address:{address}")
    return _add(f"key:{access_key_id}") > limit


def _add(name: str) -> int:
    """Count one more in this minute; how many there are now."""
    key = _key(name)
    try:
        cache.add(key, 0, _KEPT_SECONDS)
        return int(cache.incr(key))
    except (RedisError, ValueError) as error:
        return _own.add(key, error)


def _count(name: str) -> int:
    key = _key(name)
    try:
        return int(cache.get(key, 0))
    except RedisError as error:
        log.warning("limits are counted by this process alone: %s", error)
        return _own.count(key)


def _key(name: str) -> str:
    """Digests, since callers choose key IDs; a new minute has new keys."""
    digest = hashlib.sha256(name.encode()).hexdigest()[:32]
    return f"api-limit:{int(time.time()) // _WINDOW_SECONDS}:{digest}"


class _OwnCounts:
    """The counts of this process, of the current minute only."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._minute = ""
        self._counts: Counter[str] = Counter()

    def add(self, key: str, error: Exception) -> int:
        log.warning("limits are counted by this process alone: %s", error)
        with self._lock:
            self._enter(key)
            self._counts[key] += 1
            return self._counts[key]

    def count(self, key: str) -> int:
        with self._lock:
            self._enter(key)
            return self._counts[key]

    def _enter(self, key: str) -> None:
        minute = key.split(":")[1]
        if minute != self._minute:
            self._minute, self._counts = minute, Counter()


_own = _OwnCounts()
