"""Messages on their way in: what the broker adds, checks, stores and answers, whatever request brought them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokercore.names import group_of
from brokercore.protocol import properties as names
from brokercore.protocol.codes import ResponseCode
from brokercore.protocol.ids import RecallHandle, new_unique_id
from brokercore.protocol.properties import MAX_PROPERTIES
from brokercore.server.connections.connection import Connection, respond
from brokercore.server.connections.headers import send_answer
from brokercore.server.delivery.drafts import Draft
from brokercore.server.errors import Refusal
from brokercore.server.statistics import BROKER_PUT, PUT, PUT_BYTES
from brokercore.server.storage.index import message_keys
from brokercore.server.storage.topics import TIMER_QUEUE, Topic

if TYPE_CHECKING:
    from brokercore.server.broker import Broker

MAX_BODY = 4 << 20
"""Largest body in bytes."""

_ILLEGAL = ResponseCode.MESSAGE_ILLEGAL


def put(broker: Broker, draft: Draft) -> None:
    """Store a message in its queue and answer when it is safe. Raises StoreFull and StoreUnavailable."""
    queue, properties = draft.queue, draft.properties

    def done(reason: str | None) -> None:
        answer(broker, draft, queue.base, offset, reason)

    offset = broker.store.put(queue, draft.body, draft.encoded, done, keys=message_keys(properties), **draft.fields)  # type: ignore[arg-type]
    if draft.share is not None:
        draft.leaves()
    count_put(broker, draft.topic, 1, len(draft.body))


def park(broker: Broker, draft: Draft, until_ms: int, level: int) -> None:
    """Keep a message until its time, and answer when that is safe. Raises StoreFull and StoreUnavailable."""
    schedule = broker.timers.queue(level - 1 if level else TIMER_QUEUE)
    properties = draft.properties | {
        names.REAL_TOPIC: draft.topic.config.topic,
        names.REAL_QUEUE_ID: str(draft.queue.queue_id),
    }

    unique_id = draft.properties[names.UNIQUE_KEY]
    handle = str(RecallHandle(draft.topic.config.topic, broker.name, until_ms, unique_id))

    def done(reason: str | None) -> None:
        answer(broker, draft, schedule.base, offset, reason, handle)

    offset = broker.timers.park(schedule, until_ms, draft.body, properties, done, fields=draft.fields)
    draft.leaves()
    count_put(broker, draft.topic, 1, len(draft.body))


def prepare(broker: Broker, draft: Draft) -> None:
    """Keep a half message, and answer when that is safe. Raises Refusal, StoreFull and StoreUnavailable."""

    def done(reason: str | None) -> None:
        answer(broker, draft, queue.base, offset, reason)

    queue, offset = broker.transactions.prepare(draft, done)
    draft.leaves()


def answer(  # noqa: PLR0917 (one call a message: keywords cost time here)
    broker: Broker, draft: Draft, base: int, offset: int, reason: str | None, recall_handle: str = ""
) -> None:
    """Tell a producer that its message is stored at `offset` of the queue whose offset 0 is at `base`, or why not."""
    command = draft.command
    if draft.share is not None:
        broker.rounds.stored(draft.share, len(draft.body))
    if reason is not None:
        respond(draft.connection, command, ResponseCode.SYSTEM_BUSY, reason)
    elif not command.flag & 2:
        message_id = broker.message_id_prefix + b"%016X" % (base + offset)
        unique_id = draft.properties[names.UNIQUE_KEY]
        draft.connection.write(
            send_answer(
                command.opaque, broker.region, message_id, draft.queue.queue_id, offset, unique_id, recall_handle
            )
        )


def count_put(broker: Broker, topic: Topic, messages: int, size: int) -> None:
    """Count messages that come in."""
    counters = topic.counters
    if counters is None:
        name = topic.config.topic
        statistics = broker.statistics
        counters = topic.counters = (
            statistics.counter(PUT, name),
            statistics.counter(PUT_BYTES, name),
            statistics.counter(BROKER_PUT, broker.settings.cluster_name),
        )
    counters[0].add(messages)
    counters[1].add(size)
    counters[2].add(messages)


def stored_properties(broker: Broker, properties: dict[str, str], given: str) -> bytes:
    """The property string with what the broker adds, as stored; a unique id is added to `properties` too.

    Raises Refusal when they are too long.
    """
    added = "" if not given or given.endswith("\x02") else "\x02"
    if names.UNIQUE_KEY not in properties:
        properties[names.UNIQUE_KEY] = new_unique_id()
        added += f"{names.UNIQUE_KEY}\x01{properties[names.UNIQUE_KEY]}\x02"
    if names.MESSAGE_REGION not in properties:
        added += broker.added_properties
    encoded = (given + added).encode()
    if len(encoded) > MAX_PROPERTIES:
        raise Refusal(_ILLEGAL, f"the properties have {len(encoded)} bytes; allowed are {MAX_PROPERTIES}")
    return encoded


def check_body(body: bytes) -> None:
    """Refuse a body that is empty or too long."""
    if not body:
        raise Refusal(_ILLEGAL, "the message has no body")
    check_length(body)


def check_length(body: bytes) -> None:
    """Refuse a body that is too long."""
    if len(body) > MAX_BODY:
        raise Refusal(_ILLEGAL, f"the body has {len(body)} bytes; allowed are {MAX_BODY}")


def check_kind(broker: Broker, topic: Topic, kind: str, connection: Connection) -> None:
    """Refuse a message of another kind than the topic's. Ordered messages of open-source clients look normal.

    A topic that was made without a type takes all kinds over remoting, as brokers of Apache do, and normal ones over
    gRPC, as their proxy does.
    """
    wanted = topic.message_type
    if not topic.has_message_type and not connection.minds_unset_types:
        return
    if kind == wanted or wanted in ("MIXED", "UNSPECIFIED") or not broker.settings.check_message_type:
        return
    if kind == "NORMAL" and wanted in ("FIFO", "DELAY"):
        return
    if group_of(topic.config.topic):
        return
    raise Refusal(_ILLEGAL, f"a {kind} message was sent to topic {topic.config.topic}, which takes {wanted} messages")
