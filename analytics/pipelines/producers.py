"""Producers of this process: Spark uses it again for many batches of one task or another."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field

from analytics.sources import trust
from brokercore.client import Producer

TIMEOUT_MS = 10_000
_MOST = 8

_lock = threading.Lock()
_producers: OrderedDict[Address, Producer] = OrderedDict()


@dataclass(frozen=True)
class Address:
    """Where a producer sends, and as who."""

    namesrv: str
    key_id: str
    secret: str = field(repr=False)
    group: str
    #: The instance, where topics are named with it.
    namespace: str = ""
    #: How the brokers are checked (`trust.tls`).
    ca: str = ""

    def producer(self) -> Producer:
        """That of this process."""
        with _lock:
            producer = _producers.get(self)
            if producer is None:
                producer = _producers[self] = Producer(
                    self.namesrv,
                    trust.credentials(self.key_id, self.secret),
                    self.group,
                    namespace=self.namespace,
                    timeout_ms=TIMEOUT_MS,
                    tls=trust.tls(self.ca),
                )
            _producers.move_to_end(self)
            if len(_producers) > _MOST:
                _producers.popitem(last=False)[1].close()
            return producer
