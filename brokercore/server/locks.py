"""Queue locks of ordered consumers: one client of a group at a time reads a queue (LOCK_BATCH_MQ)."""

from __future__ import annotations

import time
from collections.abc import Iterable

from brokercore.protocol.message_queue import MessageQueue
from brokercore.server.connection import Connection

EXPIRE_SECONDS = 60.0
"""A lock that is not asked for again within this time is free."""


class QueueLocks:
    """Locks by group and queue, in memory: after a restart the clients lock again."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, MessageQueue], tuple[str, float]] = {}

    def lock(
        self, group: str, client_id: str, queues: Iterable[MessageQueue], connection: Connection
    ) -> list[MessageQueue]:
        """Lock what is free or held by this client, and return it. The locks end with the connection."""
        now = time.monotonic()
        taken = []
        for queue in queues:
            holder, since = self._held.get((group, queue), (client_id, now))
            if holder == client_id or now - since > EXPIRE_SECONDS:
                self._held[group, queue] = client_id, now
                taken.append(queue)
        if taken:
            connection.on_close[self, group, client_id] = lambda: self._release_all(group, client_id)
        return taken

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Give back what this client holds."""
        for queue in queues:
            if self._held.get((group, queue), ("", 0.0))[0] == client_id:
                del self._held[group, queue]

    def _release_all(self, group: str, client_id: str) -> None:
        for key in [key for key, held in self._held.items() if key[0] == group and held[0] == client_id]:
            del self._held[key]
