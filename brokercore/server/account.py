"""One tenant at this broker: what it may take, and what it has taken (docs/limits.md)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

BURST_SECONDS = 1.0
"""What a tenant has not sent in so long it may send at once."""

_SHARED = ("messages_per_second", "bytes_per_second", "stored_bytes")


@dataclass(frozen=True, slots=True)
class Limits:
    """What one tenant may take. 0 is no limit; sizes are bytes."""

    connections: int = 0
    topics: int = 0
    groups: int = 0
    messages_per_second: int = 0
    bytes_per_second: int = 0
    stored_bytes: int = 0

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Limits:
        """The limits of a published row. Raises ValueError for a value that is no number."""
        return cls(**{field.name: max(0, int(row.get(field.name) or 0)) for field in fields(cls)})

    def shared(self, brokers: int) -> Limits:
        """What is left for one of so many brokers: clients spread what they send over all of them."""
        shares = {name: -(-getattr(self, name) // brokers) for name in _SHARED}
        return replace(self, **shares)


class Account:
    """One tenant at this broker: its limits, and what it has taken of them.

    The rates are kept as the moments (monotonic seconds) until which what was sent is paid for: a tenant sends while
    neither lies further ahead than the burst. A message of any size passes, and is paid for afterwards.
    """

    __slots__ = (
        "bytes_in", "bytes_paid_until", "connections", "limits", "messages_in", "messages_paid_until",
        "most_stored", "refused", "seconds_per_byte", "seconds_per_message", "stored_bytes", "uid",
    )  # fmt: skip

    def __init__(self, uid: str, limits: Limits) -> None:
        self.uid = uid
        self.connections = self.messages_in = self.bytes_in = self.stored_bytes = 0
        self.messages_paid_until = self.bytes_paid_until = 0.0
        self.limits, self.most_stored = Limits(), 1 << 62
        self.seconds_per_message = self.seconds_per_byte = 0.0
        self.refused: dict[str, int] = {}
        """How often a request of the tenant was refused, by reason."""
        self.take(limits)

    def take(self, limits: Limits) -> None:
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
