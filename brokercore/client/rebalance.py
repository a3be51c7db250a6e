"""Which queues are ours: every client of a group computes the same allocation from the same lists."""

from __future__ import annotations

import logging
import random
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

import orjson

from brokercore.client.errors import BadResponse, ClientError, TopicNotExist
from brokercore.client.membership import ConsumerMembership
from brokercore.client.offsets import OffsetStore
from brokercore.client.process_queue import ProcessQueue
from brokercore.client.routes import Routes
from brokercore.client.session import Call, Session
from brokercore.names import is_retry_topic
from brokercore.protocol.codes import RequestCode
from brokercore.protocol.errors import LenientJsonError
from brokercore.protocol.fastjson import objects, read_object
from brokercore.protocol.message_queue import MessageQueue

log = logging.getLogger(__name__)

SOON_S = 2.0
"""When something is still missing (a route, our own name in the member list), look again after this time."""

Release = Callable[[ProcessQueue, Callable[[], None]], None]
"""Runs its second argument once the offset of a queue that was given up does not change any more."""

RENEW_S = 20.0
"""How often Java clients lock again; a broker frees a lock that was not renewed for 60 s."""


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
    """Takes and gives up queues; the table of owned queues lives here.

    With `locks` a queue is taken only together with the broker's lock on it. `assigned` returns queues that do not
    depend on the group, or None. Unless `commits`, offsets are kept only on request.
    """

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
        release: Release,
        locks: QueueLocks | None = None,
        assigned: Callable[[], Mapping[str, list[MessageQueue]] | None] = lambda: None,
        commits: bool = True,
    ) -> None:
        self._group = group
        self._broadcasting = broadcasting
        self._topics = topics
        self._routes = routes
        self._membership = membership
        self._offsets = offsets
        self._first_offset = first_offset
        self._start_pulling = start_pulling
        self._release = release
        self._locks = locks
        self._assigned = assigned
        self._commits = commits
        self._lock = threading.Lock()
        self._turn = threading.Lock()  # two runs at a time would take the same queue twice
        self._owned: dict[MessageQueue, ProcessQueue] = {}

    def owned(self) -> list[ProcessQueue]:
        """The queues this consumer has now."""
        with self._lock:
            return list(self._owned.values())

    def run(self) -> float | None:
        """Look at routes and members, take and give up queues. Returns the seconds to the next look when it is soon.

        Raises ClientError when no broker of the topics can be reached.
        """
        with self._turn:
            return self._run()

    def keep_locks(self) -> bool:
        """Renew the locks; a queue that another client has locked meanwhile is given up, unread messages and all.

        False unless all were renewed.
        """
        if self._locks is None:
            return True
        owned = self.owned()
        ours, others = self._locks.lock(item.queue for item in owned)
        for item in owned:
            if item.queue in ours:
                item.locked()
            elif item.queue in others:
                log.warning("%s: %s is locked by another client", self._group, item.queue)
                with self._lock:
                    item.dropped = True
                    if self._owned.get(item.queue) is item:
                        del self._owned[item.queue]
        return all(item.queue in ours for item in owned)

    def jump(self, queue: MessageQueue, offset: int, *, commit: bool = True) -> bool:
        """Go on at another offset: it was reset, or the old one is outside the queue. False when it is not ours."""
        with self._lock:
            old = self._owned.get(queue)
            if old is None:
                return False
            old.dropped = True
            fresh = self._owned[queue] = ProcessQueue(queue, offset)
            fresh.committed = old.committed
            if old.is_locked:
                fresh.locked()
        try:
            if commit:
                fresh.committed = None
                self._offsets.commit([fresh], wait=True)
        finally:
            self._start_pulling(fresh)
        return True

    def release_all(self) -> None:
        """Give up every queue; results that come later do not count."""
        with self._lock:
            queues = list(self._owned)
            for item in self._owned.values():
                item.dropped = True
            self._owned.clear()
        if self._locks is not None:
            self._locks.unlock(queues)

    def _run(self) -> float | None:
        queues, complete = self._wanted()
        for topic in {item.queue.topic for item in self.owned()} - queues.keys():
            if topic not in self._topics():
                queues[topic] = []
        for topic, mine in queues.items():
            complete = self._update(topic, mine) and complete
        return None if complete else SOON_S

    def _wanted(self) -> tuple[dict[str, list[MessageQueue]], bool]:
        """What should be ours by topic, as far as it is known, and whether all of it is."""
        assigned = self._assigned()
        if assigned is not None:
            for topic in assigned:
                self._membership.join(self._routes.masters(topic).values())
            return dict(assigned), True
        all_queues: dict[str, list[MessageQueue]] = {}
        complete = True
        for topic in self._topics():
            try:
                all_queues[topic] = self._routes.read_queues(topic)
                self._membership.join(self._routes.masters(topic).values())
            except TopicNotExist:
                complete = False
                if not is_retry_topic(topic):
                    log.warning("topic %s has no route yet", topic)
        # Every broker knows of the membership before the first list of members is asked for.
        mine = {topic: self._mine(topic, queues) for topic, queues in all_queues.items()}
        known = {topic: queues for topic, queues in mine.items() if queues is not None}
        return known, complete and len(known) == len(mine)

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
        for item in given_up:
            self._release(item, lambda item=item: self._let_go(item))  # type: ignore[misc]
        allowed = set(wanted)
        if self._locks is not None and wanted and not self._broadcasting:
            allowed = self._locks.lock(wanted)[0]
        complete = len(allowed) == len(wanted)
        for queue in sorted(allowed):
            try:
                self._acquire(queue)
            except ClientError as error:
                log.warning("%s cannot take %s yet: %s", self._group, queue, error)
                complete = False
        return complete

    def _let_go(self, item: ProcessQueue) -> None:
        """Keep the offset before the lock is given back: the next owner begins there."""
        try:
            if self._commits:
                self._offsets.commit([item], wait=True)
        except ClientError as error:
            log.warning("%s: the offset of %s was not committed: %s", self._group, item.queue, error)
        if self._locks is not None:
            self._locks.unlock([item.queue])

    def _acquire(self, queue: MessageQueue) -> None:
        offset = self._offsets.read(queue)
        item = ProcessQueue(queue, self._first_offset(queue) if offset is None else offset)
        item.committed = offset
        if self._locks is not None:
            item.locked()
        with self._lock:
            self._owned[queue] = item
        log.info("%s takes %s at offset %d", self._group, queue, item.pull_offset)
        self._start_pulling(item)


