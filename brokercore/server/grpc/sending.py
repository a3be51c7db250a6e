"""SendMessage, EndTransaction and RecallMessage."""

from __future__ import annotations

import asyncio

from brokercore.protocol.codes import RequestCode, ResponseCode
from brokercore.protocol.errors import MessageFormatError
from brokercore.protocol.grpc.messaging_pb2 import (
    Code,
    EndTransactionRequest,
    EndTransactionResponse,
    Message,
    RecallMessageRequest,
    RecallMessageResponse,
    SendMessageRequest,
    SendMessageResponse,
    SendResultEntry,
    TransactionResolution,
    TransactionSource,
)
from brokercore.protocol.ids import java_string_hash, parse_offset_message_id
from brokercore.protocol.message import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK
from brokercore.server.grpc.call import MOST_ENTRIES, OK, Call, Fault, check, overall, status_of
from brokercore.server.grpc.messages import Outgoing, read_message, topic_name, transaction_id
from brokercore.server.grpc.service import Service

_KIND: dict[int, Code] = {ResponseCode.MESSAGE_ILLEGAL: Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE}
"""Body and properties were looked at before: what is left to be wrong with a message is its kind."""

_MOST_BYTES = 8 << 20
"""Bytes of the unpacked bodies of one call."""

_RESOLUTIONS = {
    TransactionResolution.COMMIT: TRANSACTION_COMMIT,
    TransactionResolution.ROLLBACK: TRANSACTION_ROLLBACK,
}


async def send(service: Service, call: Call, request: SendMessageRequest) -> SendMessageResponse:
    """Store messages, in their order; each has a result of its own."""
    if not request.messages:
        raise Fault(Code.MESSAGE_CORRUPTED, "there is no message to send")
    if any(message.topic != request.messages[0].topic for message in request.messages):
        raise Fault(Code.MESSAGE_CORRUPTED, "the messages of one call have one topic")
    if len(request.messages) > MOST_ENTRIES:
        raise Fault(Code.BAD_REQUEST, f"the call has {len(request.messages)} messages; allowed are {MOST_ENTRIES}")
    topic = topic_name(request.messages[0].topic)
    size = 0
    sending = []
    work = call.broker.pace.work(call.account)
    async for message in work.over(request.messages):
        found = _read(message, topic) if size <= _MOST_BYTES else _too_large()
        if isinstance(found, Outgoing):
            size += len(found.body)
            found = found if size <= _MOST_BYTES else _too_large()
        sending.append(asyncio.ensure_future(_send_one(service, call, found, topic)))
    entries = await asyncio.gather(*sending)
    return SendMessageResponse(status=overall([entry.status for entry in entries]), entries=entries)


def _too_large() -> Fault:
    return Fault(Code.MESSAGE_BODY_TOO_LARGE, f"the bodies of one call have more than {_MOST_BYTES} bytes")


def _read(message: Message, topic: str) -> Outgoing | Exception:
    try:
        return read_message(message, topic)
    except Exception as error:  # noqa: BLE001 (as below)
        return error


async def _send_one(service: Service, call: Call, message: Outgoing | Exception, topic: str) -> SendResultEntry:
    try:
        if isinstance(message, Exception):
            raise message
        return await _store(service, call, message, topic)
    except Exception as error:  # noqa: BLE001 (one message's trouble is its own)
        return SendResultEntry(status=status_of(error, "SendMessage"))


async def _store(service: Service, call: Call, message: Outgoing, topic: str) -> SendResultEntry:
    ext = {
        "a": topic,
        "b": topic,
        "e": str(_queue_id(call, topic, message.message_group)),
        "f": str(message.sys_flag),
        "g": str(message.born_ms),
        "h": "0",
        "i": message.properties,
    }
    session = service.sessions.find(call) if message.sys_flag else None
    if session is not None:
        await session.produces([topic])  # a client need not name its topics beforehand, and is asked all the same
    answer = check(await call.ask(RequestCode.SEND_MESSAGE_V2, ext, message.body), _KIND)
    offset_id, queue_offset = answer.ext["msgId"], answer.ext["queueOffset"]
    return SendResultEntry(
        status=OK,
        message_id=message.message_id,
        transaction_id=transaction_id(offset_id, queue_offset) if message.sys_flag else message.message_id,
        offset=int(queue_offset),
        recall_handle=answer.ext.get("recallHandle", ""),
    )


def _queue_id(call: Call, topic: str, message_group: str) -> int:
    """Messages of one group go to one queue; for all others the broker chooses (-1)."""
    found = call.broker.topics.get(topic) if message_group else None
    return java_string_hash(message_group) % max(1, found.config.write_queues) if found else -1


async def end_transaction(_service: Service, call: Call, request: EndTransactionRequest) -> EndTransactionResponse:
    """Commit or roll back a half message; any other resolution leaves it to be checked."""
    topic = topic_name(request.topic)
    offset_id, _, queue_offset = request.transaction_id.partition("-")
    try:
        physical_offset = parse_offset_message_id(offset_id)[2]
    except MessageFormatError:
        raise Fault(Code.INVALID_TRANSACTION_ID, "the transaction id is not one of this broker") from None
    ext = {
        "topic": topic,
        "producerGroup": topic,
        "commitLogOffset": str(physical_offset),
        "tranStateTableOffset": queue_offset,
        "commitOrRollback": str(_RESOLUTIONS.get(request.resolution, 0)),
        "fromTransactionCheck": str(request.source == TransactionSource.SOURCE_SERVER_CHECK).lower(),
        "msgId": request.message_id,
        "transactionId": request.message_id,
    }
    special: dict[int, Code] = {ResponseCode.SYSTEM_ERROR: Code.INVALID_TRANSACTION_ID}
    check(await call.ask(RequestCode.END_TRANSACTION, ext), special)
    return EndTransactionResponse(status=OK)


async def recall(_service: Service, call: Call, request: RecallMessageRequest) -> RecallMessageResponse:
    """Take back a message whose time has not come."""
    topic = topic_name(request.topic)
    ext = {"producerGroup": topic, "topic": topic, "recallHandle": request.recall_handle}
    answer = check(await call.ask(RequestCode.RECALL_MESSAGE, ext))
    return RecallMessageResponse(status=OK, message_id=answer.ext.get("msgId", ""))
