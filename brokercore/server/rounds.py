"""How the connections of all accounts share a round of the loop.

In one round the loop looks at every connection that something came from. So that nobody makes a round long by opening
many of them, the time of a round belongs to accounts: what an account's requests may take in a round is bounded on
however many connections they come, and the rest waits in a line of that account, the accounts being served by turns.
Whoever asks for little never waits in a line (docs/broker.md, "What a request may take").
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from weakref import WeakValueDictionary

logger = logging.getLogger(__name__)

ROUND_SECONDS = 0.002
"""What the requests of one account may take in a round."""

ALONE_SECONDS = 0.006
"""The same while nobody else has asked for anything lately: long rounds cost less for each request."""

LATELY_SECONDS = 1.0
"""Who has asked for something in so long is still there."""

LARGE_BYTES = 16 << 10
"""From so many bytes on a message counts as large: it is known how many of them are on their way to Redis."""

MOST_UNSTORED_BYTES = 4 << 20
"""Bytes of large messages of one account on their way to Redis: whatever comes behind them has to wait for them."""

PART_SECONDS = 0.001
"""What one connection out of a line may take of that, before the next one has its turn."""

LINES_SECONDS = 0.004
"""What all that waited in lines take together in a round."""

FEW_SECONDS = ROUND_SECONDS / 2
"""Whoever has less than this left has its share renewed with the next round; the others need not be looked after."""


class Share:
    """What an account has left of a round, in seconds, and what of it waits for the next ones.

    A request that took longer than there was left is paid for in the following rounds.
    """

    __slots__ = ("__weakref__", "in_line", "left", "unstored", "waiting")

    def __init__(self) -> None:
        self.left = ROUND_SECONDS
        self.unstored = 0
        """Bytes of large messages that Redis has not answered yet."""
        self.waiting: deque[Callable[[], None]] = deque()
        self.in_line = False

    @property
    def is_used_up(self) -> bool:
        """Whether what comes now has to wait: for the next round, for Redis, or for others of the account."""
        return self.left <= 0 or self.unstored > MOST_UNSTORED_BYTES or bool(self.waiting)


class Rounds:
    """Renews the shares, and serves the lines at the beginning of each round."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.system = Share()
        """The share of the system key."""
        self._addresses: WeakValueDictionary[str, Share] = WeakValueDictionary()
        self._used: dict[Share, None] = {}
        self._lines: deque[Share] = deque()
        self._scheduled = False
        self.latest: Share | None = None
        """Whose request came last."""
        self._others_at = 0.0

    def others(self, share: Share, now: float) -> None:
        """A request came of somebody else than the one before, at `now` (monotonic seconds)."""
        self.latest, self._others_at = share, now

    def of_address(self, host: str) -> Share:
        """The share of all connections from an address that have not signed a request yet."""
        return self._addresses.get(host) or self._addresses.setdefault(host, Share())

    def spent(self, share: Share, seconds: float) -> None:
        """Requests have taken so long."""
        share.left -= seconds
        if share.left < FEW_SECONDS:
            self.renew(share)

    def renew(self, share: Share) -> None:
        """Little is left of a share: it is full again with the next round, unless more was spent than there was."""
        self._used[share] = None
        self._schedule()

    def stored(self, share: Share, size: int) -> None:
        """Redis has answered a large message."""
        share.unstored -= size
        if share.in_line:
            self._schedule()

    def wait(self, share: Share, go_on: Callable[[], None]) -> None:
        """Call `go_on` once it is its turn; it tells what it `spent`, and may wait again."""
        share.waiting.append(go_on)
        if share.left < FEW_SECONDS:
            self._used[share] = None
        if not share.in_line:
            share.in_line = True
            self._lines.append(share)
        self._schedule()

    async def turn(self, share: Share, seconds: float) -> None:
        """Wait until there is room for something that takes about so long."""
        if share.is_used_up:
            turn: asyncio.Future[None] = self._loop.create_future()
            self.wait(share, partial(_let, turn))
            await turn
        self.spent(share, seconds)

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._begin)

    def _begin(self) -> None:
        """A round begins."""
        self._scheduled = False
        now = time.monotonic()
        alone = now - self._others_at > LATELY_SECONDS
        full, end = (ALONE_SECONDS, now + ALONE_SECONDS) if alone else (ROUND_SECONDS, now + LINES_SECONDS)
        used, self._used = self._used, {}
        for share in used:
            share.left = min(full, share.left + full)
            if share.left < FEW_SECONDS:
                self._used[share] = None
        without_share: list[Share] = []
        while self._lines and time.monotonic() < end:
            share = self._lines.popleft()
            if share.left <= 0 or share.unstored > MOST_UNSTORED_BYTES:
                without_share.append(share)
                continue
            try:
                share.waiting.popleft()()
            except Exception:  # one peer's trouble must not keep the others waiting
                logger.exception("a request that waited failed")
            share.in_line = bool(share.waiting)
            if share.in_line:
                self._lines.append(share)
        self._lines += without_share
        if self._used or any(share.unstored <= MOST_UNSTORED_BYTES for share in self._lines):
            self._schedule()


def _let(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)
