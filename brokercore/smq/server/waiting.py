"""Receives that wait for a message: woken by a send, by a delay that ends, and by a message that is visible again."""

from __future__ import annotations

import asyncio
import itertools
import time
from bisect import bisect_left, insort
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from operator import itemgetter
from typing import Protocol

from brokercore.smq.storage.queues import Received
from brokercore.smq.wire.messages import Delivery

_NEVER = -1


class News(Protocol):
    """Tells of what other connections, and other processes, do to a queue."""

    async def listen(self, channel: str) -> None:
        """Be told of everything on the channel that is said after this returns."""

    def leave(self, channel: str) -> None:
        """Nobody waits there any more."""


class Waiting:
    """Who waits at which queue, by the channel that its news come on."""

    def __init__(self, news: News) -> None:
        self._news = news
        self._queues: dict[str, _Queue] = {}
        self._is_ended = False

    def __len__(self) -> int:
        """How many receives wait."""
        return sum(queue.users for queue in self._queues.values())

    async def receive(
        self,
        channel: str,
        seconds: int | None,
        attempt: Callable[[], Awaitable[Received]],
        held: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> tuple[Delivery, ...]:
        """Call `attempt` until it gives messages, at most for so long; None: as long as the queue says.

        `held` is entered for as long as there is nothing and it waits; what it raises ends the receive.
        """
        queue = self._queues.get(channel)
        seen = _NEVER if queue is None else queue.version
        received = await attempt()
        seconds = received.polling_seconds if seconds is None else seconds
        if received.deliveries or seconds <= 0 or self._is_ended:
            return received.deliveries
        with held():
            deadline = asyncio.get_running_loop().time() + seconds
            if queue is None or self._queues.get(channel) is not queue:
                seen = _NEVER
                queue = self._queues.setdefault(channel, _Queue())
            queue.users += 1
            ticket = next(queue.tickets)
            try:
                queue.expect(received.due_ms)
                await self._news.listen(channel)
                while True:
                    if self._is_ended or (seen == queue.version and not await queue.changed(ticket, deadline)):
                        return ()
                    seen = queue.version
                    received = await queue.look(ticket, attempt)
                    if received.deliveries or asyncio.get_running_loop().time() >= deadline:
                        return received.deliveries
            finally:
                queue.users -= 1
                queue.leave(ticket)
                if not queue.users:
                    queue.close()
                    del self._queues[channel]
                    self._news.leave(channel)

    def tell(self, channel: str, due_ms: int = 0) -> None:
        """Something happened at the queue; `due_ms` is when a message becomes visible (epoch ms; 0: at once)."""
        queue = self._queues.get(channel)
        if queue is None:
            return
        if due_ms:
            queue.expect(due_ms)
        else:
            queue.version += 1
            queue.wake()

    def tell_all(self) -> None:
        """News may have been missed."""
        for queue in self._queues.values():
            queue.version += 1
            queue.wake()

    def end(self) -> None:
        """Nobody waits any more: who does has got no message."""
        self._is_ended = True
        for queue in self._queues.values():
            queue.end()


class _Queue:
    """Those who wait at one queue, in the order in which they came. One looks at a time, and who leaves wakes the next.

    Who finds nothing, since somebody was quicker, waits on in the same place; who looks while news come looks again.
    """

    def __init__(self) -> None:
        self.users = 0
        self.tickets = itertools.count()
        self.version = 0
        """Grows with all news, so that none is missed between a look and the wait."""
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._looking: set[int] = set()
        self._is_ended = False
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    async def look(self, ticket: int, attempt: Callable[[], Awaitable[Received]]) -> Received:
        """Try to receive, in the place of this ticket."""
        self._looking.add(ticket)
        received = await attempt()
        self._looking.discard(ticket)
        self.expect(received.due_ms)
        return received

    async def changed(self, ticket: int, deadline: float) -> bool:
        """Wait for a turn in the place of this ticket; False when the deadline (loop's time) or the end came first."""
        waiter = self._loop.create_future()
        insort(self._waiters, (ticket, waiter))
        try:
            async with asyncio.timeout_at(deadline):
                await waiter
        except TimeoutError:
            return False
        finally:
            place = bisect_left(self._waiters, ticket, key=itemgetter(0))
            if place < len(self._waiters) and self._waiters[place][0] == ticket:
                del self._waiters[place]
        return not self._is_ended

    def end(self) -> None:
        """Let everybody go."""
        self._is_ended = True
        for _, waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def leave(self, ticket: int) -> None:
        """This one does not wait any more. Where one message was there may be more, or it was its turn."""
        self._looking.discard(ticket)
        self.wake()

    def expect(self, due_ms: int) -> None:
        """A message becomes visible then (epoch ms); 0: none will."""
        if not due_ms:
            return
        at = self._loop.time() + max(0.0, due_ms / 1000 - time.time())
        if self._timer is None or at < self._timer.when():
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(at, self._due)

    def wake(self) -> None:
        """Let the one who has waited longest look, unless somebody looks who has waited longer."""
        if self._waiters and all(ticket > self._waiters[0][0] for ticket in self._looking):
            ticket, waiter = self._waiters.pop(0)
            self._looking.add(ticket)
            if not waiter.done():
                waiter.set_result(None)

    def close(self) -> None:
        """Nobody is left."""
        if self._timer is not None:
            self._timer.cancel()

    def _due(self) -> None:
        self._timer = None
        self.version += 1
        self.wake()
