"""What producers ask beside sending: END_TRANSACTION (37), RECALL_MESSAGE (370) and replies to requests (324, 325).

A half message is committed or rolled back, a scheduled one is taken back before its time, and a reply is passed on to
the requester (326).
"""

from __future__ import annotations

import time

from brokercore.names import HALF_TOPIC
from brokercore.protocol import properties as names
from brokercore.protocol.codes import RequestCode, ResponseCode
from brokercore.protocol.command import Command
from brokercore.protocol.errors import MessageFormatError
from brokercore.protocol.ids import RecallHandle
from brokercore.protocol.message import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK, StoredMessage, decode_stored
from brokercore.protocol.properties import decode_properties, encode_properties
from brokercore.server.broker import Broker
from brokercore.server.connections.connection import Connection
from brokercore.server.connections.headers import SEND_FIELDS, integer, text
from brokercore.server.delivery.incoming import check_length
from brokercore.server.delivery.replies import is_reply_topic, reply_cluster
from brokercore.server.delivery.transactions import is_of_sender
from brokercore.server.errors import Refusal
from brokercore.server.handlers.offsets import existing_topic
from brokercore.server.rights import permissions
from brokercore.server.rights.authentication import Caller

_ERROR, _ILLEGAL = ResponseCode.SYSTEM_ERROR, ResponseCode.ILLEGAL_OPERATION

PASS_ON_SECONDS = 10
"""How long the requester's client may take to accept its reply."""

_PUSH_REPLY_TIME = "PUSH_REPLY_TIME"
_PASSED_ON = "abcdefghijk"
"""The fields of a reply that its requester is told, by their short names."""


async def end_transaction(broker: Broker, connection: Connection, command: Command, caller: Caller) -> Command:
    """Commit (8), roll back (12), or leave the message to be checked (0). Clients send this one-way."""
    try:
        return await _end_decided(broker, connection, command, caller)
    except Refusal as refusal:
        refusal.kind = refusal.kind or "transaction"  # clients send it one-way: the log is who hears of it
        raise


async def _end_decided(broker: Broker, connection: Connection, command: Command, caller: Caller) -> Command:
    ext = command.ext
    decision = integer(ext, "commitOrRollback")
    if decision not in (TRANSACTION_COMMIT, TRANSACTION_ROLLBACK):
        return command.response(ResponseCode.SUCCESS)
    async with connection.reads:
        return await _end_half(broker, connection, command, caller, decision)


async def _end_half(broker: Broker, connection: Connection, command: Command, caller: Caller, decision: int) -> Command:
    ext = command.ext
    frame = await broker.store.message_at(integer(ext, "commitLogOffset"))
    half = decode_stored(frame)[0] if frame else None
    if half is None or half.topic != HALF_TOPIC or not _may_end(caller, connection, half):
        raise Refusal(_ERROR, "Find prepared transaction message failed")
    if half.properties.get(names.PRODUCER_GROUP) != text(ext, "producerGroup"):
        raise Refusal(_ERROR, "The producer group wrong")
    if half.queue_offset != integer(ext, "tranStateTableOffset"):
        raise Refusal(_ERROR, "The transaction state table offset wrong")
    if decision == TRANSACTION_COMMIT:
        await broker.transactions.commit(half)
    else:
        await broker.transactions.rollback(half)
    return command.response(ResponseCode.SUCCESS)


def _may_end(caller: Caller, connection: Connection, half: StoredMessage) -> bool:
    topic = half.properties.get(names.REAL_TOPIC, "")
    return is_of_sender(half, caller) and permissions.may(caller, connection, permissions.PUBLISH, topic)


async def recall(broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """Answered with the message's unique id once it is gone. A message that is on its way already stays on its way."""
    unique_id = await _cancel(broker, text(command.ext, "topic"), text(command.ext, "recallHandle"))
    return command.response(ResponseCode.SUCCESS, ext={"msgId": unique_id})


async def _cancel(broker: Broker, topic: str, given: str) -> str:
    """Cancel the delivery that a recall handle names and return the message's unique id.

    Raises Refusal for a handle of something else and for a message that was delivered or recalled, StoreUnavailable.
    """
    existing_topic(broker, topic)
    try:
        handle = RecallHandle.parse(given)
    except MessageFormatError as error:
        raise Refusal(_ILLEGAL, str(error)) from error
    if handle.topic != topic:
        raise Refusal(_ILLEGAL, f"the recall handle is of topic {handle.topic[:127]}, not of {topic}")
    if handle.broker_name != broker.name:
        raise Refusal(_ILLEGAL, f"the recall handle is of broker {handle.broker_name[:127]}, not of {broker.name}")
    if handle.deliver_ms <= time.time() * 1000 or not await broker.timers.cancel(
        handle.deliver_ms, topic, handle.unique_id
    ):
        raise Refusal(_ILLEGAL, f"message {handle.unique_id[:127]} waits no more: it was delivered or recalled")
    return handle.unique_id


async def reply(broker: Broker, connection: Connection, command: Command, caller: Caller) -> Command:
    """SEND_REPLY_MESSAGE and SEND_REPLY_MESSAGE_V2.

    A reply goes to the connection that the request came on, from whoever may subscribe to the request's topic. Apache
    RocketMQ pushes to any client that a reply names.
    """
    ext = command.ext
    header = {SEND_FIELDS[short]: ext.get(SEND_FIELDS[short]) or ext.get(short) for short in _PASSED_ON}
    name = header["topic"] or ""
    cluster = broker.settings.cluster_name
    if not any(is_reply_topic(name, called) for called in (cluster, reply_cluster(cluster, broker.name))):
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"replies are not sent to topic {name or 'without a name'}")
    check_length(command.body)  # a reply may well be empty
    properties = decode_properties(header["properties"] or "")
    awaited = broker.replies.find(properties)
    if awaited is None or not permissions.may(caller, connection, permissions.SUBSCRIBE, awaited.topic):
        raise Refusal(
            ResponseCode.SYSTEM_ERROR,
            f"push reply message fail: no request {properties.get(names.CORRELATION_ID)!r} of client"
            f" {properties.get(names.REPLY_TO_CLIENT)!r} is waiting for a reply",
        )
    now = str(int(time.time() * 1000))
    header |= {
        "properties": encode_properties(properties | {_PUSH_REPLY_TIME: now}).decode(),
        "bornHost": connection.address,
        "storeHost": broker.address,
        "storeTimestamp": now,
    }
    question = {field: value for field, value in header.items() if value is not None}
    answer = await awaited.connection.request(
        RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, question, command.body, seconds=PASS_ON_SECONDS
    )
    if answer.code != ResponseCode.SUCCESS:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"the requester refused its reply: {answer.remark or answer.code}")
    broker.replies.done(properties)
    queue_id = integer(ext, "e" if "e" in ext else "queueId", 0)
    return command.response(ResponseCode.SUCCESS, ext={"msgId": "0", "queueId": str(queue_id), "queueOffset": "0"})


HANDLERS = {
    RequestCode.END_TRANSACTION: end_transaction,
    RequestCode.RECALL_MESSAGE: recall,
    RequestCode.SEND_REPLY_MESSAGE: reply,
    RequestCode.SEND_REPLY_MESSAGE_V2: reply,
}
