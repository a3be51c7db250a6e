"""Pulls that wait for a message (long polling): each is held by its queue and looked at when something is stored."""

from __future__ import annotations

import asyncio
from typing import Protocol

from brokercore.server.storage.queue import Queue


class WaitingRequest(Protocol):
    """What waits."""

    def give_up(self) -> None:
        """Answer that there is nothing."""

    def review(self) -> bool:
        """Refuse it if a new request like it would be refused now; False when that was done."""


class WaitingPull(WaitingRequest, Protocol):
    """What waits for one queue: told to look again, or to answer with what there is."""

    queue: Queue
    timer: asyncio.TimerHandle | None

    def look(self) -> None:
        """Answer if there is something now."""


class WaitingPulls:
    """Wakes waiting pulls once per loop turn, however many messages the turn stored."""

    def __init__(self) -> None:
        self._dirty: dict[Queue, None] = {}
        self._all: dict[WaitingRequest, None] = {}

    def hold(self, pull: WaitingPull, seconds: float) -> None:
        """Let a pull wait for its queue's next message, at most so long."""
        self._all[pull] = None
        pull.queue.waiters[pull] = pull.look
        pull.timer = asyncio.get_running_loop().call_later(seconds, pull.give_up)

    def watch(self, pull: WaitingRequest) -> None:
        """Something waits by itself: it is told when the broker closes, and when rights change."""
        self._all[pull] = None

    def leave(self, pull: WaitingRequest) -> None:
        """It waits no longer."""
        self._all.pop(pull, None)

    def release_one(self, pull: WaitingPull) -> None:
        """A pull waits no longer."""
        self._all.pop(pull, None)
        pull.queue.waiters.pop(pull, None)
        if pull.timer is not None:
            pull.timer.cancel()
            pull.timer = None

    def wake(self, queue: Queue) -> None:
        """Something was stored in this queue."""
        if not self._dirty:
            asyncio.get_running_loop().call_soon(self._look)
        self._dirty[queue] = None

    def release(self) -> None:
        """Answer every waiting pull now: the broker closes."""
        for pull in list(self._all):
            pull.give_up()

    def review(self) -> None:
        """Rights, a group or a topic changed: what would be refused now waits no longer and gets no message."""
        for pull in list(self._all):
            pull.review()

    @property
    def count(self) -> int:
        """How many pulls wait."""
        return len(self._all)

    def _look(self) -> None:
        dirty, self._dirty = self._dirty, {}
        for queue in dirty:
            for look in list(queue.waiters.values()):
                look()
