"""How clients share the loop, so that none keeps another one waiting.

Everything that a client sends is answered on one loop, which is shared in three ways (docs/operate/broker.md, "What a
request may take"):

`Rounds` shares a round of the loop among accounts. In one round the loop looks at every connection that something came
from. So that nobody makes a round long by opening many of them, the time of a round belongs to accounts: what an
account's requests may take in a round is bounded on however many connections they come, and the rest waits in a line of
that account, the accounts being served by turns. Whoever asks for little never waits in a line.

`Pace` gives a request with much to do a small slice of time each, in turns, and others in between. All of these
together get at most every other moment: after a slice the loop is left to the others for as long as the slice took.

`Reads` bounds how much one client's requests read at a time, so that what it asks for never outgrows what it takes.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator, Iterable
from functools import partial
from time import perf_counter
from typing import TypeVar
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

SLICE_SECONDS = 0.002
"""Time that a request may hold the loop before others have their turn."""

MOST_READS = 16
"""Requests of one connection that read messages at a time; its others wait for their turn."""

MOST_READS_OF_ACCOUNT = 32
"""The same of all connections, and of all gRPC calls, of one account."""

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


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


def at_once(steps: Generator[None, None, _Result]) -> _Result:
    """What small work leads to, without rests."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


class Work:
    """What one request has to do: it looks at `is_over` again and again, and rests whenever that is true."""

    __slots__ = ("_account", "_began", "_pace", "deadline")

    def __init__(self, pace: Pace, account: object, deadline: float) -> None:
        self._pace, self._account = pace, account
        self._began = perf_counter()
        self.deadline = deadline
        """Moment of the performance counter at which the slice ends; 0 before the first one."""

    @property
    def is_over(self) -> bool:
        """True when the slice is used up."""
        return perf_counter() >= self.deadline

    async def rest(self) -> None:
        """Leave the loop to others, until there is another slice."""
        self.end()
        await self._pace.turn_of(self._account)
        self._began = perf_counter()
        self.deadline = self._began + SLICE_SECONDS

    def end(self) -> None:
        """The request has done its part: its time is counted, so that many small parts are no way around a slice."""
        if self.deadline:
            self._pace.spent(perf_counter() - self._began)
            self.deadline = 0.0

    async def through(self, steps: Generator[None, None, _Result]) -> _Result:
        """What work of many small steps leads to, with rests between them."""
        while True:
            if perf_counter() >= self.deadline:
                await self.rest()
            try:
                next(steps)
            except StopIteration as end:
                self.end()
                return end.value  # type: ignore[no-any-return]

    async def over(self, items: Iterable[_Item]) -> AsyncGenerator[_Item]:
        """The items one by one, with rests between them."""
        for item in items:
            if perf_counter() >= self.deadline:
                await self.rest()
            yield item
        self.end()


class Pace:
    """Deals out slices, the accounts that want one by turns."""

    def __init__(self) -> None:
        self._free_at = 0.0
        self._waiting: dict[object, deque[asyncio.Future[None]]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def work(self, account: object) -> Work:
        """The work of a request of this account. It has its first slice at once, unless there is much to do anyhow."""
        now = perf_counter()
        return Work(self, account, now + SLICE_SECONDS if now >= self._free_at and not self._waiting else 0.0)

    def spent(self, seconds: float) -> None:
        """The loop was held for so long: the next slice begins after as long a pause."""
        self._free_at = max(self._free_at, perf_counter()) + seconds

    async def turn_of(self, account: object) -> None:
        """Wait until it is this account's turn."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(account, deque()).append(turn)
        if self._timer is None:
            self._set_timer()
        await turn

    def _set_timer(self) -> None:
        pause = max(0.0, self._free_at - perf_counter())
        self._timer = asyncio.get_running_loop().call_later(pause, self._deal)

    def _deal(self) -> None:
        """One slice for whoever has waited longest; its account then stands at the end of the line."""
        self._timer = None
        while self._waiting:
            account, turns = next(iter(self._waiting.items()))
            del self._waiting[account]
            turn = turns.popleft()
            if turns:
                self._waiting[account] = turns
            if not turn.done():
                turn.set_result(None)
                self._free_at = max(self._free_at, perf_counter() + SLICE_SECONDS)
                break
        if self._waiting:
            self._set_timer()


def _nobody() -> None:
    """No account."""


class Reads:
    """The turns of one connection: `async with reads` waits for one, and until the client reads its answers.

    Without it a client could ask for a hundred megabytes with a few kilobytes of requests before it has read
    anything. A turn that is given back goes to the one that waits longest. `shared` gives the turns of the account
    that the connection speaks for now, None when it has none.
    """

    __slots__ = ("_running", "_shared", "_stopped", "_taken", "_waiting")

    def __init__(self, shared: Callable[[], asyncio.Semaphore | None] = _nobody) -> None:
        self._shared = shared
        self._taken: deque[asyncio.Semaphore | None] = deque()
        self._running = 0
        self._stopped = False
        self._waiting: deque[asyncio.Future[None]] | None = None

    @property
    def is_free(self) -> bool:
        """Whether one more may read now."""
        return not self._stopped and self._running < MOST_READS

    def stop(self) -> None:
        """The client has not read its answers: nobody begins to read more."""
        self._stopped = True

    def go_on(self) -> None:
        """The client has read them, or is gone."""
        self._stopped = False
        self._hand_on()

    async def __aenter__(self) -> None:
        await self._turn()
        shared = self._shared()
        if shared is not None:
            try:
                await shared.acquire()
            except BaseException:
                self._give_back()
                raise
        self._taken.append(shared)

    async def _turn(self) -> None:
        if self.is_free and not self._waiting:
            self._running += 1
            return
        if self._waiting is None:
            self._waiting = deque()
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give_back()
            raise

    async def __aexit__(self, *_error: object) -> None:
        shared = self._taken.popleft()  # whose it is does not matter: as many are given back as were taken
        if shared is not None:
            shared.release()
        self._give_back()

    def _give_back(self) -> None:
        self._running -= 1
        self._hand_on()

    def _hand_on(self) -> None:
        while self._waiting and self.is_free:
            turn = self._waiting.popleft()
            if not turn.done():
                self._running += 1
                turn.set_result(None)
