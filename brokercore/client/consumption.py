"""Pulled messages on their way through the handler, and how fast they go; what fails goes back to the broker."""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from brokercore.client.errors import ClientError
from brokercore.client.messages import ConsumeResult, MessageView
from brokercore.client.process_queue import ProcessQueue
from brokercore.client.routes import Routes
from brokercore.client.session import Call, Session
from brokercore.client.threads import Scheduler, Workers
from brokercore.protocol.bodies.clients import ConsumeStatus
from brokercore.protocol.codes import RequestCode
from brokercore.protocol.errors import ProtocolError
from brokercore.protocol.message import StoredMessage
from brokercore.protocol.message_queue import MessageQueue

log = logging.getLogger(__name__)

Handler = Callable[[MessageView], ConsumeResult]

SEND_BACK_TIMEOUT_MS = 5_000
BROKER_CHOOSES, DEAD_LETTER = 0, -1
"""Delay levels of CONSUMER_SEND_MSG_BACK: the next retry level, or no more retries."""

CONSUME_AGAIN_S = 5.0
"""When the broker does not take a failed message back, it is consumed here again after this time."""

_UNLOCKED_PAUSE_S = 0.2

_WINDOW_S = 60
_FAILURES_S = 3600
"""What the meter remembers: rates, and failures."""


class Handling:
    """The handler of a group with what belongs around it; `max_reconsume_times` goes to the broker."""

    def __init__(
        self,
        *,
        session: Session,
        routes: Routes,
        meter: ConsumeMeter,
        group: str,
        namespace: str,
        max_reconsume_times: int,
        handler: Handler,
    ) -> None:
        self.group = group
        self.max_reconsume_times = max_reconsume_times
        self._session = session
        self._routes = routes
        self._meter = meter
        self._namespace = namespace
        self._handler = handler

    def handle(self, message: StoredMessage, broker_name: str) -> ConsumeResult:
        """The handler's word on a message. Raises what the handler raises, DecompressionError."""
        return self._handler(MessageView.of(message, broker_name, self._namespace))

    def succeeds(self, item: ProcessQueue, message: StoredMessage) -> bool:
        """Run the handler; what it raises is logged and counts as a failure."""
        begun = time.monotonic()
        success = False
        try:
            success = self.handle(message, item.queue.broker_name) is ConsumeResult.SUCCESS
        except ProtocolError as error:
            log.warning("message %s cannot be read: %s", message.unique_id, error)
        except Exception:
            log.exception("the handler of %s failed on message %s", self.group, message.unique_id)
        self._meter.consumed(item.queue.topic, success, (time.monotonic() - begun) * 1000)
        return success

    def send_back(self, broker_name: str, message: StoredMessage, level: int = BROKER_CHOOSES) -> None:
        """CONSUMER_SEND_MSG_BACK: the broker delivers it again later, or keeps it as a dead letter.

        Raises ClientError.
        """
        ext = {
            "offset": str(message.physical_offset),
            "group": self.group,
            "delayLevel": str(level),
            "originMsgId": message.unique_id,
            "originTopic": message.topic,
            "unitMode": "false",
            "maxReconsumeTimes": str(self.max_reconsume_times),
            "bname": broker_name,
        }
        call = Call(self._routes.address(broker_name), RequestCode.CONSUMER_SEND_MSG_BACK, ext)
        self._session.call_once(call, timeout_ms=SEND_BACK_TIMEOUT_MS)


class Deliveries(Protocol):
    """Where pulled messages go: to a handler, or to whoever polls."""

    def deliver(self, item: ProcessQueue, message: StoredMessage) -> None:
        """A message of a queue that is owned; those of one queue come in its order."""

    def is_full(self, item: ProcessQueue) -> bool:
        """True when nothing more should be pulled of this queue for now."""

    def release(self, item: ProcessQueue, then: Callable[[], None]) -> None:
        """A queue was given up: run `then` as soon as its offset does not change any more."""

    def stop(self, timeout_s: float) -> bool:
        """Begin nothing more and wait for what runs; False when some still runs after `timeout_s`."""


class _Consumption:
    """The threads that a handler runs in."""

    def __init__(self, handling: Handling, scheduler: Scheduler, threads: int) -> None:
        self._handling = handling
        self._scheduler = scheduler
        self._workers = Workers(threads, f"consume {handling.group}")
        self._lock = threading.Lock()

    def is_full(self, item: ProcessQueue) -> bool:
        return item.is_full

    def stop(self, timeout_s: float) -> bool:
        return self._workers.stop(timeout_s)


