"""The lite pull consumer: the application polls; queues are shared by the group or chosen by hand."""

from __future__ import annotations

import logging
import ssl
import threading
import time
import weakref
from collections import defaultdict
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Self

from brokercore.client.credentials import Credentials
from brokercore.client.errors import ClientClosed, ClientError
from brokercore.client.fork import restart_after_fork
from brokercore.client.identity import new_client_id
from brokercore.client.messages import MessageView
from brokercore.client.meter import ConsumeMeter
from brokercore.client.namespace import wrap
from brokercore.client.poll_cache import PollCache
from brokercore.client.process_queue import ProcessQueue
from brokercore.client.push_consumer import ConsumeFrom
from brokercore.client.queue_offsets import QueueOffsets
from brokercore.client.routes import Routes
from brokercore.client.running_consumer import ConsumerSettings, RunningConsumer
from brokercore.client.scheduler import Scheduler
from brokercore.client.selector import MessageSelector
from brokercore.client.session import Session
from brokercore.client.subscriber import Subscriber
from brokercore.protocol.bodies.clients import RunningInfo
from brokercore.protocol.bodies.heartbeat import CLUSTERING, CONSUME_ACTIVELY
from brokercore.protocol.errors import ProtocolError
from brokercore.protocol.message_queue import MessageQueue

log = logging.getLogger(__name__)


class LitePullConsumer(Subscriber):
    """Consumes for a group by poll(); a context manager, safe in threads. Make it in the process that consumes.

    Either `subscribe` (queues are shared with the other clients of the group, and taken over from them) or `assign`
    (these queues and no others). What poll() returned counts as consumed with the next poll() of the same thread, or
    with commit(). Consumed offsets are committed every 5 s and at close(), unless `auto_commit` is off; then only
    commit() does. At most `max_cached_messages` and `max_cached_bytes` wait in memory, 1000 and 100 MiB of one queue.
    """

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
        super().__init__(namespace)
        self.group = wrap(namespace, group)
        self._auto_commit = auto_commit
        self._consume_from = consume_from
        self._consume_timestamp_ms = consume_timestamp_ms
        self._session = Session(namesrv, credentials, timeout_ms=timeout_ms, tls=tls)
        self._routes = Routes(self._session)
        self._queue_offsets = QueueOffsets(self._session, self._routes)
        self._cache = PollCache(max_cached_messages, max_cached_bytes)
        self._assigned: dict[str, list[MessageQueue]] | None = None
        self._polled: weakref.WeakKeyDictionary[threading.Thread, list[tuple[ProcessQueue, int]]]
        self._polled = weakref.WeakKeyDictionary()
        self._started_ms = 0
        self.client_id = ""
        restart_after_fork(self)

    def __enter__(self) -> Self:
        return self

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
        self._started_ms = int(time.time() * 1000)
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
            running_info=self.running_info,
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
        taken = self._cache.take(max_messages, timeout_s)
        if self._running is not running:
            raise ClientClosed("The lite pull consumer was closed.")
        self._polled[thread] = [(item, message.queue_offset) for item, message in taken]
        views = []
        for item, message in taken:
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
        self.seek(queue, self._queue_offsets.min_offset(queue))

    def seek_to_end(self, queue: MessageQueue) -> None:
        """Go behind the last message."""
        self.seek(queue, self._queue_offsets.max_offset(queue))

    def seek_to_timestamp(self, queue: MessageQueue, timestamp_ms: int) -> None:
        """Go to the first message stored at or after a time (epoch ms)."""
        self.seek(queue, self._queue_offsets.search_offset(queue, timestamp_ms))

    def offset_for_timestamp(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """Offset of the first message stored at or after a time (epoch ms)."""
        return self._queue_offsets.search_offset(queue, timestamp_ms)

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

    def running_info(self) -> RunningInfo:
        """What this consumer tells a console of itself. Raises ClientClosed unless it runs."""
        running = self._require()
        return RunningInfo(
            properties={
                "PROP_CONSUME_TYPE": CONSUME_ACTIVELY,
                "PROP_CLIENT_VERSION": "V5_3_3",
                "PROP_CONSUMER_START_TIMESTAMP": str(self._started_ms),
                "PROP_NAMESERVER_ADDR": ";".join(self._session.name_servers),
                "consumerGroup": self.group,
                "messageModel": CLUSTERING,
                "consumeFromWhere": self._consume_from,
                "clientLanguage": "PYTHON",
            },
            subscriptions=list(self._subscriptions.values()),
            queues={item.queue: item.info() for item in running.owned()},
            status=running.meter.status(),
        )

    def _finish(self, thread: threading.Thread) -> None:
        for item, offset in self._polled.pop(thread, ()):
            item.finish(offset)

    def _require(self) -> RunningConsumer:
        running = self._running
        if running is None:
            raise ClientClosed("The lite pull consumer does not run.")
        return running
