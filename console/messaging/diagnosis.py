"""Asking the clients of a group themselves: subscriptions, assigned queues, rates, thread stacks.

Each client is asked through the broker (GET_CONSUMER_RUNNING_INFO) and may not answer; what is known then is shown
as partial.
"""

from __future__ import annotations

from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from dataclasses import dataclass, field

from brokercore.client import Admin, Connection, ConsumerConnection, MessageQueue, RunningInfo, Subscription
from brokercore.client.errors import ClientError
from console.instances import broker
from console.messaging.names import RETRY_PREFIX, shown_name
from console.messaging.status import online_clients, shown_consume_type
from console.topics.models import Group
from console.web import turns

MAX_CLIENTS = 32
"""Clients asked at once; of a larger group the rest is listed as not asked."""
DEADLINE_SECONDS = 5.0
_THREADS = 8


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
    assigned to exactly one client (always so in broadcasting mode). `differences` and `unassigned` say where not.
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

    Raises ClientError when the broker fails.
    """
    admin = broker.admin(group.instance.cluster)
    connection = online_clients(admin, group)
    if connection is None:
        return Diagnosis([], None, None, [], [])
    clients = _ask_all(admin, group, connection.connections, jstack=jstack)
    same, differences = _compare_subscriptions(clients)
    rebalance_ok, unassigned = _check_assignment(admin, group, connection, clients)
    return Diagnosis(clients, same, rebalance_ok, differences, unassigned)


def thread_stack(group: Group, client_id: str) -> str:
    """The stack of every thread of one client. Raises ClientError when the client does not answer."""
    info = broker.admin(group.instance.cluster).consumer_running_info(group.physical_name, client_id, jstack=True)
    return info.jstack or ""


def _ask_all(admin: Admin, group: Group, connections: list[Connection], *, jstack: bool) -> list[ClientStatus]:
    asked, rest = connections[:MAX_CLIENTS], connections[MAX_CLIENTS:]
    pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="running-info")
    answers = [pool.submit(admin.consumer_running_info, group.physical_name, c.client_id, jstack) for c in asked]
    with turns.aside():
        wait_for(answers, timeout=DEADLINE_SECONDS)
    pool.shutdown(wait=False, cancel_futures=True)
    clients = [_client_status(group, c, answer) for c, answer in zip(asked, answers, strict=True)]
    return clients + [ClientStatus(c, problem=f"Not asked: more than {MAX_CLIENTS} clients are online.") for c in rest]


def _client_status(group: Group, connection: Connection, answer: Future[RunningInfo]) -> ClientStatus:
    if answer.cancelled() or not answer.done():
        return ClientStatus(connection, problem=f"No answer within {DEADLINE_SECONDS:.0f} seconds.")
    try:
        info = answer.result()
    except ClientError as error:
        return ClientStatus(connection, problem=error.user_message)
    return ClientStatus(
        connection,
        subscriptions={
            shown_name(group.instance, s.topic): s.expression
            for s in info.subscriptions
            if not s.topic.startswith(RETRY_PREFIX)
        },
        subscription_data=sorted(info.subscriptions, key=lambda s: s.topic),
        queues=sorted(info.queues),
        consume_type=shown_consume_type(info.properties.get("PROP_CONSUME_TYPE", "")),
        consume_model=info.properties.get("messageModel", ""),
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
            if not topic.startswith(RETRY_PREFIX)
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
        differences.insert(0, f"The others: {_subscription_text(dict(usual))}")
        return False, differences
    return (True if len(answered) == len(clients) else None), []


def _check_assignment(
    admin: Admin, group: Group, connection: ConsumerConnection, clients: list[ClientStatus]
) -> tuple[bool | None, list[str]]:
    if connection.message_model == "BROADCASTING":
        return True, []
    holders = Counter(queue for c in clients for queue in c.queues)
    topics = [t for t in connection.subscriptions if not t.startswith(RETRY_PREFIX)]
    wanted = [queue for stats in admin.topics_stats(topics).values() for queue in stats]
    complete = all(not c.problem for c in clients)
    wrong = [
        f"{shown_name(group.instance, q.topic)}, queue {q.queue_id} on {q.broker_name}: "
        + ("held by no client" if holders[q] == 0 else f"held by {holders[q]} clients")
        for q in sorted(wanted)
        if holders[q] > 1 or (holders[q] == 0 and complete)
    ]
    if wrong:
        return False, wrong
    return (True if complete else None), []


def _subscription_text(subscriptions: dict[str, str]) -> str:
    return ", ".join(f"{topic} ({text})" for topic, text in sorted(subscriptions.items())) or "nothing"


def _newest(info: RunningInfo, name: str) -> int | None:
    """The latest of a time (epoch ms) that the client gives per queue."""
    times = [row.get(name) for row in info.queues.values()]
    return max((t for t in times if isinstance(t, int) and t > 0), default=None)


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None
