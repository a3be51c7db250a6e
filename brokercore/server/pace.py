"""How requests with much to do share the loop: a small slice of time each, in turns, and others in between.

Everything that a client sends is answered on one loop, so whatever takes long is done in slices (docs/broker.md, "What
a request may take"). All of it together gets at most every other moment: after a slice the loop is left to the others
for as long as the slice took.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Generator, Iterable
from time import perf_counter
from typing import TypeVar

SLICE_SECONDS = 0.002
"""Time that a request may hold the loop before others have their turn."""

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


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
