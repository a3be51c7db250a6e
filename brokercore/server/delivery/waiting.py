"""Pulls that wait for a message (long polling): each is held by its queue and looked at when something is stored."""

from __future__ import annotations

import asyncio
from collections import deque
from time import perf_counter
from typing import Protocol

from brokercore.server.connections.fairness import SLICE_SECONDS
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
    """Wakes waiting pulls once per loop turn, however many messages the turn stored.

    Of many that wait for one queue a turn looks at some, the next turn at the others.
    """

    def __init__(self) -> None:
        self._dirty: dict[Queue, None] = {}
        self._woken: deque[tuple[Queue, object]] = deque()
        self._all: dict[WaitingRequest, None] = {}
        self._unreviewed: dict[WaitingRequest, None] = {}
        self._scheduled = False

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
        self._unreviewed.pop(pull, None)

    def release_one(self, pull: WaitingPull) -> None:
        """A pull waits no longer."""
        self._all.pop(pull, None)
        self._unreviewed.pop(pull, None)
        pull.queue.waiters.pop(pull, None)
        if pull.timer is not None:
            pull.timer.cancel()
            pull.timer = None

    def wake(self, queue: Queue) -> None:
        """Something was stored in this queue."""
        self._dirty[queue] = None
        self._schedule()

    def release(self) -> None:
        """Answer every waiting pull now: the broker closes."""
        for pull in list(self._all):
            pull.give_up()

    def review(self) -> None:
        """Rights, a group or a topic changed: what would be refused now waits no longer and gets no message."""
        self._unreviewed = dict(self._all)
        self._look()

    @property
    def count(self) -> int:
        """How many pulls wait."""
        return len(self._all)

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._look_again)

    def _look_again(self) -> None:
        self._scheduled = False
        self._look()

    def _look(self) -> None:
        """Review what has to be, then wake whom there is something for, as far as a slice goes."""
        end = perf_counter() + SLICE_SECONDS
        dirty, self._dirty = self._dirty, {}
        for queue in dirty:
            self._woken += [(queue, waiter) for waiter in queue.waiters]
        while self._unreviewed or self._woken:
            if self._unreviewed:
                waiter = self._unreviewed.popitem()[0]
                if waiter in self._all:
                    waiter.review()
            else:
                self._wake_next()
            if perf_counter() >= end:
                break
        if self._unreviewed or self._woken:
            self._schedule()

    def _wake_next(self) -> None:
        queue, waiter = self._woken.popleft()
        look = queue.waiters.get(waiter)  # None: it waits no longer
        if look is not None:
            look()
