"""The lite pull consumer: the application polls; queues are shared by the group or chosen by hand."""

from __future__ import annotations

import logging
import ssl
import threading
import weakref
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Self

from brokercore.client.consumption import ConsumeMeter
from brokercore.client.errors import ClientClosed, ClientError
from brokercore.client.messages import MessageView
from brokercore.client.offsets import QueueOffsets
from brokercore.client.process_queue import ProcessQueue
from brokercore.client.push_consumer import ConsumeFrom
from brokercore.client.running_consumer import ConsumerSettings, RunningConsumer
from brokercore.client.session import Credentials, new_client_id
from brokercore.client.subscriber import MessageSelector, Subscriber
from brokercore.client.threads import Scheduler
from brokercore.names import wrap
from brokercore.protocol.bodies.clients import CLUSTERING, CONSUME_ACTIVELY
from brokercore.protocol.errors import ProtocolError
from brokercore.protocol.message import StoredMessage
from brokercore.protocol.message_queue import MessageQueue

log = logging.getLogger(__name__)


class LitePullConsumer(Subscriber):
    """Consumes for a group by poll(); a context manager, safe in threads. Make it in the process that consumes.

    Either `subscribe` (queues are shared with the other clients of the group, and taken over from them) or `assign`
    (these queues and no others). What poll() returned counts as consumed with the next poll() of the same thread, or
    with commit(). Consumed offsets are committed every 5 s and at close(), unless `auto_commit` is off; then only
    commit() does. At most `max_cached_messages` and `max_cached_bytes` wait in memory, 1000 and 100 MiB of one queue.
    """

    KIND = "lite pull consumer"

    def __init__(
        self,
        namesrv: str,
        credentials: Credentials | None,
        group: str,
        *,
        namespace: str = "",
        auto_commit: bool = True,
        consume_from: ConsumeFrom = "CONSUME_FROM_LAST_OFFSET",
        consume_timestamp_ms: int | None = None,
        max_cached_messages: int = 10_000,
        max_cached_bytes: int = 256 * 1024 * 1024,
        timeout_ms: int = 3000,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(namesrv, credentials, group, namespace=namespace, timeout_ms=timeout_ms, tls=tls)
        self._auto_commit = auto_commit
        self._consume_from = consume_from
        self._consume_timestamp_ms = consume_timestamp_ms
        self._queue_offsets = QueueOffsets(self._session, self._routes)
        self._cache = PollCache(max_cached_messages, max_cached_bytes)
        self._assigned: dict[str, list[MessageQueue]] | None = None
        self._polled: weakref.WeakKeyDictionary[threading.Thread, list[tuple[ProcessQueue, int]]]
        self._polled = weakref.WeakKeyDictionary()

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._polled.clear()  # what was being worked on when it failed comes again
        self.close()

    # Which queues

    def subscribe(self, topic: str, selector: str | MessageSelector = "*") -> Self:
        """Share the queues of a topic with the group; only messages that pass come (see MessageSelector).

        Raises SubscriptionError for malformed tags, ClientError after assign().
        """
        if self._assigned is not None:
            raise ClientError("A lite pull consumer either subscribes to topics or is assigned queues, not both.")
        self._want(topic, selector)
        return self

    def assign(self, queues: Iterable[MessageQueue]) -> Self:
        """Read these queues and no others, whatever the group does; may be called again. Raises ClientError."""
        if self._subscriptions:
            raise ClientError("A lite pull consumer either subscribes to topics or is assigned queues, not both.")
        by_topic: defaultdict[str, list[MessageQueue]] = defaultdict(list)
        for queue in queues:
            by_topic[queue.topic].append(queue)
        self._assigned = dict(by_topic)
        if self._running is not None:
            self._running.reassign()
        return self

    def fetch_queues(self, topic: str) -> list[MessageQueue]:
        """All queues of a topic. Raises TopicNotExist."""
        return self._routes.read_queues(wrap(self.namespace, topic), fresh=True)

    def assignment(self) -> list[MessageQueue]:
        """The queues this consumer has now; a moment after start() for a subscription."""
        return sorted(item.queue for item in self._require().owned())

    # Life

    def start(self) -> Self:
        """Join the group and begin to pull. Raises ClientError when brokers refuse or cannot be reached."""
        if self._running is not None:
            raise ClientError("The lite pull consumer was started already.")
        if not self._subscriptions and self._assigned is None:
            raise ClientError("A lite pull consumer needs a subscription or an assignment before it starts.")
        self.client_id = new_client_id(self._session.name_servers[0])
        settings = ConsumerSettings(
            self.group,
            CLUSTERING,
            CONSUME_ACTIVELY,
            self._consume_from,
            self.client_id,
            self._consume_timestamp_ms,
            auto_commit=self._auto_commit,
            commit_on_pull=False,
        )
        self._running = RunningConsumer(
            self._session,
            self._routes,
            settings,
            subscriptions=self._subscriptions,
            assigned=lambda: self._assigned,
            scheduler=Scheduler(f"pull {self.group}"),
            deliveries=self._cache,
            meter=ConsumeMeter(),
            handle=None,
            properties={},
            jobs=[],
        )
        try:
            self._running.start()
        except ClientError:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Stop pulling, wake up who polls, commit when `auto_commit`, leave the group. Can be called again.

        A `with` block that ends with an exception leaves out what its last poll() returned.
        """
        running, self._running = self._running, None
        for thread in list(self._polled):
            self._finish(thread)
        if running is not None:
            running.stop(0)
        self._session.close()

    def poll(self, timeout_s: float = 1.0, max_messages: int = 32) -> list[MessageView]:
        """Wait for messages, at most `timeout_s`; [] when none came. Those of one queue come in its order.

        Raises ClientClosed unless it runs. An outage is no exception: polling goes on when the broker is back.
        """
        running = self._require()
        thread = threading.current_thread()
        self._finish(thread)
        polled = self._cache.poll(max_messages, timeout_s)
        if self._running is not running:
            raise ClientClosed("The lite pull consumer was closed.")
        self._polled[thread] = [(item, message.queue_offset) for item, message in polled]
        views = []
        for item, message in polled:
            try:
                views.append(MessageView.of(message, item.queue.broker_name, self.namespace))
            except ProtocolError as error:
                log.warning("message %s cannot be read and is passed over: %s", message.unique_id, error)
        return views

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Let poll() return nothing of these queues, and pull no more of them, until resume()."""
        self._cache.pause(queues)

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Undo pause()."""
        self._cache.resume(queues)

    def paused(self) -> list[MessageQueue]:
        """The queues that are paused."""
        return sorted(self._cache.paused())

    # Offsets

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Let the next poll() begin at an offset of an assigned queue. Raises ClientError when it is not assigned."""
        if not self._require().rebalancer.jump(queue, offset, commit=False):
            raise ClientError(f"Queue {queue.queue_id} of {queue.topic} on {queue.broker_name} is not assigned here.")

    def seek_to_begin(self, queue: MessageQueue) -> None:
        """Go to the first message that is still stored."""
        self.seek(queue, self._queue_offsets.min(queue))

    def seek_to_end(self, queue: MessageQueue) -> None:
        """Go behind the last message."""
        self.seek(queue, self._queue_offsets.max(queue))

    def seek_to_timestamp(self, queue: MessageQueue, timestamp_ms: int) -> None:
        """Go to the first message stored at or after a time (epoch ms)."""
        self.seek(queue, self._queue_offsets.search(queue, timestamp_ms))

    def offset_for_timestamp(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """Offset of the first message stored at or after a time (epoch ms)."""
        return self._queue_offsets.search(queue, timestamp_ms)

    def position(self, queue: MessageQueue) -> int:
        """Offset of the next message that poll() returns of an assigned queue. Raises ClientError when it is not."""
        for item in self._require().owned():
            if item.queue == queue:
                first = self._cache.first_offset(item)
                return item.pull_offset if first is None else first
        raise ClientError(f"Queue {queue.queue_id} of {queue.topic} on {queue.broker_name} is not assigned here.")

    def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Commit what this thread has polled (and other threads have done), or these offsets; wait until it is kept.

        Raises ClientError.
        """
        running = self._require()
        if offsets is not None:
            self._queue_offsets.commit(self.group, offsets)
            return
        self._finish(threading.current_thread())
        running.offsets.commit(running.owned(), wait=True)

    def committed(self, queue: MessageQueue) -> int | None:
        """The committed offset of the group, asked of the broker; None when there is none."""
        return self._queue_offsets.committed(self.group, queue)

    def _finish(self, thread: threading.Thread) -> None:
        for item, offset in self._polled.pop(thread, ()):
            item.finish(offset)


class PollCache:
    """Messages by queue. Pulling pauses above `max_messages` or `max_bytes` in all queues together."""

    def __init__(self, max_messages: int, max_bytes: int) -> None:
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self._changed = threading.Condition()
        self._lines: dict[ProcessQueue, deque[StoredMessage]] = {}
        self._paused: set[MessageQueue] = set()
        self._messages = 0
        self._bytes = 0
        self._stopped = False

    def deliver(self, item: ProcessQueue, message: StoredMessage) -> None:
        with self._changed:
            self._lines.setdefault(item, deque()).append(message)
            self._messages += 1
            self._bytes += message.total_size
            self._changed.notify()

    def is_full(self, item: ProcessQueue) -> bool:
        return (
            item.is_full
            or item.queue in self._paused
            or self._messages >= self._max_messages
            or self._bytes >= self._max_bytes
        )

    def release(self, item: ProcessQueue, then: Callable[[], None]) -> None:
        with self._changed:
            self._drop(item)
            self._paused.discard(item.queue)
        then()

    def stop(self, timeout_s: float) -> bool:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        return True

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Give out nothing of these queues, and pull nothing more of them."""
        with self._changed:
            self._paused.update(queues)

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Undo `pause`."""
        with self._changed:
            self._paused.difference_update(queues)
            self._changed.notify_all()

    def paused(self) -> set[MessageQueue]:
        """The queues that are paused now."""
        with self._changed:
            return set(self._paused)

    def first_offset(self, item: ProcessQueue) -> int | None:
        """Offset of the first message of a queue that waits here."""
        with self._changed:
            line = self._lines.get(item)
            return line[0].queue_offset if line else None

    def poll(self, max_messages: int, timeout_s: float) -> list[tuple[ProcessQueue, StoredMessage]]:
        """Up to so many messages, those of one queue in its order; [] when none came in time or after stop()."""
        polled: list[tuple[ProcessQueue, StoredMessage]] = []
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or self._ready(), timeout_s)
            for item in () if self._stopped else self._ready():
                line = self._lines.pop(item)
                while line and len(polled) < max_messages:
                    message = line.popleft()
                    self._messages -= 1
                    self._bytes -= message.total_size
                    polled.append((item, message))
                if line:
                    self._lines[item] = line  # behind the others: each queue has its turn
                if len(polled) >= max_messages:
                    break
        return polled

    def _ready(self) -> list[ProcessQueue]:
        for item in [item for item in self._lines if item.dropped]:
            self._drop(item)
        return [item for item in self._lines if item.queue not in self._paused]

    def _drop(self, item: ProcessQueue) -> None:
        for message in self._lines.pop(item, ()):
            self._messages -= 1
            self._bytes -= message.total_size
