"""What an account may take of the queue service: calls a second, receives that wait, and what its queues hold.

See docs/operate/limits.md. Calls and waiting receives are counted by each process of the service; queues, messages and
bytes are counted in Redis, by the scripts that change them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from brokercore.policy.table import LimitRow
from brokercore.server.rights.limits import TenantLimits
from brokercore.smq.wire.errors import Code, SmqError

BURST_SECONDS = 1.0
"""What an account has not called in so long it may call at once."""

CHANGES_PER_SECOND, CHANGES_AT_ONCE = 50, 20_000
"""How often an account may make, change or remove queues, topics and subscriptions, and how many it may save up.

Each is written into its audit trail, which takes far longer than the change; all accounts' wait there in one line.
"""


@dataclass(slots=True)
class _Use:
    """What an account takes of this process: until when its calls, and changes, are paid for (monotonic s), and
    receives that wait.
    """

    paid_until: float = 0.0
    changes_paid_until: float = 0.0
    waiting: int = 0


class QueueLimits(TenantLimits):
    """The published limits, and what is used of those that this process counts."""

    def __init__(self) -> None:
        super().__init__()
        self._uses: dict[str, _Use] = {}

    def row(self, uid: str) -> LimitRow:
        """What an account may take of the whole service."""
        return self._own.get(uid, self._default)

    def admit_call(self, uid: str) -> None:
        """Count a call. Raises SmqError when the account calls more often than it may."""
        most = self.row(uid).smq_calls_per_second
        if not most:
            return
        use, now = self._use(uid), time.monotonic()
        if use.paid_until > now + BURST_SECONDS:
            raise SmqError(Code.QPS_LIMIT_EXCEEDED, f"The account may make {most} calls a second; try again later.")
        use.paid_until = max(use.paid_until, now) + 1 / most

    def admit_change(self, uid: str) -> None:
        """Count a change. Raises SmqError when the account changes more often than it may."""
        use, now = self._use(uid), time.monotonic()
        if use.changes_paid_until > now + CHANGES_AT_ONCE / CHANGES_PER_SECOND:
            raise SmqError(
                Code.QPS_LIMIT_EXCEEDED,
                f"The account may change queues, topics and subscriptions {CHANGES_PER_SECOND} times a second; "
                "try again later.",
            )
        use.changes_paid_until = max(use.changes_paid_until, now) + 1 / CHANGES_PER_SECOND

    @contextmanager
    def waiting(self, uid: str) -> Iterator[None]:
        """Count a receive while it waits. Raises SmqError when as many wait as the account may have."""
        most, use = self.row(uid).smq_waiting, self._use(uid)
        if most and use.waiting >= most:
            raise SmqError(
                Code.QPS_LIMIT_EXCEEDED, f"{most} receives of the account wait, as many as may; try again later."
            )
        use.waiting += 1
        try:
            yield
        finally:
            use.waiting -= 1

    def _use(self, uid: str) -> _Use:
        found = self._uses.get(uid)
        if found is None:
            found = self._uses[uid] = _Use()
        return found
