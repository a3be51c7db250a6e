"""Consumer status of a group: who is online, how far it has come, and whether its clients agree.

Vendor operations consumer/status, consumer/accumulate, consumer/getConnection and consumer/timespan.
"""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import suppress
from dataclasses import dataclass, field

from django.utils.translation import gettext as _

from brokercore.client import (
    Admin,
    Connection,
    ConsumerConnection,
    MessageQueue,
    QueueProgress,
    RunningInfo,
    Subscription,
)
from brokercore.client.errors import ClientError, ConsumerNotOnline, QueryNotFound, SystemFault
from brokercore.names import group_of, is_retry_topic, retry_topic
from brokercore.policy import mq_resource
from console.accounts.actor import Actor
from console.instances import broker
from console.topics.models import Group, Topic
from console.topics.names import shown_name
from console.web import fair_queue

_VERSION_4_0_0 = 213
MAX_DELAY_PULLS = 32
"""Queues whose oldest waiting message is looked at; the others are judged by their last consumed message."""

MAX_CLIENTS = 32
"""Clients asked at once; of a larger group the rest is listed as not asked."""
DEADLINE_SECONDS = 5.0
_THREADS = 8


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
        stats = admin.groups.stats(group.physical_name)
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
        return admin.clients.consumers(group.physical_name)
    except ConsumerNotOnline:
        return None


def topics_by_backlog(group: Group) -> list[str]:
    """Physical names of the topics in which the group has offsets, largest backlog first, then those it subscribes to.

    Its retry topic is not among them. Raises ClientError.
    """
    admin = broker.admin(group.instance.cluster)
    behind: dict[str, int] = {}
    with suppress(QueryNotFound, SystemFault):  # as in `group_status`
        for queue, row in admin.groups.stats(group.physical_name).queues.items():
            behind[queue.topic] = behind.get(queue.topic, 0) + max(0, row.broker_offset - row.consumer_offset)
    connection = online_clients(admin, group)
    subscribed = sorted(connection.subscriptions) if connection else []
    known = sorted(behind, key=lambda topic: (-behind[topic], topic))
    return [topic for topic in dict.fromkeys([*known, *subscribed]) if not is_retry_topic(topic)]


def clients_of(group: Group) -> ConsumerConnection | None:
    """As `online_clients`, for callers that need nothing else of the broker. Raises ClientError."""
    return online_clients(broker.admin(group.instance.cluster), group)


def oldest_waits_s(group: Group) -> float | None:
    """How old the oldest message is that the group has not consumed, seconds; None where none waits.

    Looks at the messages themselves, a pull for each queue in which some wait. Raises ClientError.
    """
    admin = broker.admin(group.instance.cluster)
    try:
        progress = dict(admin.groups.stats(group.physical_name).queues)
    except (QueryNotFound, SystemFault):  # as in `group_status`
        return None
    return max(_delays(admin, progress).values(), default=0) / 1000 or None


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
    spans = broker.admin(group.instance.cluster).offsets.time_span(physical_topic, group.physical_name).values()
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
            oldest = admin.messages.pull(queue, row.consumer_offset, 1).messages
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
    is_retry = physical_topic == retry_topic(group.physical_name)
    shown = shown_name(group.instance, physical_topic)
    return TopicStatus(
        topic=group_of(shown) if is_retry else shown,
        physical_topic=physical_topic,
        is_retry=is_retry,
        backlog=sum(q.backlog for q in queues),
        last_timestamp_ms=max(q.last_timestamp_ms for q in queues),
        delay_ms=max(q.delay_ms for q in queues),
        queues=queues,
    )


def release(version: int) -> str:
    """The release behind a version ordinal (MQVersion), two a patch level since 4.0.0: 479 is 5.3.3."""
    since_4 = version - _VERSION_4_0_0
    if since_4 < -1:
        return _("version %(version)s") % {"version": version}
    patches = (since_4 + 1) // 2
    snapshot = "-SNAPSHOT" if since_4 % 2 else ""
    return f"{4 + patches // 100}.{patches // 10 % 10}.{patches % 10}{snapshot}"


@dataclass(frozen=True)
class RunningTopic:
    """What a client says of its work on one topic: milliseconds and messages a second."""

    topic: str
    response_ms: float
    ok_tps: float
    failed_tps: float
    failed_per_hour: int