class ConcurrentConsumption(_Consumption):
    """Runs the handler in `threads` threads. What fails goes back to the broker, which delivers it again later.

    So does a message whose handler takes longer than `timeout_s`: its result does not count any more then.
    """

    def __init__(
        self, handling: Handling, scheduler: Scheduler, *, broadcasting: bool, threads: int, timeout_s: float
    ) -> None:
        super().__init__(handling, scheduler, threads)
        self._broadcasting = broadcasting
        self._timeout_s = timeout_s
        self._running: dict[tuple[ProcessQueue, int], tuple[StoredMessage, float]] = {}

    def deliver(self, item: ProcessQueue, message: StoredMessage) -> None:
        if not self._workers.submit(lambda: self._consume(item, message)):
            log.debug("message %s came while shutting down", message.unique_id)

    def release(self, item: ProcessQueue, then: Callable[[], None]) -> None:
        then()

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


@dataclass(slots=True)
class _Line:
    """Messages of a queue in line. `busy`: a piece of work for it waits or runs; `running`: it is in the handler."""

    waiting: deque[tuple[ProcessQueue, StoredMessage]] = field(default_factory=deque)
    busy: bool = False
    running: bool = False
    after: Callable[[], None] | None = None


class OrderedConsumption(_Consumption):
    """Runs the handler in `threads` threads, never two for one queue.

    A message that fails holds up its queue: after `suspend_s` it is consumed again, up to `max_reconsume_times` times
    (-1: for ever), then it is a dead letter. With `locks` a queue is consumed only while the broker's lock is ours.
    """

    def __init__(
        self, handling: Handling, scheduler: Scheduler, *, threads: int, suspend_s: float, locks: bool
    ) -> None:
        super().__init__(handling, scheduler, threads)
        self._suspend_s = suspend_s
        self._locks = locks
        self._lines: defaultdict[MessageQueue, _Line] = defaultdict(_Line)

    def deliver(self, item: ProcessQueue, message: StoredMessage) -> None:
        with self._lock:
            line = self._lines[item.queue]
            line.waiting.append((item, message))
            if line.busy:
                return
            line.busy = True
        self._again(item.queue)

    def release(self, item: ProcessQueue, then: Callable[[], None]) -> None:
        with self._lock:
            line = self._lines[item.queue]
            if line.running:
                line.after = then
                return
        then()

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


@dataclass(slots=True)
class _Bucket:
    pulls: int = 0
    pulled: int = 0
    pull_ms: float = 0.0
    consumed: int = 0
    failed: int = 0
    consume_ms: float = 0.0


@dataclass(slots=True)
class _Topic:
    seconds: dict[int, _Bucket] = field(default_factory=dict)
    failures: dict[int, int] = field(default_factory=dict)


class ConsumeMeter:
    """Rates over the last minute and failures of the last hour, by topic."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._topics: defaultdict[str, _Topic] = defaultdict(_Topic)

    def pulled(self, topic: str, messages: int, spent_ms: float) -> None:
        """A pull that found messages."""
        with self._lock:
            bucket = self._bucket(topic)
            bucket.pulls += 1
            bucket.pulled += messages
            bucket.pull_ms += spent_ms

    def consumed(self, topic: str, success: bool, spent_ms: float) -> None:
        """A message went through the handler."""
        with self._lock:
            bucket = self._bucket(topic)
            bucket.consume_ms += spent_ms
            if success:
                bucket.consumed += 1
            else:
                bucket.failed += 1
                failures = self._topics[topic].failures
                minute = int(time.monotonic()) // 60
                failures[minute] = failures.get(minute, 0) + 1

    def status(self) -> dict[str, ConsumeStatus]:
        """The figures of every topic."""
        with self._lock:
            return {topic: self._sum(entry) for topic, entry in self._topics.items()}

    def _bucket(self, topic: str) -> _Bucket:
        now = int(time.monotonic())
        seconds = self._topics[topic].seconds
        if now not in seconds:
            for old in [second for second in seconds if second <= now - _WINDOW_S]:
                del seconds[old]
            seconds[now] = _Bucket()
        return seconds[now]

    @staticmethod
    def _sum(entry: _Topic) -> ConsumeStatus:
        now = int(time.monotonic())
        recent = [bucket for second, bucket in entry.seconds.items() if second > now - _WINDOW_S]
        pulls = sum(bucket.pulls for bucket in recent)
        consumed, failed = sum(bucket.consumed for bucket in recent), sum(bucket.failed for bucket in recent)
        for old in [minute for minute in entry.failures if minute * 60 < now - _FAILURES_S]:
            del entry.failures[old]
        return ConsumeStatus(
            pull_ms=sum(bucket.pull_ms for bucket in recent) / pulls if pulls else 0.0,
            pull_tps=sum(bucket.pulled for bucket in recent) / _WINDOW_S,
            consume_ms=sum(bucket.consume_ms for bucket in recent) / ((consumed + failed) or 1),
            consume_ok_tps=consumed / _WINDOW_S,
            consume_failed_tps=failed / _WINDOW_S,
            consume_failed_messages=sum(entry.failures.values()),
        )
