"""Publishing test messages and sending dead letters again."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal

from brokercore.client import Admin, Message, SendResult, TransactionState
from brokercore.client.errors import BrokerError, ClientError, InvalidMessage
from console.accounts.actor import Actor
from console.audit import record as audit
from console.instances import broker
from console.messaging import dead_letters
from console.messaging.dead_letters import Letter
from console.messaging.models import Resend
from console.messaging.records import MessageRecord, Position
from console.messaging.status import online_clients
from console.topics.models import Group, OrderType, Topic
from console.web.errors import Refused

Target = int | Literal["begin", "end"]
"""A time in epoch milliseconds, or one of the ends."""
_NOW = -1
"""What the wire says for "the end of every queue"."""

MAX_DELAY_MS = 40 * 24 * 3600 * 1000
MAX_RESENDS = 50
"""Letters of one request: a page."""


@dataclass(frozen=True)
class QueueMove:
    """What a reset does in one queue: from the committed offset to another; None when nothing was committed."""

    broker_name: str
    queue_id: int
    current: int | None
    target: int

    @property
    def skipped(self) -> int:
        """Messages that will not be consumed."""
        return max(0, self.target - self.current) if self.current is not None else 0

    @property
    def repeated(self) -> int:
        """Messages that will be consumed again."""
        return max(0, self.current - self.target) if self.current is not None else 0


@dataclass(frozen=True)
class ResetPreview:
    """What a reset would do."""

    moves: list[QueueMove]

    @property
    def skipped(self) -> int:
        """Messages that will not be consumed, over all queues."""
        return sum(m.skipped for m in self.moves)

    @property
    def repeated(self) -> int:
        """Messages that will be consumed again, over all queues."""
        return sum(m.repeated for m in self.moves)


def preview_reset(group: Group, topic: Topic, target: Target) -> ResetPreview:
    """What resetting would skip or repeat in each queue; changes nothing.

    Raises Refused for a time in the future or a broadcasting group, ClientError when the broker fails.
    """
    admin = broker.admin(group.instance.cluster)
    _check(admin, group, target)
    committed = admin.offsets.all_committed().get((topic.physical_name, group.physical_name), {})
    moves = []
    for queue, stats in sorted(admin.topics.stats(topic.physical_name).items()):
        if target == "begin":
            offset = stats.min_offset
        elif target == "end" or target > stats.last_update_ms:
            offset = stats.max_offset
        else:
            offset = max(stats.min_offset, admin.offsets.search(queue, target))
        moves.append(QueueMove(queue.broker_name, queue.queue_id, committed.get(queue), offset))
    return ResetPreview(moves)


def reset_offset(actor: Actor, group: Group, topic: Topic, target: Target) -> dict[str, int]:
    """Move every queue of `topic` to the first message stored at or after `target`; works for offline groups too.

    Online clients jump within about ten seconds. Returns the new offset per queue (`broker-a:0`). Raises Refused
    for a time in the future or a broadcasting group, ClientError when the broker fails.
    """
    admin = broker.admin(group.instance.cluster)
    _check(admin, group, target)
    timestamp = _NOW if target == "end" else 0 if target == "begin" else target
    moved = admin.offsets.reset(group.physical_name, topic.physical_name, timestamp)
    offsets = {f"{queue.broker_name}:{queue.queue_id}": offset for queue, offset in sorted(moved.items())}
    audit.record(
        actor,
        "messaging.offset.reset",
        group.physical_name,
        detail={"topic": topic.physical_name, "to": target, "offsets": offsets},
    )
    return offsets


def _check(admin: Admin, group: Group, target: Target) -> None:
    if isinstance(target, int) and target > time.time() * 1000:
        raise Refused("BIZ_FIELD_CHECK_INVALID", "The time is in the future.", "reset_time")
    connection = online_clients(admin, group)
    if connection is not None and connection.message_model == "BROADCASTING":
        message = "The group is in broadcasting mode: its offsets are kept by its clients and cannot be reset here."
        raise Refused("BIZ_FIELD_CHECK_INVALID", message, "group_id")


def publish_test_message(
    actor: Actor,
    topic: Topic,
    *,
    body: bytes,
    tag: str = "",
    key: str = "",
    properties: dict[str, str] | None = None,
    deliver_at_ms: int | None = None,
    sharding_key: str = "",
) -> SendResult:
    """Send one message the way the topic's type wants it; a transactional one is committed at once.

    `deliver_at_ms` (epoch ms, at most 40 days ahead) is for delayed topics, `sharding_key` for ordered ones. Raises
    Refused for what client or broker will not take, ClientError when the broker is out of reach.
    """
    _check_delivery(topic, deliver_at_ms)
    message = Message(
        topic.physical_name, body, tags=tag, keys=key, properties=properties or {}, deliver_at_ms=deliver_at_ms
    )
    producer = broker.producer(topic.instance.cluster)
    try:
        if topic.order_type in (OrderType.PARTITIONALLY_ORDERED, OrderType.GLOBALLY_ORDERED):
            result = producer.send_ordered(message, sharding_key)
        elif topic.order_type == OrderType.TRANSACTIONAL:
            result = producer.send_transaction(message, lambda *_: TransactionState.COMMIT)
        else:
            result = producer.send(message)
    except (InvalidMessage, BrokerError) as error:
        raise Refused("ONS_INVOKE_ERROR", error.user_message) from error
    audit.record(
        actor,
        "messaging.message.publish",
        topic.physical_name,
        detail={"message_id": result.message_id, "tag": tag, "key": key, "bytes": len(body)},
    )
    return result


@dataclass(frozen=True)
class ResendResult:
    """What became of one letter; `error` is empty when it was sent again. `letter` is None when there is none."""

    reference: str
    message_id: str
    error: str = ""
    letter: MessageRecord | None = None


def resend_dead_letters(actor: Actor, group: Group, references: list[str]) -> list[ResendResult]:
    """Send letters to their group again, each on its own: one that fails does not stop the others.

    A reference is the place of an entry (`broker-a:0:17`) or a message id, which means its newest entry. The entries
    stay in the queue; that they were sent again is noted. Raises Refused for more than 50.
    """
    if len(references) > MAX_RESENDS:
        message = f"{len(references)} dead letters are too many; at most {MAX_RESENDS} can be resent at once."
        raise Refused("BIZ_FIELD_CHECK_INVALID", message, "references")
    results, sent = [], set[Position]()
    for reference in dict.fromkeys(references):
        letter = _find(group, reference)
        if isinstance(letter, ResendResult):
            results.append(letter)
        elif letter.record.position not in sent:  # a place and a message id may be the same letter's
            sent.add(letter.record.position)
            results.append(_resend(actor, group, reference, letter))
    audit.record(
        actor,
        "messaging.dead_letter.resend",
        group.physical_name,
        result="success" if not any(r.error for r in results) else "failed",
        detail={"letters": [{"message_id": r.message_id, "error": r.error} for r in results]},
    )
    return results


def _find(group: Group, reference: str) -> Letter | ResendResult:
    """The letter, or what is told of one that cannot be had."""
    try:
        letter = dead_letters.find(group, reference)
    except ClientError as error:
        return ResendResult(reference, reference, error.user_message)
    gone = "This dead letter is not in the dead-letter queue any more, or never was."
    return letter if letter is not None else ResendResult(reference, reference, gone)


def _resend(actor: Actor, group: Group, reference: str, letter: Letter) -> ResendResult:
    error_text, new_id = "", ""
    try:
        new_id = (
            broker.admin(group.instance.cluster)
            .messages.resend_dead_letter(group.physical_name, letter.stored)
            .offset_message_id
        )
    except ClientError as error:
        error_text = error.user_message
    Resend.objects.create(
        group=group,
        offset_message_id=letter.record.offset_message_id,
        message_id=letter.record.message_id[:64],
        new_offset_message_id=new_id,
        error=error_text[:512],
        actor=actor.user,
    )
    return ResendResult(reference, letter.record.message_id, error_text, letter.record)


def _check_delivery(topic: Topic, deliver_at_ms: int | None) -> None:
    if deliver_at_ms is None:
        return
    if topic.order_type != OrderType.DELAYED:
        message = f"{topic.name} is not a topic for scheduled or delayed messages."
        raise Refused("BIZ_FIELD_CHECK_INVALID", message, "deliver_at_ms")
    if deliver_at_ms > time.time() * 1000 + MAX_DELAY_MS:
        message = "The delivery time is more than 40 days ahead."
        raise Refused("BIZ_FIELD_CHECK_INVALID", message, "deliver_at_ms")
