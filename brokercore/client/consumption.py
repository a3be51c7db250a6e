"""Concurrent consumption: messages of all queues through the handler, in as many threads as wanted."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Protocol

from brokercore.client.errors import ClientError
from brokercore.client.handling import Handling
from brokercore.client.process_queue import ProcessQueue
from brokercore.client.scheduler import Scheduler
from brokercore.client.workers import Workers
from brokercore.protocol.message import StoredMessage

log = logging.getLogger(__name__)

CONSUME_AGAIN_S = 5.0
"""When the broker does not take a failed message back, it is consumed here again after this time."""


class Deliveries(Protocol):
    """Where pulled messages go: to a handler, or to whoever polls."""

    def deliver(self, item: ProcessQueue, message: StoredMessage) -> None:
        """Take a message of a queue that is owned; those of one queue come in its order."""

    def is_full(self, item: ProcessQueue) -> bool:
        """True when nothing more should be pulled of this queue for now."""

    def release(self, item: ProcessQueue, then: Callable[[], None]) -> None:
        """A queue was given up: run `then` as soon as its offset does not change any more."""

    def stop(self, timeout_s: float) -> bool:
        """Begin nothing more and wait for what runs; False when some still runs after `timeout_s`."""


class Consumption:
    """Runs the handler in `threads` threads. What fails goes back to the broker, which delivers it again later.

    So does a message whose handler takes longer than `timeout_s`: its result does not count any more then.
    """

    def __init__(
        self, handling: Handling, scheduler: Scheduler, *, broadcasting: bool, threads: int, timeout_s: float
    ) -> None:
        self._handling = handling
        self._scheduler = scheduler
        self._broadcasting = broadcasting
        self._timeout_s = timeout_s
        self._workers = Workers(threads, f"consume {handling.group}")
        self._lock = threading.Lock()
        self._running: dict[tuple[ProcessQueue, int], tuple[StoredMessage, float]] = {}

    def deliver(self, item: ProcessQueue, message: StoredMessage) -> None:
        if not self._workers.submit(lambda: self._consume(item, message)):
            log.debug("message %s came while shutting down", message.unique_id)

    def is_full(self, item: ProcessQueue) -> bool:
        return item.is_full

    def release(self, item: ProcessQueue, then: Callable[[], None]) -> None:
        then()

    def stop(self, timeout_s: float) -> bool:
        return self._workers.stop(timeout_s)

    def expire(self) -> None:
        """Hand back to the broker what is in the handler for too long (ConsumeTimeout)."""
        limit = time.monotonic() - self._timeout_s
        with self._lock:
            late = [key for key, (_, begun) in self._running.items() if begun < limit]
            overdue = [(key[0], self._running.pop(key)[0]) for key in late]
        for item, message in overdue:
            log.warning(
                "%s: message %s is in the handler for more than %s s; it counts as failed",
                self._handling.group, message.unique_id, self._timeout_s,
            )  # fmt: skip
            if not item.dropped:
                self._settle(item, message, success=False)

    def _consume(self, item: ProcessQueue, message: StoredMessage) -> None:
        if item.dropped:
            return
        key = item, message.queue_offset
        with self._lock:
            self._running[key] = message, time.monotonic()
        success = self._handling.succeeds(item, message)
        with self._lock:
            in_time = self._running.pop(key, None) is not None
        if in_time and not item.dropped:
            self._settle(item, message, success)

    def _settle(self, item: ProcessQueue, message: StoredMessage, success: bool) -> None:
        if not success and self._broadcasting:
            log.warning("message %s failed; broadcasting does not deliver it again", message.unique_id)
        elif not success:
            try:
                self._handling.send_back(item.queue.broker_name, message)
            except ClientError as error:
                log.warning("message %s is consumed here again: %s", message.unique_id, error)
                message.reconsume_times += 1
                self._scheduler.call(lambda: self.deliver(item, message), CONSUME_AGAIN_S)
                return
        item.finish(message.queue_offset)
