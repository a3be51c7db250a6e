"""What the messages of all accounts take of Redis, as it was counted last."""

from __future__ import annotations

import asyncio
import logging

from brokercore.server.errors import RedisError, StoreUnavailable
from brokercore.smq.storage.queues import Queues

logger = logging.getLogger(__name__)

#: Where less room is left, the next send may be refused: a message of the largest size, bytes.
_ROOM = 64 << 10
#: Between two counts, s. Scripts count each change, too; this mends what a service of another release did not count.
_SECONDS = 15.0


class Held:
    """Bytes and messages of all accounts, and whether there is room for more."""

    def __init__(self, queues: Queues) -> None:
        self._queues = queues
        self._is_full = False
        self.bytes = self.messages = 0
        """As they were counted last: bytes of Redis, about, and messages."""

    @property
    def most_bytes(self) -> int:
        """What the messages of all accounts may take; 0: any number."""
        return self._queues.most_bytes

    async def count(self) -> None:
        """Count now. Raises RedisError and StoreUnavailable."""
        self.bytes, self.messages = await self._queues.count()
        was_full, self._is_full = self._is_full, 0 < self.most_bytes <= self.bytes + _ROOM
        if self._is_full and not was_full:
            logger.error(
                "the queues of all accounts hold %d bytes, and GANTRY_SMQ_STORE_MAX_BYTES is %d: sends are refused",
                self.bytes,
                self.most_bytes,
            )

    async def watch(self) -> None:
        """Count now and then, until cancelled."""
        while True:
            await asyncio.sleep(_SECONDS)
            try:
                await self.count()
            except (StoreUnavailable, RedisError) as error:
                logger.warning("what all accounts hold is not counted now: %s", error)
