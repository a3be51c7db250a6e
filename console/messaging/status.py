"""Consumer status of a group: who is online, how far it has come, and whether its clients agree.

Vendor operations consumer/status, consumer/accumulate, consumer/getConnection and consumer/timespan.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from brokercore.client import Admin, Connection, ConsumerConnection, MessageQueue, QueueProgress
from brokercore.client.errors import ConsumerNotOnline, QueryNotFound, SystemFault
from console.instances import broker
from console.messaging.names import RETRY_PREFIX, retry_topic, shown_name
from console.topics.models import Group

MAX_DELAY_PULLS = 32
"""Queues whose oldest waiting message is looked at; the others are judged by their last consumed message."""


@dataclass(frozen=True)
class QueueStatus:
    """Progress in one queue. Times are epoch milliseconds, 0 when nothing was consumed yet."""

    broker_name: str
    queue_id: int
    broker_offset: int
    consumer_offset: int
    backlog: int
    last_timestamp_ms: int
    delay_ms: int


@dataclass(frozen=True)
class TopicStatus:
    """Progress in one topic; `topic` is without namespace, `is_retry` marks the group's own retry topic."""

    topic: str
    physical_topic: str
    is_retry: bool
    backlog: int
    last_timestamp_ms: int
    delay_ms: int
    queues: list[QueueStatus]


@dataclass(frozen=True)
class GroupStatus:
    """The state of a group. `consume_model` and `consume_type` are empty while it is offline."""

    online: bool
    backlog: int
    consume_tps: float
    last_timestamp_ms: int
    delay_ms: int
    consume_model: str
    consume_type: str
    connections: list[Connection]
    topics: list[TopicStatus]
    subscribed: list[str] = field(default_factory=list)


def group_status(group: Group) -> GroupStatus:
    """The group's connections and progress, as the broker knows them now. Raises ClientError."""
    admin = broker.admin(group.instance.cluster)
    connection = online_clients(admin, group)
    try:
        stats = admin.consume_stats(group.physical_name)
        progress, tps = dict(stats.queues), stats.tps
    except (QueryNotFound, SystemFault):
        progress, tps = {}, 0.0  # a group that has never consumed has no offsets to answer with
    delays = _delays(admin, progress)
    by_topic: dict[str, list[QueueStatus]] = {}
    for queue, row in sorted(progress.items()):
        by_topic.setdefault(queue.topic, []).append(_queue_status(queue, row, delays[queue]))
    topics = [_topic_status(group, name, queues) for name, queues in by_topic.items()]
    topics.sort(key=lambda t: (t.is_retry, t.topic))
    return GroupStatus(
        online=connection is not None,
        backlog=sum(t.backlog for t in topics),
        consume_tps=tps,
        last_timestamp_ms=max((t.last_timestamp_ms for t in topics), default=0),
        delay_ms=max((t.delay_ms for t in topics), default=0),
        consume_model=connection.message_model if connection else "",
        consume_type=shown_consume_type(connection.consume_type) if connection else "",
        connections=connection.connections if connection else [],
        topics=topics,
        subscribed=sorted(shown_name(group.instance, t) for t in connection.subscriptions) if connection else [],
    )


def online_clients(admin: Admin, group: Group) -> ConsumerConnection | None:
    """Connections and subscriptions of the group, None when no client is online."""
    try:
        return admin.consumer_connection(group.physical_name)
    except ConsumerNotOnline:
        return None


def clients_of(group: Group) -> ConsumerConnection | None:
    """As `online_clients`, for callers that need nothing else of the broker. Raises ClientError."""
    return online_clients(broker.admin(group.instance.cluster), group)


def shown_consume_type(wire: str) -> str:
    """`PUSH` or `PULL` for the wire's CONSUME_PASSIVELY and CONSUME_ACTIVELY."""
    return {"CONSUME_PASSIVELY": "PUSH", "CONSUME_POP": "PUSH", "CONSUME_ACTIVELY": "PULL"}.get(wire, wire)


@dataclass(frozen=True)
class TimeSpan:
    """Store times of the oldest and newest message of a topic, and up to where a group consumed; 0 for none."""

    topic: str
    min_ms: int
    max_ms: int
    consumed_ms: int


def time_span(group: Group, physical_topic: str) -> TimeSpan:
    """The time span of a topic for a group (vendor operation consumer/timespan). Raises ClientError."""
    spans = broker.admin(group.instance.cluster).consume_time_span(physical_topic, group.physical_name).values()
    return TimeSpan(
        topic=shown_name(group.instance, physical_topic),
        min_ms=min((s.min_ms for s in spans if s.min_ms > 0), default=0),
        max_ms=max((s.max_ms for s in spans), default=0),
        consumed_ms=max((s.consume_ms for s in spans), default=0),
    )


def _delays(admin: Admin, progress: dict[MessageQueue, QueueProgress]) -> dict[MessageQueue, int]:
    """Milliseconds since the oldest unconsumed message of each queue was stored; 0 without backlog."""
    now = int(time.time() * 1000)
    waiting = sorted(
        (q for q, row in progress.items() if row.broker_offset > row.consumer_offset),
        key=lambda q: progress[q].last_timestamp_ms,
    )
    delays = dict.fromkeys(progress, 0)
    for number, queue in enumerate(waiting):
        row = progress[queue]
        since = row.last_timestamp_ms
        if number < MAX_DELAY_PULLS:
            oldest = admin.pull(queue, row.consumer_offset, 1).messages
            since = oldest[0].store_timestamp if oldest else since
        delays[queue] = max(0, now - since) if since > 0 else 0
    return delays


def _queue_status(queue: MessageQueue, row: QueueProgress, delay_ms: int) -> QueueStatus:
    return QueueStatus(
        broker_name=queue.broker_name,
        queue_id=queue.queue_id,
        broker_offset=row.broker_offset,
        consumer_offset=row.consumer_offset,
        backlog=max(0, row.broker_offset - row.consumer_offset),
        last_timestamp_ms=max(0, row.last_timestamp_ms),
        delay_ms=delay_ms,
    )


def _topic_status(group: Group, physical_topic: str, queues: list[QueueStatus]) -> TopicStatus:
    is_retry = physical_topic == retry_topic(group)
    shown = shown_name(group.instance, physical_topic)
    return TopicStatus(
        topic=shown.removeprefix(RETRY_PREFIX) if is_retry else shown,
        physical_topic=physical_topic,
        is_retry=is_retry,
        backlog=sum(q.backlog for q in queues),
        last_timestamp_ms=max(q.last_timestamp_ms for q in queues),
        delay_ms=max(q.delay_ms for q in queues),
        queues=queues,
    )
