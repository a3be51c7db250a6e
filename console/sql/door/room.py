"""Memory for large packets: one account has so much of it, and what comes beyond waits unread."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

#: Bytes of large packets of one account that are read or worked for at a time.
MOST_OF_ACCOUNT = 32 * 1024 * 1024
#: Smaller packets take none: however many connections an account has, theirs are few bytes.
LARGE = 64 * 1024


class Room:
    """What the accounts have taken, in bytes."""

    def __init__(self) -> None:
        self._taken: Counter[str] = Counter()
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def of(self, account: str, size: int) -> AsyncIterator[None]:
        """Wait until the account has room for so many bytes, and hold it."""
        size = min(size, MOST_OF_ACCOUNT)
        async with self._changed:
            await self._changed.wait_for(lambda: self._taken[account] + size <= MOST_OF_ACCOUNT)
            self._taken[account] += size
        try:
            yield
        finally:
            self._taken[account] -= size
            self._taken += Counter()  # forgets who has none
            async with self._changed:
                self._changed.notify_all()
