"""Ordered consumption: one message of a queue at a time, and none past one that failed."""

from __future__ import annotations

import logging
import threading
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from brokercore.client.errors import ClientError
from brokercore.client.handling import DEAD_LETTER, Handling
from brokercore.client.process_queue import ProcessQueue
from brokercore.client.scheduler import Scheduler
from brokercore.client.workers import Workers
from brokercore.protocol.message import StoredMessage
from brokercore.protocol.message_queue import MessageQueue

log = logging.getLogger(__name__)

_UNLOCKED_PAUSE_S = 0.2


@dataclass(slots=True)
class _Line:
    """Messages of a queue in line. `busy`: a piece of work for it waits or runs; `running`: it is in the handler."""

    waiting: deque[tuple[ProcessQueue, StoredMessage]] = field(default_factory=deque)
    busy: bool = False
    running: bool = False
    after: Callable[[], None] | None = None


class OrderedConsumption:
    """Runs the handler in `threads` threads, never two for one queue.

    A message that fails holds up its queue: after `suspend_s` it is consumed again, up to `max_reconsume_times` times
    (-1: for ever), then it is a dead letter. With `locks` a queue is consumed only while the broker's lock is ours.
    """

    def __init__(
        self, handling: Handling, scheduler: Scheduler, *, threads: int, suspend_s: float, locks: bool
    ) -> None:
        self._handling = handling
        self._scheduler = scheduler
        self._suspend_s = suspend_s
        self._locks = locks
        self._workers = Workers(threads, f"consume {handling.group}")
        self._lock = threading.Lock()
        self._lines: defaultdict[MessageQueue, _Line] = defaultdict(_Line)

    def deliver(self, item: ProcessQueue, message: StoredMessage) -> None:
        with self._lock:
            line = self._lines[item.queue]
            line.waiting.append((item, message))
            if line.busy:
                return
            line.busy = True
        self._again(item.queue)

    def is_full(self, item: ProcessQueue) -> bool:
        return item.is_full

    def release(self, item: ProcessQueue, then: Callable[[], None]) -> None:
        with self._lock:
            line = self._lines[item.queue]
            if line.running:
                line.after = then
                return
        then()

    def stop(self, timeout_s: float) -> bool:
        return self._workers.stop(timeout_s)

    def _again(self, queue: MessageQueue, delay_s: float = 0.0) -> None:
        if delay_s:
            self._scheduler.call(lambda: self._again(queue), delay_s)
        else:
            self._workers.submit(lambda: self._work(queue))

    def _work(self, queue: MessageQueue) -> None:
        line = self._lines[queue]
        with self._lock:
            while line.waiting and line.waiting[0][0].dropped:
                line.waiting.popleft()
            if not line.waiting:
                line.busy = False
                return
            item, message = line.waiting[0]
            line.running = not self._locks or item.is_locked
        if not line.running:
            self._again(queue, _UNLOCKED_PAUSE_S)
            return
        done = self._handling.succeeds(item, message) or self._gave_up(item, message)
        with self._lock:
            if done:
                line.waiting.popleft()
                item.finish(message.queue_offset)
            line.running = False
            after, line.after = line.after, None
        if after is not None:
            after()
        self._again(queue, 0.0 if done else self._suspend_s)

    def _gave_up(self, item: ProcessQueue, message: StoredMessage) -> bool:
        """Count the failure; at the limit the message becomes a dead letter."""
        limit = self._handling.max_reconsume_times
        if limit < 0 or message.reconsume_times < limit:
            message.reconsume_times += 1
            return False
        try:
            self._handling.send_back(item.queue.broker_name, message, DEAD_LETTER)
        except ClientError as error:
            log.warning("%s: message %s holds up its queue: %s", self._handling.group, message.unique_id, error)
            return False
        return True