@dataclass(frozen=True)
class ClientStatus:
    """One client. `problem` says why nothing but the connection is known; `stack` only when it was asked for.

    `subscriptions` are expressions by topic without namespace, `subscription_data` all of them as the client has them.
    """

    connection: Connection
    subscriptions: dict[str, str] = field(default_factory=dict)
    subscription_data: list[Subscription] = field(default_factory=list)
    queues: list[MessageQueue] = field(default_factory=list)
    #: Whether it pops, as clients of gRPC do: then it holds no queues, and receives from all of them.
    pops: bool = False
    consume_type: str = ""
    consume_model: str = ""
    threads: int | None = None
    started_at_ms: int | None = None
    last_pull_ms: int | None = None
    last_consume_ms: int | None = None
    running: list[RunningTopic] = field(default_factory=list)
    stack: str = ""
    problem: str = ""


@dataclass(frozen=True)
class Diagnosis:
    """The clients of a group. None means: cannot be told, since not every client answered.

    `subscription_same`: all have the same subscriptions. `rebalance_ok`: every queue of the subscribed topics is
    assigned to exactly one client (always so in broadcasting mode, and where clients pop). `differences` and
    `unassigned` say where not.
    """

    clients: list[ClientStatus]
    subscription_same: bool | None
    rebalance_ok: bool | None
    differences: list[str]
    unassigned: list[str]

    @property
    def partial(self) -> bool:
        """True when some client did not answer."""
        return any(c.problem for c in self.clients)


def diagnose(group: Group, *, jstack: bool = False) -> Diagnosis:
    """Ask every client of the group, at most five seconds long; with `jstack` for the stacks of its threads too.

    Each is asked through the broker (GET_CONSUMER_RUNNING_INFO) and may not answer.
    Raises ClientError when the broker fails.
    """
    admin = broker.admin(group.instance.cluster)
    connection = online_clients(admin, group)
    if connection is None:
        return Diagnosis([], None, None, [], [])
    clients = _ask_all(admin, group, connection, jstack=jstack)
    same, differences = _compare_subscriptions(clients)
    rebalance_ok, unassigned = _check_assignment(admin, group, connection, clients)
    return Diagnosis(clients, same, rebalance_ok, differences, unassigned)


def thread_stack(group: Group, client_id: str) -> str:
    """The stack of every thread of one client. Raises ClientError when the client does not answer."""
    info = broker.admin(group.instance.cluster).clients.running_info(group.physical_name, client_id, jstack=True)
    return info.jstack or ""


def _ask_all(admin: Admin, group: Group, heartbeat: ConsumerConnection, *, jstack: bool) -> list[ClientStatus]:
    asked, rest = heartbeat.connections[:MAX_CLIENTS], heartbeat.connections[MAX_CLIENTS:]
    pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="running-info")
    answers = [pool.submit(admin.clients.running_info, group.physical_name, c.client_id, jstack) for c in asked]
    with fair_queue.aside():
        wait_for(answers, timeout=DEADLINE_SECONDS)
    pool.shutdown(wait=False, cancel_futures=True)
    clients = [_client_status(group, heartbeat, c, answer) for c, answer in zip(asked, answers, strict=True)]
    return clients + [
        _silent(
            heartbeat, c, _("Not asked: more than %(max_clients)s clients are online.") % {"max_clients": MAX_CLIENTS}
        )
        for c in rest
    ]


def _silent(heartbeat: ConsumerConnection, connection: Connection, problem: str) -> ClientStatus:
    """What the heartbeat of the group tells of a client that does not answer."""
    consume_type = shown_consume_type(heartbeat.consume_type)
    return ClientStatus(connection, consume_type=consume_type, consume_model=heartbeat.message_model, problem=problem)


def _client_status(
    group: Group, heartbeat: ConsumerConnection, connection: Connection, answer: Future[RunningInfo]
) -> ClientStatus:
    if answer.cancelled() or not answer.done():
        return _silent(
            heartbeat,
            connection,
            _("No answer within %(deadline_seconds)s seconds.") % {"deadline_seconds": f"{DEADLINE_SECONDS:.0f}"},
        )
    try:
        info = answer.result()
    except ClientError as error:
        return _silent(heartbeat, connection, error.user_message)
    return ClientStatus(
        connection,
        subscriptions={
            shown_name(group.instance, s.topic): s.expression for s in info.subscriptions if not is_retry_topic(s.topic)
        },
        subscription_data=sorted(info.subscriptions, key=lambda s: s.topic),
        queues=sorted(info.queues),
        pops=info.pops,
        consume_type=shown_consume_type(info.properties.get("PROP_CONSUME_TYPE", "")),
        consume_model=info.properties.get("messageModel", "") or heartbeat.message_model,
        threads=_number(info.properties.get("PROP_THREADPOOL_CORE_SIZE")),
        started_at_ms=_number(info.properties.get("PROP_CONSUMER_START_TIMESTAMP")),
        last_pull_ms=_newest(info, "lastPullTimestamp"),
        last_consume_ms=_newest(info, "lastConsumeTimestamp"),
        running=[
            RunningTopic(
                shown_name(group.instance, topic),
                row.consume_ms,
                row.consume_ok_tps,
                row.consume_failed_tps,
                row.consume_failed_messages,
            )
            for topic, row in sorted(info.status.items())
            if not is_retry_topic(topic)
        ],
        stack=info.jstack,
    )


