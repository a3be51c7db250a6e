"""Batches: many messages of one topic and queue in one request."""

from __future__ import annotations

from brokercore.protocol import properties as names
from brokercore.protocol.batch import decode_batch
from brokercore.protocol.codes import ResponseCode
from brokercore.protocol.properties import decode_properties, decode_text
from brokercore.server import answers
from brokercore.server.account import Account
from brokercore.server.broker import Broker
from brokercore.server.connection import respond
from brokercore.server.delays import TIMED
from brokercore.server.drafts import Draft
from brokercore.server.errors import Refusal
from brokercore.server.incoming import check_body, check_kind, count_put, stored_properties
from brokercore.server.message_keys import message_keys
from brokercore.server.storage.batches import Incoming, put_all
from brokercore.server.storage.topics import group_of

_NOT_IN_BATCHES = TIMED | {names.TRANSACTION_PREPARED}


def send_batch(broker: Broker, draft: Draft, account: Account | None) -> None:
    """Store the messages in the draft's body; each keeps its own unique id.

    The batch is answered once, when its last message is safe. Raises Refusal before anything is stored.
    """
    messages = _messages(broker, draft)
    broker.limits.more_messages(account, draft.queue.topic, len(messages) - 1)

    def done(reason: str | None) -> None:
        _answer(broker, draft, messages, first, reason)

    fields = {name: value for name, value in draft.fields.items() if name != "flag"}
    first = put_all(broker.store, draft.queue, messages, done, **fields)  # type: ignore[arg-type]
    count_put(broker, draft.topic, len(messages), len(draft.body))


def _messages(broker: Broker, draft: Draft) -> list[Incoming]:
    check_body(draft.body)
    if group_of(draft.queue.topic):
        raise _not_in_batches()
    messages = []
    ordered = 0
    for flag, body, given in decode_batch(draft.body):
        if not body:
            check_body(body)
        text = decode_text(given)
        properties = decode_properties(text)
        if not _NOT_IN_BATCHES.isdisjoint(properties):
            raise _not_in_batches()
        if names.SHARDING_KEY in properties:
            ordered += 1
        encoded = stored_properties(broker, properties, text)
        messages.append(Incoming(body, encoded, message_keys(properties), flag))
    if ordered:
        check_kind(broker, draft.topic, "FIFO")
    if ordered < len(messages):
        check_kind(broker, draft.topic, "NORMAL")
    return messages


def _not_in_batches() -> Refusal:
    return Refusal(ResponseCode.MESSAGE_ILLEGAL, "a batch takes no delayed, transactional or retry messages")


def _answer(broker: Broker, draft: Draft, messages: list[Incoming], first: int, reason: str | None) -> None:
    command = draft.command
    if reason is not None:
        respond(draft.connection, command, ResponseCode.SYSTEM_BUSY, reason)
    elif not command.flag & 2:
        queue, prefix = draft.queue, broker.message_id_prefix
        place = queue.base + first
        ids = b",".join([prefix + b"%016X" % number for number in range(place, place + len(messages))])
        unique_ids = ",".join([message.keys[0] for message in messages])
        draft.connection.write(
            answers.send_answer(command.opaque, broker.region, ids, queue.queue_id, first, unique_ids)
        )
