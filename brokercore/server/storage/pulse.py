"""Notices a Redis that is there and does not answer: frozen, stuck on its disk, or behind a broken network."""

from __future__ import annotations

import asyncio
from typing import Protocol

INTERVAL = 0.25
"""Seconds between two looks."""

HANG_SECONDS = 2.0
"""A command without an answer for so long: Redis hangs, and nothing more is given to it until it answers."""

GONE_SECONDS = 30.0
"""After so long the connection is given up. TCP would hold on to a machine that vanished for a quarter of an hour."""

_BEAT_SECONDS = 1.0
"""A connection with nothing to do asks so often, so that a silent end is seen, and Redis sees that we are there."""


class Watched(Protocol):
    """A connection that is looked at."""

    connected: bool
    hangs: bool

    @property
    def oldest(self) -> object:
        """The command that has waited longest for its answer; None when none waits."""

    def beat(self) -> None:
        """Ask something that any Redis answers."""

    def reset(self, reason: str) -> None:
        """Give the connection up and open another one."""


class Pulse:
    """Looks at the oldest unanswered command of a connection; the hot path pays nothing for it.

    Time is counted in looks: while the broker itself is frozen no time passes here, or it would take its own
    absence for that of Redis.
    """

    def __init__(self, connection: Watched, loop: asyncio.AbstractEventLoop) -> None:
        self._connection, self._loop = connection, loop
        self._oldest: object = None
        self._timer: asyncio.TimerHandle | None = None
        self._idle = 0.0
        self.silent_seconds = 0.0

    def start(self) -> None:
        """Look from now on."""
        if self._timer is None:
            self._timer = self._loop.call_later(INTERVAL, self._look)

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = self._loop.call_later(INTERVAL, self._look)
        oldest = self._connection.oldest
        if oldest is not None and oldest is self._oldest:
            self.silent_seconds += INTERVAL
        else:
            self.silent_seconds = 0.0
        self._oldest = oldest
        self._connection.hangs = self.silent_seconds >= HANG_SECONDS
        if self.silent_seconds >= GONE_SECONDS:
            self.silent_seconds, self._oldest = 0.0, None
            self._connection.reset(f"no answer for {GONE_SECONDS:.0f} s")
        self._beat(idle=oldest is None)

    def _beat(self, *, idle: bool) -> None:
        self._idle = self._idle + INTERVAL if idle and self._connection.connected else 0.0
        if self._idle >= _BEAT_SECONDS:
            self._idle = 0.0
            self._connection.beat()
