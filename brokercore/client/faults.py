"""Brokers that failed lately: producers try the others first."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from brokercore.client.errors import BrokerUnreachable, ClientError, RequestTimeout
from brokercore.protocol.message_queue import MessageQueue

UNREACHABLE_S = 30.0
"""Without an answer: the time after which Java's latency fault tolerance trusts a broker again."""

REFUSED_S = 3.0
"""With an answer that says "not now": soon it may be able again."""


class Faults:
    """Until when each broker is avoided. Plain dictionary operations: safe in threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: dict[str, float] = {}

    def failed(self, broker_name: str, error: ClientError) -> None:
        """A send to this broker failed, in a way that another broker may not."""
        silent = isinstance(error, BrokerUnreachable | RequestTimeout)
        self._until[broker_name] = self._clock() + (UNREACHABLE_S if silent else REFUSED_S)

    def worked(self, broker_name: str) -> None:
        """The broker took a message."""
        if self._until:
            self._until.pop(broker_name, None)

    def usable(self, queues: Sequence[MessageQueue]) -> Sequence[MessageQueue]:
        """Queues of brokers that are not avoided; all when that leaves none."""
        if not self._until:
            return queues
        now = self._clock()
        good = [queue for queue in queues if self._until.get(queue.broker_name, 0.0) <= now]
        return good or queues
