"""Which queues are ours: every client of a group computes the same allocation from the same lists."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Iterable, Sequence

from brokercore.client.errors import ClientError, TopicNotExist
from brokercore.client.membership import ConsumerMembership
from brokercore.client.offsets import OffsetStore
from brokercore.client.process_queue import ProcessQueue
from brokercore.client.routes import Routes
from brokercore.protocol.message_queue import MessageQueue

log = logging.getLogger(__name__)

SOON_S = 2.0
"""When something is still missing (a route, our own name in the member list), look again after this time."""


def allocate_averagely(queues: Sequence[MessageQueue], clients: Sequence[str], client: str) -> list[MessageQueue]:
    """Java's AllocateMessageQueueAveragely: contiguous blocks, the first n mod m clients have one more."""
    ordered, members = sorted(queues), sorted(set(clients))
    if client not in members:
        return []
    index = members.index(client)
    size, extra = divmod(len(ordered), len(members))
    start = index * size + min(index, extra)
    return ordered[start : start + size + (1 if index < extra else 0)]


class Rebalancer:
    """Takes and gives up queues; the table of owned queues lives here."""

    def __init__(
        self,
        *,
        group: str,
        broadcasting: bool,
        topics: Callable[[], Iterable[str]],
        routes: Routes,
        membership: ConsumerMembership,
        offsets: OffsetStore,
        first_offset: Callable[[MessageQueue], int],
        start_pulling: Callable[[ProcessQueue], None],
    ) -> None:
        self._group = group
        self._broadcasting = broadcasting
        self._topics = topics
        self._routes = routes
        self._membership = membership
        self._offsets = offsets
        self._first_offset = first_offset
        self._start_pulling = start_pulling
        self._lock = threading.Lock()
        self._owned: dict[MessageQueue, ProcessQueue] = {}

    def owned(self) -> list[ProcessQueue]:
        """The queues this consumer has now."""
        with self._lock:
            return list(self._owned.values())

    def run(self) -> float | None:
        """Look at routes and members, take and give up queues. Returns the seconds to the next look when it is soon.

        Raises ClientError when no broker of the topics can be reached.
        """
        queues: dict[str, list[MessageQueue]] = {}
        complete = True
        for topic in self._topics():
            try:
                queues[topic] = self._routes.read_queues(topic)
                self._membership.join(self._routes.masters(topic).values())
            except TopicNotExist:
                complete = False
                if not topic.startswith("%RETRY%"):
                    log.warning("topic %s has no route yet", topic)
        for topic, all_queues in queues.items():
            mine = self._mine(topic, all_queues)
            done = mine is not None and self._update(topic, mine)
            complete = complete and done
        return None if complete else SOON_S

    def jump(self, queue: MessageQueue, offset: int) -> None:
        """Go on at another offset: it was reset, or the old one is outside the queue."""
        with self._lock:
            old = self._owned.get(queue)
            if old is None:
                return
            old.dropped = True
            fresh = self._owned[queue] = ProcessQueue(queue, offset)
        try:
            self._offsets.commit([fresh], wait=True)
        finally:
            self._start_pulling(fresh)

    def release_all(self) -> None:
        """Give up every queue; results that come later do not count."""
        with self._lock:
            for item in self._owned.values():
                item.dropped = True
            self._owned.clear()

    def _mine(self, topic: str, queues: list[MessageQueue]) -> list[MessageQueue] | None:
        if self._broadcasting:
            return queues
        masters = list(self._routes.masters(topic).values())
        if not masters:
            return None
        address = random.choice(masters)
        members = self._membership.members(address, self._group)
        if self._membership.client_id not in members:
            self._membership.lost(address)
            self._membership.join([address])
            members = self._membership.members(address, self._group)
        if self._membership.client_id not in members:
            return None
        return allocate_averagely(queues, members, self._membership.client_id)

    def _update(self, topic: str, mine: list[MessageQueue]) -> bool:
        with self._lock:
            given_up = [item for queue, item in self._owned.items() if queue.topic == topic and queue not in mine]
            for item in given_up:
                item.dropped = True
                del self._owned[item.queue]
            wanted = [queue for queue in mine if queue not in self._owned]
        if given_up:
            log.info("%s gives up %s", self._group, [item.queue for item in given_up])
            self._keep_offsets(given_up)
        complete = True
        for queue in wanted:
            try:
                self._take(queue)
            except ClientError as error:
                log.warning("%s cannot take %s yet: %s", self._group, queue, error)
                complete = False
        return complete

    def _keep_offsets(self, given_up: list[ProcessQueue]) -> None:
        try:
            self._offsets.commit(given_up, wait=True)
        except ClientError as error:
            log.warning("%s: offsets of queues given up were not committed: %s", self._group, error)

    def _take(self, queue: MessageQueue) -> None:
        offset = self._offsets.read(queue)
        item = ProcessQueue(queue, self._first_offset(queue) if offset is None else offset)
        item.committed = offset
        with self._lock:
            self._owned[queue] = item
        log.info("%s takes %s at offset %d", self._group, queue, item.pull_offset)
        self._start_pulling(item)
