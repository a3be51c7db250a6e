"""ReceiveMessage, AckMessage, ChangeInvisibleDuration and ForwardMessageToDeadLetterQueue: consumption by POP."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator

from brokercore.protocol.bodies.clients import ConsumerData
from brokercore.protocol.codes import RequestCode, ResponseCode
from brokercore.protocol.command import Command
from brokercore.protocol.errors import MessageFormatError
from brokercore.protocol.grpc.messaging_pb2 import (
    AckMessageEntry,
    AckMessageRequest,
    AckMessageResponse,
    AckMessageResultEntry,
    ChangeInvisibleDurationRequest,
    ChangeInvisibleDurationResponse,
    Code,
    FilterExpression,
    FilterType,
    ForwardMessageToDeadLetterQueueRequest,
    ForwardMessageToDeadLetterQueueResponse,
    ReceiveMessageRequest,
    ReceiveMessageResponse,
    Status,
)
from brokercore.protocol.ids import Receipt
from brokercore.protocol.message import decode_stored
from brokercore.server.grpc.call import MOST_ENTRIES, OK, Call, Fault, check, overall, status_of
from brokercore.server.grpc.messages import build_message, group_name, topic_name
from brokercore.server.grpc.service import Service
from brokercore.server.grpc.sessions import RENEWED_MS
from brokercore.server.handlers.pop import MOST_INVISIBLE_MS

POLLING_SECONDS = 20.0
"""How long a receive waits that does not say so itself."""

LEAST_RECEIVED_MS = 10_000
"""The shortest invisible time of a receive, as the proxy of Apache RocketMQ has it (minInvisibleTimeMillsForRecv)."""

MOST_ANSWERING = 16 << 20
"""Bytes of messages that calls of one account have been given and have not read; each takes five times its memory."""

ANSWER_SECONDS = 0.3
"""What is left of a call's time for its answer."""

_AT_ONCE = 50
"""Receipt handles that are looked at in one turn."""

_HANDLE: dict[int, Code] = {
    ResponseCode.INVALID_PARAMETER: Code.INVALID_RECEIPT_HANDLE,
    ResponseCode.NO_MESSAGE: Code.INVALID_RECEIPT_HANDLE,
}


async def receive(
    service: Service, call: Call, request: ReceiveMessageRequest
) -> AsyncGenerator[ReceiveMessageResponse, None]:
    """Messages that are this consumer's for a while: a status, the messages, and the time of the answer."""
    topic, group = topic_name(request.message_queue.topic), group_name(request.group)
    answer = check(await _pop(call, request, topic, group))
    popped_ms, invisible_ms = int(answer.ext["popTime"]), int(answer.ext["invisibleTime"])
    found, size, account = decode_stored(answer.body), len(answer.body), call.account
    given = False
    if account is not None:
        account.answering += size
    try:
        if account is not None and account.answering > max(size, MOST_ANSWERING):
            sentence = f"calls of account {account.uid} have not read {account.answering} bytes that they asked for"
            raise Fault(Code.TOO_MANY_REQUESTS, sentence)
        if request.auto_renew:
            await _know_again(service, call, group)
        yield ReceiveMessageResponse(status=OK)
        space = request.message_queue.topic.resource_namespace
        for stored in found:
            offset = stored.queue_offset
            receipt = Receipt(offset, popped_ms, invisible_ms, call.broker.name, stored.queue_id, offset)
            yield ReceiveMessageResponse(message=build_message(stored, space, str(receipt), invisible_ms))
        yield _delivered_now()
        given = True
    finally:
        if account is not None:
            account.answering -= size
        for stored in found:
            held = (group, topic, stored.queue_id), stored.queue_offset, popped_ms
            if not given:
                service.renewals.give_back(*held)
            elif request.auto_renew:
                service.renewals.add((call.caller.key_id, call.client_id), *held)


async def _know_again(service: Service, call: Call, group: str) -> None:
    """A push consumer that a restarted broker does not know yet works on messages all the same. Raises Fault."""
    sessions = service.sessions
    if sessions.find(call) is None:
        await sessions.open(call).register(ConsumerData(group), without_subscriptions=True)


def refusal(status: Status) -> list[ReceiveMessageResponse]:
    """The parts of an answer without messages."""
    return [ReceiveMessageResponse(status=status), _delivered_now()]


def _delivered_now() -> ReceiveMessageResponse:
    """The last part of an answer: when it left."""
    last = ReceiveMessageResponse()
    last.delivery_timestamp.FromMilliseconds(int(time.time() * 1000))
    return last


async def _pop(call: Call, request: ReceiveMessageRequest, topic: str, group: str) -> Command:
    kind, expression = filter_of(request.filter_expression)
    ext = {
        "consumerGroup": group,
        "topic": topic,
        "queueId": "-1",  # of a whole broker, whatever queue the client names: so no queue waits for its turn
        "maxMsgNums": str(request.batch_size or 1),
        "invisibleTime": str(_invisible_ms(request)),
        "pollTime": str(int(1000 * _polling_seconds(call, request))),
        "bornTime": str(int(time.time() * 1000)),
        "initMode": "0",
        "exp": expression,
        "expType": kind,
        "order": "false",  # unless the group is an orderly one, which the broker knows
    }
    return await call.ask(RequestCode.POP_MESSAGE, ext)


def filter_of(expression: FilterExpression) -> tuple[str, str]:
    """The type and text of a filter as remoting clients send them."""
    if expression.type == FilterType.SQL:
        return "SQL92", expression.expression
    return "TAG", expression.expression or "*"


