"""What clients may make this process hold: open connections, bodies of requests that are coming in or worked on, and
answers that are not read.

A connection is a stranger until its first request with a right signature. Strangers take a bounded part of all
connections, and the one that came first makes room for the next; bodies are held for those only who may send them.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import Protocol

from brokercore.smq.wire.errors import Code, SmqError

logger = logging.getLogger(__name__)

#: Strangers are at most one part in so many of all connections.
STRANGERS_PART = 4
#: Bytes of bodies, and as many of answers, that all requests may hold together, those of one account, and what each
#: account may hold anyway.
MOST_HELD, MOST_OF_ACCOUNT, SHARE = 256 << 20, 64 << 20, 16 << 20


class Peer(Protocol):
    """A connection."""

    def abort(self) -> None:
        """Close it at once."""

    def finish(self) -> None:
        """Answer what has come, then close."""


class Held:
    """Bytes that are held for accounts."""

    def __init__(self) -> None:
        self._held: Counter[str] = Counter()
        self._all_held = 0

    def require(self, account: str) -> None:
        """Refuse an account that holds half of what it may. Raises SmqError."""
        if self._held.get(account, 0) > MOST_OF_ACCOUNT // 2:
            raise SmqError(
                Code.QPS_LIMIT_EXCEEDED,
                f"{self._held[account]} bytes of answers to the account are not read yet; try again later.",
            )

    def hold(self, account: str, size: int) -> None:
        """So many more bytes are an account's. Raises SmqError when that is too much."""
        own = self._held[account] + size
        if own > MOST_OF_ACCOUNT or (self._all_held + size > MOST_HELD and own > SHARE):
            raise SmqError(
                Code.QPS_LIMIT_EXCEEDED,
                f"The account's requests under way hold {self._held[account]} bytes; try again later.",
            )
        self._held[account] = own
        self._all_held += size

    def free(self, account: str, size: int) -> None:
        """So many bytes are not held any more."""
        self._all_held -= size
        self._held[account] -= size
        if not self._held[account]:
            del self._held[account]


class Room:
    """The connections of one process, and what is held for them."""

    def __init__(self, connections: int) -> None:
        self._most, self._peers = connections, set[Peer]()
        self._strangers: dict[Peer, None] = {}
        self.bodies, self.answers = Held(), Held()

    def enter(self, peer: Peer) -> bool:
        """A connection was accepted; False when there is no room for it. Whoever entered leaves later."""
        is_full = len(self._peers) >= self._most
        if (is_full or len(self._strangers) >= max(1, self._most // STRANGERS_PART)) and self._strangers:
            oldest = next(iter(self._strangers))
            self.leave(oldest)
            oldest.abort()
        elif is_full:
            logger.error("a connection is closed: %d are open, which is the limit", len(self._peers))
            return False
        self._peers.add(peer)
        self._strangers[peer] = None
        return True

    def known(self, peer: Peer) -> None:
        """A request of it had a right signature."""
        self._strangers.pop(peer, None)

    def leave(self, peer: Peer) -> None:
        """It is closed."""
        self._strangers.pop(peer, None)
        self._peers.discard(peer)

    def finish(self) -> None:
        """The server closes: let each connection answer what has come."""
        for peer in list(self._peers):
            peer.finish()
