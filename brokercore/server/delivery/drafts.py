"""A message on its way in, before it is stored."""

from __future__ import annotations

from typing import NamedTuple

from brokercore.protocol.command import Command
from brokercore.server.connections.connection import Connection
from brokercore.server.connections.fairness import Share
from brokercore.server.storage.queue import Queue
from brokercore.server.storage.topics import Topic


class Draft(NamedTuple):
    """One message on its way into a queue. `encoded` are its properties as they are stored."""

    connection: Connection
    command: Command
    topic: Topic
    queue: Queue
    body: bytes
    properties: dict[str, str]
    encoded: bytes
    fields: dict[str, int | bytes]
    share: Share | None = None
    """Of whose share a large message is while it is on its way to Redis; None for all others."""

    def leaves(self) -> None:
        """It is on its way to Redis."""
        if self.share is not None:
            self.share.unstored += len(self.body)