class QueueLocks:
    """LOCK_BATCH_MQ and UNLOCK_BATCH_MQ, one request for each broker."""

    def __init__(self, session: Session, routes: Routes, group: str, client_id: str) -> None:
        self._session = session
        self._routes = routes
        self._group = group
        self._client_id = client_id

    def lock(self, queues: Iterable[MessageQueue]) -> tuple[set[MessageQueue], set[MessageQueue]]:
        """What is ours now, and what another client holds. A broker that does not answer says neither."""
        calls = self._calls(RequestCode.LOCK_BATCH_MQ, queues)
        ours: set[MessageQueue] = set()
        others: set[MessageQueue] = set()
        results = self._session.call_all([call for call, _ in calls])
        for (call, asked), result in zip(calls, results, strict=True):
            if isinstance(result, ClientError):
                log.warning("locking queues of %s: %s", self._group, result)
                continue
            try:
                locked = {MessageQueue.from_dict(item) for item in objects(read_object(result.body), "lockOKMQSet")}
            except (LenientJsonError, TypeError, ValueError) as error:
                raise BadResponse(call.address, str(error)) from error
            ours |= locked & asked
            others |= asked - locked
        return ours, others

    def unlock(self, queues: Iterable[MessageQueue]) -> None:
        """Let other clients have them; a broker that cannot be reached frees them by itself."""
        for result in self._session.call_all([call for call, _ in self._calls(RequestCode.UNLOCK_BATCH_MQ, queues)]):
            if isinstance(result, ClientError):
                log.info("unlocking queues of %s: %s", self._group, result)

    def _calls(self, code: RequestCode, queues: Iterable[MessageQueue]) -> list[tuple[Call, set[MessageQueue]]]:
        by_broker: defaultdict[str, set[MessageQueue]] = defaultdict(set)
        for queue in queues:
            by_broker[queue.broker_name].add(queue)
        calls = []
        for broker_name, asked in by_broker.items():
            try:
                address = self._routes.address(broker_name)
            except ClientError as error:
                log.warning("locking queues of %s: %s", self._group, error)
                continue
            body = {
                "clientId": self._client_id,
                "consumerGroup": self._group,
                "mqSet": [queue.to_dict() for queue in sorted(asked)],
                "onlyThisBroker": False,
            }
            calls.append((Call(address, code, {}, orjson.dumps(body)), asked))
        return calls
