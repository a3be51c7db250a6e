"""One tenant at this broker: what it may take, and what it has taken (docs/operate/limits.md)."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

from brokercore.policy.table import LimitRow
from brokercore.server.connections.fairness import MOST_READS_OF_ACCOUNT, Share

BURST_SECONDS = 1.0
"""What a tenant has not sent in so long it may send at once."""

MOST_INCOMING = 256 << 20
"""Bytes that all connections of an account may have sent of requests that are not complete."""

MOST_UNREAD = 256 << 20
"""Bytes that all connections of an account may leave unread together; then the one with the most of them is closed."""

MOST_POSITIONS = 200_000
"""Places of an account's groups in queues that one broker keeps: committed offsets, with what POP has of each; and
which of its groups consume which topics by POP. 100 bytes of the broker each, 500 while POP has a state, and 70 of
Redis."""

MOST_IN_FLIGHT = 100_000
"""Messages that groups of an account have popped from one broker, and neither acknowledged nor let go: some 300 bytes
of the broker each, and 150 of Redis."""


class Peer(Protocol):
    """A connection of an account."""

    @property
    def unsent(self) -> int:
        """Bytes that the peer has not read yet."""


class Account:
    """One tenant at this broker: its limits, and what it has taken of them.

    The rates are kept as the moments (monotonic seconds) until which what was sent is paid for: a tenant sends while
    neither lies further ahead than the burst. A message of any size passes, and is paid for afterwards.
    """

    __slots__ = (
        "answering", "bytes_in", "bytes_paid_until", "connections", "in_flight", "incoming", "incoming_bytes",
        "late", "limits", "making", "messages_in", "messages_paid_until", "most_stored", "positions", "queues", "reads",
        "refused", "seconds_per_byte", "seconds_per_message", "share", "stored_bytes", "uid", "unread", "unread_bytes",
    )  # fmt: skip

    def __init__(self, uid: str, limits: LimitRow) -> None:
        self.uid = uid
        self.connections = self.messages_in = self.bytes_in = self.stored_bytes = self.queues = 0
        self.positions = 0
        """Places of its groups that are kept (MOST_POSITIONS)."""
        self.in_flight = 0
        """Messages that its groups have popped (MOST_IN_FLIGHT)."""
        self.messages_paid_until = self.bytes_paid_until = 0.0
        self.limits, self.most_stored = LimitRow(), 1 << 62
        self.seconds_per_message = self.seconds_per_byte = 0.0
        self.reads = asyncio.Semaphore(MOST_READS_OF_ACCOUNT)
        """Turns of requests that read messages."""
        self.answering = 0
        """Bytes of messages that its gRPC calls are being answered with."""
        self.incoming: dict[Peer, int] = {}
        """Bytes that connections have sent of requests that are not complete, or not answered by gRPC."""
        self.incoming_bytes = 0
        self.unread: dict[Peer, None] = {}
        """Connections that had not read all when they were last sent something."""
        self.unread_bytes = 0
        self.making = asyncio.Lock()
        """Held by the request that makes a topic or a group: two at a time would both find room for the last one."""
        self.late: dict[tuple[str, str], float] = {}
        """Kind and name of what the console was late with, and until when it may still be making it (monotonic)."""
        self.share = Share()
        """What its requests may take of a round of the loop."""
        self.refused: dict[str, int] = {}
        """How often a request of the tenant was refused, by reason."""
        self.set_limits(limits)

    def note_incoming(self, peer: Peer, size: int) -> Peer | None:
        """A connection has sent so much of what is not complete; returns the one to close when all hold too much."""
        self.incoming_bytes += size - self.incoming.pop(peer, 0)
        if size:
            self.incoming[peer] = size
        if self.incoming_bytes <= MOST_INCOMING:
            return None
        return max(self.incoming, key=self.incoming.__getitem__)

    def note_unread(self, peer: Peer) -> Peer | None:
        """A connection was sent more than it reads at once; returns the one to close when all hold too much."""
        self.unread[peer] = None
        self.unread_bytes += peer.unsent
        if self.unread_bytes <= MOST_UNREAD:
            return None
        self.unread = {one: None for one in self.unread if one.unsent}
        self.unread_bytes = sum([one.unsent for one in self.unread])
        if self.unread_bytes <= MOST_UNREAD:
            return None
        return max(self.unread, key=lambda one: one.unsent)

    def set_limits(self, limits: LimitRow) -> None:
        """From now on these limits hold; what is owed by other limits is forgiven."""
        if limits == self.limits:
            return
        self.limits = limits
        self.seconds_per_message = 1 / limits.messages_per_second if limits.messages_per_second else 0.0
        self.seconds_per_byte = 1 / limits.bytes_per_second if limits.bytes_per_second else 0.0
        self.most_stored = limits.stored_bytes or 1 << 62
        latest = time.monotonic() + BURST_SECONDS
        self.messages_paid_until = min(self.messages_paid_until, latest)
        self.bytes_paid_until = min(self.bytes_paid_until, latest)