def _invisible_ms(request: ReceiveMessageRequest) -> int:
    if request.auto_renew:
        return RENEWED_MS  # whatever the client asks for: it is made longer here, as at the proxy
    return _checked(request.invisible_duration.ToMilliseconds(), LEAST_RECEIVED_MS)


def _checked(invisible_ms: int, least: int) -> int:
    """The time, if it may be. Raises Fault, whose sentence begins as the proxy's: programs look into it."""
    if invisible_ms < least:
        sentence = f"the invisibleTime is too small: it is {invisible_ms} ms, the least is {least}"
        raise Fault(Code.ILLEGAL_INVISIBLE_TIME, sentence)
    if invisible_ms > MOST_INVISIBLE_MS:
        sentence = f"the invisibleTime is too large: it is {invisible_ms} ms, the most is {MOST_INVISIBLE_MS}"
        raise Fault(Code.ILLEGAL_INVISIBLE_TIME, sentence)
    return invisible_ms


def _polling_seconds(call: Call, request: ReceiveMessageRequest) -> float:
    wanted = POLLING_SECONDS
    if request.HasField("long_polling_timeout"):
        wanted = request.long_polling_timeout.ToMilliseconds() / 1000
    if call.seconds_left is not None:
        wanted = min(wanted, call.seconds_left - ANSWER_SECONDS)
    return max(0.0, wanted)


async def acknowledge(_service: Service, call: Call, request: AckMessageRequest) -> AckMessageResponse:
    """Messages are done with; each has a result of its own."""
    topic, group = topic_name(request.topic), group_name(request.group)
    if len(request.entries) > MOST_ENTRIES:
        raise Fault(Code.BAD_REQUEST, f"the call has {len(request.entries)} entries; allowed are {MOST_ENTRIES}")
    entries = []
    for start in range(0, len(request.entries), _AT_ONCE):
        part = request.entries[start : start + _AT_ONCE]
        entries += await asyncio.gather(*(_acknowledge(call, entry, topic, group) for entry in part))
    return AckMessageResponse(status=_named(overall([entry.status for entry in entries])), entries=entries)


def _named(status: Status) -> Status:
    """The status with its code's name before the sentence: the proxy says the name alone, and programs look for it."""
    name = Code.Name(status.code)
    named = status.message if status.message.startswith(name) else f"{name}: {status.message}"
    return Status(code=status.code, message=named)


async def _acknowledge(call: Call, entry: AckMessageEntry, topic: str, group: str) -> AckMessageResultEntry:
    result = AckMessageResultEntry(message_id=entry.message_id, receipt_handle=entry.receipt_handle)
    try:
        ext = _handle_ext(_receipt(entry.receipt_handle), topic, group)
        check(await call.ask(RequestCode.ACK_MESSAGE, ext), _HANDLE)
        result.status.CopyFrom(OK)
    except Exception as error:  # noqa: BLE001 (one message's trouble is its own)
        result.status.CopyFrom(status_of(error, "AckMessage"))
    return result


async def change_invisible_duration(
    _service: Service, call: Call, request: ChangeInvisibleDurationRequest
) -> ChangeInvisibleDurationResponse:
    """A message is visible to others again so long from now; it has a new receipt handle."""
    topic, group = topic_name(request.topic), group_name(request.group)
    receipt = _receipt(request.receipt_handle)
    invisible_ms = _checked(request.invisible_duration.ToMilliseconds(), 0)
    ext = _handle_ext(receipt, topic, group) | {"invisibleTime": str(invisible_ms)}
    answer = check(await call.ask(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, ext), _HANDLE)
    changed = receipt._replace(popped_ms=int(answer.ext["popTime"]), invisible_ms=invisible_ms)
    return ChangeInvisibleDurationResponse(status=OK, receipt_handle=str(changed))


async def forward_to_dead_letters(
    _service: Service, call: Call, request: ForwardMessageToDeadLetterQueueRequest
) -> ForwardMessageToDeadLetterQueueResponse:
    """A consumer gives a message up: it becomes a dead letter of the group, and is done with."""
    topic, group = topic_name(request.topic), group_name(request.group)
    receipt = _receipt(request.receipt_handle)
    found = call.broker.topics.get(topic)
    place = (group, topic, receipt.queue_id)
    state = call.broker.flights.find(place)
    flight = state.flights.get(receipt.offset) if state else None
    if found is None or flight is None or flight.popped_ms != receipt.popped_ms:
        raise Fault(Code.INVALID_RECEIPT_HANDLE, "the receipt handle holds no more: the message was given out again")
    physical_offset = found.queues[receipt.queue_id].base + receipt.offset
    ext = {"group": group, "offset": str(physical_offset), "delayLevel": "-1", "originTopic": topic}
    check(await call.ask(RequestCode.CONSUMER_SEND_MSG_BACK, ext))
    # Not as an acknowledgement: in an ordered group it would come again with one before it, and is a dead letter.
    await call.broker.flights.acknowledge(place, receipt.offset, receipt.popped_ms, in_turn=False)
    return ForwardMessageToDeadLetterQueueResponse(status=OK)


def _receipt(handle: str) -> Receipt:
    try:
        return Receipt.parse(handle)
    except MessageFormatError as error:
        raise Fault(Code.INVALID_RECEIPT_HANDLE, str(error)) from error


def _handle_ext(receipt: Receipt, topic: str, group: str) -> dict[str, str]:
    return {
        "consumerGroup": group,
        "topic": topic,
        "queueId": str(receipt.queue_id),
        "offset": str(receipt.offset),
        "extraInfo": str(receipt),
    }
