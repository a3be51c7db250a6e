"""Connections to Redis: one client a process for each kind. The library connects anew after a fork."""

from __future__ import annotations

from functools import lru_cache

import redis
from django.conf import settings


def connection(database: int = 0, *, timeout: float | None = 5, decode: bool = True) -> redis.Redis:
    """A client of one database: 0 holds messages and the table of rights, 1 Celery's, 2 the cache and hot metrics.

    `timeout` are the seconds that an answer may take, None for any time; with `decode` answers are texts, else bytes.
    """
    return _client(settings.REDIS_URL, database, timeout, decode)


@lru_cache(maxsize=8)
def _client(url: str, database: int, timeout: float | None, decode: bool) -> redis.Redis:
    return redis.Redis.from_url(url, db=database, socket_timeout=timeout, decode_responses=decode)
