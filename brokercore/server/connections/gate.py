"""Connections that nobody has vouched for: how long they may take, how much they may make the broker hold.

A connection is a stranger until its first request with a right signature. Strangers may send frames as large as a
client's first message, but all strangers together hold a bounded number of bytes, and each has a limited time. Every
connection, known or not, has to complete a frame that it began and to read what it asked for.
"""

from __future__ import annotations

import logging
import resource
import time
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from brokercore.protocol.command import MAX_FRAME

logger = logging.getLogger(__name__)

STRANGER_FRAME = 5 << 20
"""Largest frame of a stranger: a message of 4 MiB with all its properties may be a client's first request."""

STRANGERS_HOLD = 64 << 20
"""Bytes of unfinished frames of all strangers together; then the one that has been at it longest is closed."""

STRANGERS_PART = 4
"""Strangers are at most one part in so many of all connections: they never take the place of those that signed."""

STRANGER_SECONDS = 20.0
"""Time until the first request with a right signature."""

FRAME_SECONDS = 20.0
"""Time for the rest of a frame that began."""

READ_SECONDS = 60.0
"""Time in which a client has to read some of what is waiting for it."""

LOOK_SECONDS = 5.0
"""Between two looks at who takes too long."""

KEPT_DESCRIPTORS = 200
"""Files and sockets that are no clients': Redis, listening sockets, logs."""

_WANTED_DESCRIPTORS = 1 << 20


def most_connections() -> int:
    """Raise the limit of open files as far as it goes and return how many connections that leaves room for."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _WANTED_DESCRIPTORS if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
        except (OSError, ValueError) as error:
            logger.warning("the limit of %d open files stays: %s", soft, error)
    return wanted - KEPT_DESCRIPTORS if soft == resource.RLIM_INFINITY else max(soft - KEPT_DESCRIPTORS, 1)


class Peer(Protocol):
    """What the gate sees of a connection."""

    stranger: bool
    opened_at: float
    frame_began: float
    unread_since: float

    @property
    def address(self) -> str:
        """The peer as ip:port."""

    @property
    def complain(self) -> Callable[[Any, str, str], None]:
        """Told before the connection is closed for what its peer did: the connection, a word and a sentence."""

    def limit_frames(self, size: int) -> None:
        """Take frames of at most so many bytes from now on."""

    def note_reading(self, now: float) -> None:
        """Start its time anew when it has read something since the last look."""

    def abort(self) -> None:
        """Close the connection at once."""


class Gate:
    """All connections of a broker, and the strangers among them."""

    def __init__(self) -> None:
        self.most = most_connections()
        self.refused = 0
        """Connections that were closed at once because there were too many."""

        self.turned_out = 0
        """Strangers that were closed to make room for others."""

        self._strangers: dict[Peer, int] = {}
        self._held = 0

    @property
    def strangers(self) -> int:
        """How many connections have not signed a request yet."""
        return len(self._strangers)

    def enter(self, connection: Peer, others: int) -> bool:
        """A connection was accepted beside so many others; False when it is one too many and was closed."""
        if connection.stranger and len(self._strangers) >= max(1, self.most // STRANGERS_PART):
            self._make_room()
        if others >= self.most and not self._make_room():
            if not self.refused % 1000:
                logger.error("connection %s closed: %d are open, which is the limit", connection.address, others)
            self.refused += 1
            connection.abort()
            return False
        if connection.stranger:
            self._strangers[connection] = 0
            connection.limit_frames(STRANGER_FRAME)
        return True

    def _make_room(self) -> bool:
        """Close the stranger that came first; False when there is none. It had the longest time to say who it is."""
        oldest = next(iter(self._strangers), None)
        if oldest is None:
            return False
        if not self.turned_out % 1000:
            logger.warning("connection %s closed: there are too many that have not signed a request", oldest.address)
        self.turned_out += 1
        self.leave(oldest)
        oldest.abort()
        return True

    def known(self, connection: Peer) -> None:
        """A request had a right signature."""
        connection.stranger = False
        connection.limit_frames(MAX_FRAME)
        self.leave(connection)

    def leave(self, connection: Peer) -> None:
        """A connection is no stranger any more, or gone."""
        self._held -= self._strangers.pop(connection, 0)

    def holds(self, connection: Peer, size: int) -> None:
        """A stranger's unfinished frame has so many bytes now."""
        before = self._strangers.get(connection)
        if before is None:
            return
        self._strangers[connection] = size
        self._held += size - before
        while self._held > STRANGERS_HOLD:
            slowest = next(stranger for stranger, held in self._strangers.items() if held)
            self._turn_out(slowest, f"unsigned connections hold more than {STRANGERS_HOLD >> 20} MiB")

    def sweep(self, connections: Iterable[Peer]) -> None:
        """Close who takes too long: with the first signed request, with a frame, or with reading."""
        now = time.monotonic()
        silent = [item for item in self._strangers if item.opened_at < now - STRANGER_SECONDS]
        for stranger in silent:
            self.leave(stranger)
            stranger.abort()
        if silent:
            logger.warning("%d connections closed: no signed request in %.0f s", len(silent), STRANGER_SECONDS)
        for connection in list(connections):
            connection.note_reading(now)
            if connection.frame_began < now - FRAME_SECONDS:
                self._turn_out(connection, f"a frame was not complete after {FRAME_SECONDS:.0f} s")
            elif connection.unread_since < now - READ_SECONDS:
                self._turn_out(connection, f"it read nothing for {READ_SECONDS:.0f} s")

    def _turn_out(self, connection: Peer, reason: str) -> None:
        connection.complain(connection, "slow", reason)
        self.leave(connection)
        connection.abort()
