"""How much one client's requests read at a time, so that what it asks for never outgrows what it takes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

MOST_READS = 16
"""Requests of one connection that read messages at a time; its others wait for their turn."""

MOST_READS_OF_ACCOUNT = 32
"""The same of all connections, and of all gRPC calls, of one account."""


def _nothing() -> None:
    """No account."""


class Reads:
    """The turns of one connection: `async with reads` waits for one, and until the client reads its answers.

    Without it a client could ask for a hundred megabytes with a few kilobytes of requests before it has read
    anything. A turn that is given back goes to the one that waits longest. `shared` gives the turns of the account
    that the connection speaks for now, None when it has none.
    """

    __slots__ = ("_running", "_shared", "_stopped", "_taken", "_waiting")

    def __init__(self, shared: Callable[[], asyncio.Semaphore | None] = _nothing) -> None:
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
