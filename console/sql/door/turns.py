"""Whose command is next: in a round of the event loop one of each account, however many connections it has."""

from __future__ import annotations

import asyncio
from weakref import WeakValueDictionary


class Turns:
    """A line for each account.

    Commands that a client sends without waiting for answers lie in memory when they are read: without a turn they would
    be answered one after the other, and nobody else in between.
    """

    def __init__(self) -> None:
        self._lines: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @property
    def waiting(self) -> int:
        """Accounts that wait for a turn."""
        return len(self._lines)

    async def wait(self, account: str) -> None:
        """Wait for the account's next turn, at least until all others that are ready have had theirs."""
        line = self._lines.get(account)
        if line is None:
            line = self._lines[account] = asyncio.Lock()
        async with line:
            await asyncio.sleep(0)
