"""Which AccessKeys were used of late and from where, told to the console through Redis.

Whoever replaces a key wants to know whether the old one is still in use. A key is told at its first request and then at
most once a minute, so that a request costs one comparison.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from typing import Protocol

from brokercore.server.errors import RedisError, StoreUnavailable
from brokercore.server.storage.keys import ACL_USED
from brokercore.server.storage.redis_connection import RedisConnection

logger = logging.getLogger(__name__)

AGAIN_SECONDS = 60.0
"""How long a key that was told is not told again."""

_TIMEOUT = 2.0


class Noted(Protocol):
    """What is remembered about a caller."""

    key_id: str
    noted: bool


class KeyUses:
    """The uses that Redis does not have yet, and the keys that are not noted again for a while."""

    def __init__(self, redis: RedisConnection) -> None:
        self._redis = redis
        self._fresh: list[tuple[str, str]] = []
        self._resting: deque[tuple[float, Noted]] = deque()

    def note(self, caller: Noted, address: str) -> None:
        """A request of `caller` came from `address`; nothing is sent yet."""
        caller.noted = True
        now = time.time()
        self._fresh.append((caller.key_id, f"{int(now * 1000)} broker {address}"))
        self._resting.append((now, caller))

    async def write(self) -> None:
        """Send what is new. That Redis does not answer is logged: the next use is told again in a minute."""
        before = time.time() - AGAIN_SECONDS
        while self._resting and self._resting[0][0] < before:
            self._resting.popleft()[1].noted = False
        if not self._fresh:
            return
        fresh, self._fresh = self._fresh, []
        try:
            async with asyncio.timeout(_TIMEOUT):
                await self._redis.call("HSET", ACL_USED, *(word for pair in fresh for word in pair))
        except (StoreUnavailable, RedisError, TimeoutError) as error:
            logger.warning("the last use of %d AccessKeys was not stored: %s", len(fresh), error)
