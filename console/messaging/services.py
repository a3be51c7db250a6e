"""Publishing test messages, pushing messages to one client, and sending dead letters again."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal

from django.utils.translation import gettext as _

from brokercore.client import Admin, Message, MessageQueue, QueueStats, SendResult, TransactionState
from brokercore.client.admin import Capability
from brokercore.client.errors import BrokerError, ClientError, InvalidMessage
from console.accounts.actor import Actor
from console.audit import record as audit
from console.instances import broker, capabilities
from console.messaging import dead_letters
from console.messaging.dead_letters import Letter
from console.messaging.models import Discard, Resend
from console.messaging.records import MessageRecord, Position
from console.messaging.status import online_clients
from console.topics.models import Group, OrderType, Topic
from console.web.errors import Refused
from console.web.languages import gettext_lazy

Target = int | Literal["begin", "end"]
"""A time in epoch milliseconds, or one of the ends."""
_NOW = -1
"""What the wire says for "the end of every queue"."""

MAX_DELAY_MS = 40 * 24 * 3600 * 1000
MAX_RESENDS = 50
"""Letters of one request: a page."""


@dataclass(frozen=True)
class Pushed:
    """What a client made of a message that it was handed: its answer on the wire, what it adds, and its time in ms."""

    answer: str
    remark: str
    spent_ms: int

    @property
    def is_consumed(self) -> bool:
        """Whether the listener accepted the message."""
        return self.answer in ("CR_SUCCESS", "CR_COMMIT")

    @property
    def words(self) -> str:
        """The answer as people say it."""
        return _PUSHED.get(self.answer, _("answered %(answer)s") % {"answer": self.answer})


_PUSHED = {
    "CR_SUCCESS": gettext_lazy("consumed it"),
    "CR_COMMIT": gettext_lazy("consumed it"),
    "CR_LATER": gettext_lazy("asked to have it again later"),
    "CR_ROLLBACK": gettext_lazy("rolled it back"),
    "CR_THROW_EXCEPTION": gettext_lazy("threw an exception"),
    "CR_RETURN_NULL": gettext_lazy("returned nothing"),
}


@dataclass(frozen=True)
class QueueMove:
    """What a reset does in one queue: from the committed offset to another; None when nothing was committed."""

    broker_name: str
    queue_id: int
    current: int | None
    target: int
    end: int = 0
    """The offset of the next message that is stored."""

    @property
    def queue(self) -> str:
        """The queue as forms name it: `broker-a:0`."""
        return f"{self.broker_name}:{self.queue_id}"

    @property
    def backlog_before(self) -> int | None:
        """Messages that the group has yet to consume now; None when nothing was committed."""
        return max(0, self.end - self.current) if self.current is not None else None

    @property
    def backlog_after(self) -> int:
        """Messages that the group then has yet to consume."""
        return max(0, self.end - self.target)

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

    @property
    def backlog_before(self) -> int:
        """Messages that the group has yet to consume of these queues now."""
        return sum(m.backlog_before or 0 for m in self.moves)

    @property
    def backlog_after(self) -> int:
        """Messages that the group then has yet to consume of these queues."""
        return sum(m.backlog_after for m in self.moves)


def preview_reset(group: Group, topic: Topic, target: Target, queue: str = "") -> ResetPreview:
    """What resetting would skip or repeat in each queue, or in one (`broker-a:0`); changes nothing.

    Raises Refused for a time in the future, a broadcasting group, a queue that there is not or cannot be moved alone,
    ClientError when the broker fails.
    """
    admin = broker.admin(group.instance.cluster)
    only = _queue(topic, queue)
    _check(admin, group, target, only)
    moves = []
    for place, stats in sorted(admin.topics.stats(topic.physical_name).items()):
        if only not in (None, place):
            continue
        committed = admin.offsets.committed(group.physical_name, place)
        offset = _offset(admin, place, stats, target)
        moves.append(QueueMove(place.broker_name, place.queue_id, committed, offset, stats.max_offset))
    if only is not None and not moves:
        raise _no_queue(queue)
    return ResetPreview(moves)


def reset_offset(actor: Actor, group: Group, topic: Topic, target: Target, queue: str = "") -> dict[str, int]:
    """Move the queues of `topic`, or one (`broker-a:0`), to the first message stored at or after `target`.

    Works for offline groups too; online clients jump within about ten seconds. Returns the new offset per queue. Raises
    Refused and ClientError as `preview_reset`.
    """
    admin = broker.admin(group.instance.cluster)
    only = _queue(topic, queue)
    _check(admin, group, target, only)
    timestamp = _NOW if target == "end" else 0 if target == "begin" else target
    if only is None:
        moved = admin.offsets.reset(group.physical_name, topic.physical_name, timestamp)
    else:
        moved = {only: _reset_queue(admin, group, only, target, timestamp)}
    offsets = {f"{queue.broker_name}:{queue.queue_id}": offset for queue, offset in sorted(moved.items())}
    audit.record(
        actor,
        "messaging.offset.reset",
        group.physical_name,
        detail={"topic": topic.physical_name, "to": target, "offsets": offsets},
    )
    return offsets


def _reset_queue(admin: Admin, group: Group, queue: MessageQueue, target: Target, timestamp: int) -> int:
    stats = admin.topics.stats(queue.topic).get(queue)
    if stats is None:
        raise _no_queue(f"{queue.broker_name}:{queue.queue_id}")
    if _moves_queues(admin, queue):
        return admin.offsets.reset_queue(group.physical_name, queue, timestamp)
    offset = _offset(admin, queue, stats, target)
    admin.offsets.commit(group.physical_name, {queue: offset})
    return offset


def _offset(admin: Admin, queue: MessageQueue, stats: QueueStats, target: Target) -> int:
    if target == "begin":
        return stats.min_offset
    if target == "end" or target > stats.last_update_ms:
        return stats.max_offset
    return max(stats.min_offset, admin.offsets.search(queue, target))


def _queue(topic: Topic, text: str) -> MessageQueue | None:
    """The queue that `broker-a:0` names, None for no text."""
    if not text:
        return None
    name, _unused, number = text.rpartition(":")
    if not name or not number.isdecimal() or len(number) > 9:
        raise _no_queue(text)
    return MessageQueue(topic.physical_name, name, int(number))


def _no_queue(text: str) -> Refused:
    return Refused("BIZ_FIELD_CHECK_INVALID", _("The topic has no queue %(text)s.") % {"text": text}, "queue")


def _check(admin: Admin, group: Group, target: Target, queue: MessageQueue | None) -> None:
    if isinstance(target, int) and target > time.time() * 1000:
        raise Refused("BIZ_FIELD_CHECK_INVALID", _("The time is in the future."), "reset_time")
    connection = online_clients(admin, group)
    if connection is not None and connection.message_model == "BROADCASTING":
        message = _("The group is in broadcasting mode: its offsets are kept by its clients and cannot be reset here.")
        raise Refused("BIZ_FIELD_CHECK_INVALID", message, "group_id")
    if queue is not None and connection is not None and not group.instance.cluster.embedded:
        message = _("The broker %(broker)s moves one queue only while no consumer of the group is online.") % {
            "broker": queue.broker_name
        }
        raise Refused("BIZ_FIELD_CHECK_INVALID", message, "queue")


def _moves_queues(admin: Admin, queue: MessageQueue) -> bool:
    """Whether the queue's broker moves single queues itself.

    Of Apache's, consumers that are online have been seen to hear nothing of it: there the group has to be offline.
    """
    return Capability.QUEUE_RESETS in admin.capabilities.by_broker().get(queue.broker_name, ())


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
            result = producer.send_transaction(message, lambda *_unused: TransactionState.COMMIT)
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


def push_message(actor: Actor, group: Group, topic: Topic, message: MessageRecord, client_id: str) -> Pushed:
    """Let one client of the group consume a message now, at the broker that has it; the group's offsets stay.

    The client's listener decides (vendor operation OnsMessagePush). Raises Refused where no such client subscribes to
    the topic or the message is not delivered yet, and ClientError when broker or client do not answer.
    """
    admin = broker.admin(group.instance.cluster)
    connection = online_clients(admin, group)
    online = {one.client_id for one in connection.connections} if connection is not None else set()
    if client_id not in online:
        text = (
            _("The client %(client_id)s of %(group_id)s is not online: choose one that is online.")
            if client_id
            else _("No client of %(group_id)s was chosen: choose one that is online.")
        )
        raise Refused(
            "BIZ_CONSUMER_NOT_ONLINE", text % {"client_id": client_id[:80], "group_id": group.group_id}, "clientId"
        )
    if connection is not None and topic.physical_name not in connection.subscriptions:
        message_text = _("%(group_id)s does not subscribe to %(topic)s: its clients would not know what to do.") % {
            "group_id": group.group_id,
            "topic": topic.name,
        }
        raise Refused("BIZ_FIELD_CHECK_INVALID", message_text, "groupId")
    if message.waits:
        raise Refused("BIZ_NO_MESSAGE", _("The message still waits for its delivery time."), "msgId")
    place = f"{topic.physical_name} {message.message_id}"
    detail = {"group": group.physical_name, "client": client_id, "place": str(message.position)}
    try:
        told = admin.clients.consume_directly(
            group.physical_name, client_id, message.offset_message_id, topic.physical_name
        )
    except ClientError as error:
        audit.record(actor, "messaging.message.push", place, result="failed", detail=detail | {"error": str(error)})
        raise
    audit.record(actor, "messaging.message.push", place, detail=detail | {"answer": told.result})
    return Pushed(told.result, told.remark, told.spent_ms)


def resend_dead_letters(actor: Actor, group: Group, references: list[str]) -> list[ResendResult]:
    """Send letters to their group again, each on its own: one that fails does not stop the others.

    A reference is the place of an entry (`broker-a:0:17`) or a message id, which means its newest entry. The entries
    stay in the queue; that they were sent again is noted. Raises Refused for more than 50.
    """
    _check_count(references)
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


def discard_dead_letters(
    actor: Actor, group: Group, references: list[str], *, back: bool = False
) -> list[ResendResult]:
    """Put letters aside, or `back` among the others; they are named as in `resend_dead_letters`, and as many at most.

    The entries stay in the queue until retention removes them, and can still be found and sent again.
    """
    _check_count(references)
    results = []
    for reference in dict.fromkeys(references):
        letter = _find(group, reference)
        if isinstance(letter, ResendResult):
            results.append(letter)
            continue
        record = letter.record
        if back:
            Discard.objects.filter(group=group, offset_message_id=record.offset_message_id).delete()
        else:
            Discard.objects.get_or_create(
                group=group,
                offset_message_id=record.offset_message_id,
                defaults={"message_id": record.message_id[:64], "actor": actor.user},
            )
        results.append(ResendResult(reference, record.message_id, "", record))
    audit.record(
        actor,
        "messaging.dead_letter.restore" if back else "messaging.dead_letter.discard",
        group.physical_name,
        result="success" if not any(r.error for r in results) else "failed",
        detail={"letters": [{"message_id": r.message_id, "error": r.error} for r in results]},
    )
    return results


def _check_count(references: list[str]) -> None:
    if len(references) > MAX_RESENDS:
        message = _("%(references)s dead letters are too many; at most %(max_resends)s can be chosen at once.") % {
            "references": len(references),
            "max_resends": MAX_RESENDS,
        }
        raise Refused("BIZ_FIELD_CHECK_INVALID", message, "references")


def _find(group: Group, reference: str) -> Letter | ResendResult:
    """The letter, or what is told of one that cannot be had."""
    try:
        letter = dead_letters.find(group, reference)
    except ClientError as error:
        return ResendResult(reference, reference, error.user_message)
    gone = _("This dead letter is not in the dead-letter queue any more, or never was.")
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
        message = _("%(topic)s is not a topic for scheduled or delayed messages.") % {"topic": topic.name}
        raise Refused("BIZ_FIELD_CHECK_INVALID", message, "deliver_at_ms")
    for sentence in capabilities.missing(topic.instance.cluster, Capability.DELIVERY_TIMES):
        raise Refused("BIZ_FIELD_CHECK_INVALID", sentence, "deliver_at_ms")
    if deliver_at_ms > time.time() * 1000 + MAX_DELAY_MS:
        message = _("The delivery time is more than 40 days ahead.")
        raise Refused("BIZ_FIELD_CHECK_INVALID", message, "deliver_at_ms")
