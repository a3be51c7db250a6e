"""Publishing test messages and sending dead letters again."""

from __future__ import annotations

import time
from dataclasses import dataclass

from brokercore.client import Message, SendResult, TransactionState
from brokercore.client.errors import BrokerError, ClientError, InvalidMessage
from console.accounts.actor import Actor
from console.audit import services as audit
from console.instances import broker
from console.messaging import dead_letters
from console.messaging.dead_letters import Letter
from console.messaging.models import Resend
from console.messaging.records import MessageRecord, Position
from console.topics.models import Group, OrderType, Topic
from console.web.errors import Refused

MAX_DELAY_MS = 40 * 24 * 3600 * 1000
MAX_RESENDS = 50
"""Letters of one request: a page."""


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
        message = f"{len(references)} letters are too many; at most {MAX_RESENDS} are sent again at once."
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
    gone = "There is no such letter in the dead-letter queue (any more)."
    return letter if letter is not None else ResendResult(reference, reference, gone)


def _resend(actor: Actor, group: Group, reference: str, letter: Letter) -> ResendResult:
    error_text, new_id = "", ""
    try:
        new_id = (
            broker.admin(group.instance.cluster)
            .resend_dead_letter(group.physical_name, letter.stored)
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
