"""Turns of requests by who sends them: however many slow requests an account has, the next one's is answered.

A place is a request that Django works for, in a thread of its own. There are so many (GANTRY_WEB_PLACES), and nobody
ever has all of them: who asks gets one while it holds fewer than are free, so that room is left for whoever comes next,
and those whom nobody knows have half of all at most. The others wait in the line of their holder, and what gets free
goes round the holders. A place is held while Django works, not while a client, or a statement that runs elsewhere, is
waited for.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, Self

from console.web.request_owners import Holder

_current: ContextVar[Turn | None] = ContextVar("turn", default=None)


class TooManyWaiting(Exception):  # noqa: N818
    """As many requests of the holder wait as may."""


class Turns:
    """The places of one process, and the lines before them. Belongs to the loop in which it is asked."""

    def __init__(self, places: int, waiting: int) -> None:
        self._places = places
        self._most_waiting = waiting
        self._held: Counter[Holder] = Counter()
        self._all = self._strangers = 0
        #: In the order in which they get what gets free; only those who wait are in it.
        self._lines: OrderedDict[Holder, deque[asyncio.Future[None]]] = OrderedDict()

    def ask(self, holder: Holder, *, bounded: bool = True) -> asyncio.Future[None] | None:
        """A place for `holder`: None when it has it, else what is done once it has.

        Raises TooManyWaiting if `bounded`.
        """
        line = self._lines.get(holder)
        if line is None and self._may(holder):
            self._give(holder)
            return None
        if bounded and line is not None and len(line) >= self._most_waiting:
            raise TooManyWaiting
        turn = asyncio.get_running_loop().create_future()
        self._lines.setdefault(holder, deque()).append(turn)
        return turn

    def leave(self, holder: Holder, turn: asyncio.Future[None]) -> None:
        """Whoever waited for `turn` does not want it any more, or cannot use it."""
        if turn.done() and not turn.cancelled():
            return self.release(holder)
        turn.cancel()
        line = self._lines.get(holder)
        if line is not None and turn in line:
            line.remove(turn)
            if not line:
                del self._lines[holder]

    def release(self, holder: Holder) -> None:
        """A place of `holder` is free; whoever is next has it at once."""
        self._held[holder] -= 1
        if not self._held[holder]:
            del self._held[holder]
        self._all -= 1
        self._strangers -= not holder.known
        while (following := self._next()) is not None:
            self._give(following)
            line = self._lines[following]
            turn = line.popleft()
            if line:
                self._lines.move_to_end(following)
            else:
                del self._lines[following]
            turn.set_result(None)

    def _next(self) -> Holder | None:
        if self._all >= self._places:
            return None
        return next((holder for holder in self._lines if self._may(holder)), None)

    def _may(self, holder: Holder) -> bool:
        if not holder.known and self._strangers >= self._places // 2:
            return False
        return self._held[holder] < self._places - self._all

    def _give(self, holder: Holder) -> None:
        self._held[holder] += 1
        self._all += 1
        self._strangers += not holder.known


class Turn:
    """The place of one request."""

    def __init__(self, turns: Turns, longest_s: float) -> None:
        self._turns = turns
        self._longest_s = longest_s
        self._holder: Holder | None = None
        self._has_it = False
        self._loop = asyncio.get_running_loop()

    async def acquire(self, holder: Holder, leaves: Callable[[], asyncio.Future[Any]]) -> bool:
        """Wait for a place for `holder`, and no longer than until the client `leaves`: then False.

        Raises TooManyWaiting, also when that takes too long.
        """
        turn = self._turns.ask(holder)
        if turn is not None:
            left = leaves()
            await self._wait(holder, turn, left, longest_s=self._longest_s)
            if not turn.done():
                self._turns.leave(holder, turn)
                if left.done():
                    return False
                raise TooManyWaiting
        self._holder, self._has_it = holder, True
        return True

    def release(self) -> None:
        """Somebody else is waited for. Also when there is no place that could be given back."""
        if self._holder is not None and self._has_it:
            self._has_it = False
            self._turns.release(self._holder)

    async def reacquire(self) -> None:
        """Django goes on: wait for a place, however many do. Not for a request that has never had one, or has ended."""
        holder = self._holder
        if holder is None or self._has_it:
            return
        turn = self._turns.ask(holder, bounded=False)
        if turn is not None:
            await self._wait(holder, turn)
        self._has_it = True
        if self._holder is None:
            self._has_it = False
            self._turns.release(holder)

    def end(self) -> None:
        """The request has ended."""
        self.release()
        self._holder = None

    async def _wait(self, holder: Holder, *turn_and_left: asyncio.Future[Any], longest_s: float | None = None) -> None:
        try:
            await asyncio.wait(turn_and_left, timeout=longest_s, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._turns.leave(holder, turn_and_left[0])
            raise

    def __enter__(self) -> Self:
        """The turn of what is done within; it has no place yet."""
        self._token = _current.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)
        del self._token  # it leads back here
        self.end()

    @contextmanager
    def _aside(self) -> Iterator[None]:
        self._loop.call_soon_threadsafe(self.release)
        try:
            yield
        finally:
            asyncio.run_coroutine_threadsafe(self.reacquire(), self._loop).result()


@contextmanager
def aside() -> Iterator[None]:
    """What is done within only waits: others may have the place of this request meanwhile. For the request's thread."""
    turn = _current.get()
    with turn._aside() if turn is not None else nullcontext():
        yield


def rest() -> None:
    """What follows only waits, on the loop: others may have the place of this request until it goes on."""
    turn = _current.get()
    if turn is not None:
        turn.release()


async def go_on() -> None:
    """Wait for a place again after a rest, however many do."""
    turn = _current.get()
    if turn is not None:
        await turn.reacquire()
