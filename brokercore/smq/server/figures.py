"""What the queue service tells Prometheus of itself (docs/operate/queues.md, "Figures")."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from brokercore.server.watching import gauge

if TYPE_CHECKING:
    from brokercore.server.rights.refusals import Refusals
    from brokercore.smq.server.held import Held
    from brokercore.smq.server.pushing import Pushing
    from brokercore.smq.server.service import QueueService
    from brokercore.smq.server.waiting import Waiting


class QueueFigures(Collector):
    """The figures of this process at this moment; what queues hold is in Redis, and in the console."""

    def __init__(
        self, service: QueueService, waiting: Waiting, pushing: Pushing, refusals: Refusals, held: Held
    ) -> None:
        self._service, self._waiting, self._pushing, self._refusals = service, waiting, pushing, refusals
        self._held = held
        self._started = time.monotonic()

    def collect(self) -> Iterator[Metric]:
        """How long it runs, whether it can answer, who waits, and what it has answered."""
        yield gauge("gantry_smq_up_seconds", "Seconds since the start", time.monotonic() - self._started)
        yield gauge("gantry_smq_ready", "1 while requests can be answered", not self._service.trouble)
        yield gauge("gantry_smq_waiting_receives", "Receives that wait for a message", len(self._waiting))
        yield gauge("gantry_smq_pushes_under_way", "Pushes that wait for their receiver's answer", len(self._pushing))
        held = self._held
        yield gauge("gantry_smq_held_bytes", "Bytes of Redis that all accounts' messages take, about", held.bytes)
        yield gauge("gantry_smq_held_messages", "Messages that all accounts' queues hold", held.messages)
        yield gauge("gantry_smq_held_bytes_limit", "What they may take; 0: any number", held.most_bytes)
        pushes = CounterMetricFamily(
            "gantry_smq_pushes",
            "Attempts to push, by result: delivered, failed, or dropped: failed for the last time",
            labels=["result"],
        )
        for result in ("delivered", "failed", "dropped"):
            pushes.add_metric([result], self._pushing.ended[result])
        yield pushes
        requests = CounterMetricFamily(
            "gantry_smq_requests",
            "Requests that were answered, by operation and result: ok, or the code of the error",
            labels=["operation", "result"],
        )
        for (operation, result), count in self._service.answered.items():
            requests.add_metric([operation, result], count)
        yield requests
        refused = CounterMetricFamily("gantry_smq_refused_strangers", "Refusals of unknown keys", labels=["reason"])
        for reason, count in self._refusals.of_strangers.items():
            refused.add_metric([reason], count)
        yield refused
