"""Writes back to Redis what is in memory and not there: what it lost in a crash, or refused when it was full."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from itertools import islice

from brokercore.server.errors import RedisError
from brokercore.server.storage.redis_connection import RedisConnection

logger = logging.getLogger(__name__)

_AT_ONCE = 500


async def mend_hash(redis: RedisConnection, key: str, wanted: Mapping[bytes, bytes]) -> None:
    """Make a hash equal to `wanted`, which nearly always it is already. Raises StoreUnavailable.

    What Redis refuses (full memory or disk) is logged: it serves consumers all the same.
    """
    table: list[bytes] = await redis.call("HGETALL", key)
    stored = dict(zip(table[::2], table[1::2], strict=True))
    missing = {name: value for name, value in wanted.items() if stored.get(name) != value}
    surplus = [name for name in stored if name not in wanted]
    if not missing and not surplus:
        return
    logger.warning("redis: %d fields of %s are written again, %d removed", len(missing), key, len(surplus))
    try:
        for some in _chunks(missing):
            await redis.call("HSET", key, *[word for name in some for word in (name, missing[name])])
        for some in _chunks(surplus):
            await redis.call("HDEL", key, *some)
    except RedisError as error:
        logger.warning("redis: %s cannot be mended: %s", key, error)


def _chunks(names: Mapping[bytes, bytes] | list[bytes]) -> Iterator[list[bytes]]:
    iterator = iter(names)
    while some := list(islice(iterator, _AT_ONCE)):
        yield some
