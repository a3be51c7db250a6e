"""The messages of one queue that are here and not yet consumed: they decide what offset may be committed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Any

from brokercore.protocol.message import StoredMessage
from brokercore.protocol.message_queue import MessageQueue

MAX_CACHED_MESSAGES = 1000
MAX_CACHED_BYTES = 100 * 1024 * 1024
"""Pulling pauses above these, per queue, as Java's pullThresholdForQueue and pullThresholdSizeForQueue."""

LOCK_HOLDS_S = 30.0
"""A lock not renewed for so long counts as lost: half the time after which the broker gives it to another client."""


class ProcessQueue:
    """A queue this consumer owns. Once `dropped` its results no longer count: another consumer has the queue."""

    def __init__(self, queue: MessageQueue, offset: int) -> None:
        self.queue = queue
        self.dropped = False
        self.committed: int | None = None
        """The offset last sent to the broker or written to the file."""
        self.pull_fails = False
        """The last pull failed; it is said once, not every second."""
        self.last_pull_ms = 0
        self.last_consume_ms = 0
        self.last_lock_ms = 0
        self._lock = threading.Lock()
        self._locked_until = 0.0
        self._pull_offset = offset
        self._cached: dict[int, int] = {}
        self._bytes = 0

    @property
    def pull_offset(self) -> int:
        """Where the next pull begins."""
        return self._pull_offset

    @property
    def commit_offset(self) -> int:
        """Everything below is consumed, or was filtered out: the first cached message, else the pull offset."""
        with self._lock:
            return next(iter(self._cached), self._pull_offset)

    @property
    def is_full(self) -> bool:
        """True when pulling should pause."""
        return len(self._cached) >= MAX_CACHED_MESSAGES or self._bytes >= MAX_CACHED_BYTES

    @property
    def is_locked(self) -> bool:
        """True while the broker's lock is surely ours."""
        return time.monotonic() < self._locked_until

    def locked(self) -> None:
        """The broker gave this client the lock, or renewed it."""
        self.last_lock_ms = _now_ms()
        self._locked_until = time.monotonic() + LOCK_HOLDS_S

    def add(self, messages: Iterable[StoredMessage], next_offset: int) -> None:
        """Take what a pull brought, in queue order, and where to pull next."""
        with self._lock:
            for message in messages:
                self._cached[message.queue_offset] = message.total_size
                self._bytes += message.total_size
            self._pull_offset = next_offset
            self.last_pull_ms = _now_ms()

    def finish(self, queue_offset: int) -> None:
        """A message is consumed, or handed back to the broker."""
        with self._lock:
            self._bytes -= self._cached.pop(queue_offset, 0)
            self.last_consume_ms = _now_ms()

    def info(self) -> dict[str, Any]:
        """ProcessQueueInfo, as it stands in running info."""
        with self._lock:
            offsets = list(self._cached)
        return {
            "cachedMsgCount": len(offsets),
            "cachedMsgMaxOffset": max(offsets, default=0),
            "cachedMsgMinOffset": min(offsets, default=0),
            "cachedMsgSizeInMiB": self._bytes // (1024 * 1024),
            "commitOffset": self.commit_offset,
            "droped": self.dropped,
            "lastConsumeTimestamp": self.last_consume_ms,
            "lastLockTimestamp": self.last_lock_ms,
            "lastPullTimestamp": self.last_pull_ms,
            "locked": self.is_locked,
            "transactionMsgCount": 0,
            "transactionMsgMaxOffset": 0,
            "transactionMsgMinOffset": 0,
            "tryUnlockTimes": 0,
        }


def _now_ms() -> int:
    return int(time.time() * 1000)