def _compare_subscriptions(clients: list[ClientStatus]) -> tuple[bool | None, list[str]]:
    answered = [c for c in clients if not c.problem]
    if not answered:
        return None, []
    usual = Counter(tuple(sorted(c.subscriptions.items())) for c in answered).most_common(1)[0][0]
    odd = [c for c in answered if tuple(sorted(c.subscriptions.items())) != usual]
    differences = [f"{c.connection.client_id}: {_subscription_text(c.subscriptions)}" for c in odd]
    if differences:
        differences.insert(0, _("The others: %(usual)s") % {"usual": _subscription_text(dict(usual))})
        return False, differences
    return (True if len(answered) == len(clients) else None), []


def _check_assignment(
    admin: Admin, group: Group, connection: ConsumerConnection, clients: list[ClientStatus]
) -> tuple[bool | None, list[str]]:
    if connection.message_model == "BROADCASTING" or any(client.pops for client in clients):
        return True, []
    holders = Counter(queue for c in clients for queue in c.queues)
    topics = [t for t in connection.subscriptions if not is_retry_topic(t)]
    wanted = [queue for stats in admin.topics.stats_of(topics).values() for queue in stats]
    complete = all(not c.problem for c in clients)
    wrong = [
        (
            _("%(topic)s, queue %(queue_id)s on %(broker)s: held by no client")
            if holders[q] == 0
            else _("%(topic)s, queue %(queue_id)s on %(broker)s: held by %(holders)s clients")
        )
        % {
            "topic": shown_name(group.instance, q.topic),
            "queue_id": q.queue_id,
            "broker": q.broker_name,
            "holders": holders[q],
        }
        for q in sorted(wanted)
        if holders[q] > 1 or (holders[q] == 0 and complete)
    ]
    if wrong:
        return False, wrong
    return (True if complete else None), []


def _subscription_text(subscriptions: dict[str, str]) -> str:
    return ", ".join(f"{topic} ({text})" for topic, text in sorted(subscriptions.items())) or _("nothing")


def _newest(info: RunningInfo, name: str) -> int | None:
    """The latest of a time (epoch ms) that the client gives per queue."""
    times = [row.get(name) for row in info.queues.values()]
    return max((t for t in times if isinstance(t, int) and t > 0), default=None)


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None


@dataclass(frozen=True)
class OnlineSubscriber:
    """A group with clients online that subscribe to a topic."""

    group_id: str
    expression: str
    message_model: str


@dataclass(frozen=True)
class GroupSubscriptions:
    """What the clients of an online group subscribe to: expressions by topic, without namespace."""

    message_model: str
    topics: dict[str, str]


def online_subscribers(actor: Actor, topic: Topic) -> list[OnlineSubscriber]:
    """The actor's own groups, as far as it may see them, that are online and subscribe to the topic, by group ID.

    Raises ClientError. One call a group, so a topic with very many groups takes its time.
    """
    admin = broker.admin(topic.instance.cluster)
    names = admin.topics.groups(topic.physical_name)
    groups = Group.objects.filter(
        owner=actor.tenant, cluster=topic.instance.cluster, physical_name__in=names
    ).select_related("owner", "creator")
    found = []
    for group in groups.order_by("group_id"):
        resource = mq_resource(group.physical_name)
        if not actor.decide("mq:QueryGroup", resource, owner=group.owner, holder=group.holder).allowed:
            continue
        try:
            connection = admin.clients.consumers(group.physical_name)
        except ConsumerNotOnline:
            continue
        subscription = connection.subscriptions.get(topic.physical_name)
        if subscription is not None:
            found.append(OnlineSubscriber(group.group_id, subscription.expression, connection.message_model))
    return found


def group_subscriptions(group: Group) -> GroupSubscriptions | None:
    """What the group subscribes to, its own retry topic left out; None while no client is online."""
    try:
        connection = broker.admin(group.instance.cluster).clients.consumers(group.physical_name)
    except ConsumerNotOnline:
        return None
    topics = {
        shown_name(group.instance, name): subscription.expression
        for name, subscription in sorted(connection.subscriptions.items())
        if not is_retry_topic(name)
    }
    return GroupSubscriptions(connection.message_model, topics)
