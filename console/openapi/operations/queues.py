"""Queues of the account, and their messages by hand. They are the account's own and belong to no instance."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, StringConstraints

from brokercore.smq.client import Delivered
from brokercore.smq.wire.messages import MAX_BATCH, PRIORITY_LEAST, PRIORITY_MOST
from brokercore.smq.wire.queues import LOGGING, RANGES, QueueState
from brokercore.smq.wire.requests import MAX_NAME
from console.openapi.envelope import Page, cut
from console.openapi.operations import attributes
from console.openapi.registry import (
    NOTHING,
    Boolean,
    Call,
    Choice,
    ListPage,
    ListSize,
    Nothing,
    OrNothing,
    Parameters,
    Result,
    operation,
)
from console.queues import access, queries, services

_MISSES = ("BIZ_QUEUE_NOT_FOUND",)
_MESSAGE_MISSES = ("BIZ_QUEUE_NOT_FOUND", "BIZ_NO_MESSAGE")
_DELAY, _HIDDEN, _KEPT, _POLL, _SIZE = (
    RANGES[name]
    for name in (
        "DelaySeconds",
        "VisibilityTimeout",
        "MessageRetentionPeriod",
        "PollingWaitSeconds",
        "MaximumMessageSize",
    )
)
QueueName = Annotated[
    str, Field(min_length=1, max_length=MAX_NAME, description="Name of the queue.", examples=["orders"])
]
ReceiptHandle = Annotated[
    str, Field(min_length=1, max_length=256, description="The handle of the latest receive of the message.")
]
Delay = Annotated[Annotated[int, Field(ge=_DELAY.least, le=_DELAY.most)] | None, OrNothing]
Count = Annotated[int, Field(ge=1, le=MAX_BATCH, description=f"Messages at most, 1 to {MAX_BATCH}."), Choice]


class QueueOnly(Parameters):
    queue: QueueName


class QueueAttributes(QueueOnly):
    visibilityTimeout: Annotated[
        Annotated[int, Field(ge=_HIDDEN.least, le=_HIDDEN.most)] | None, OrNothing,
        Field(description=f"Seconds that a received message is hidden; default: {_HIDDEN.default}."),
    ] = None  # fmt: skip
    messageRetentionPeriod: Annotated[
        Annotated[int, Field(ge=_KEPT.least, le=_KEPT.most)] | None, OrNothing,
        Field(description=f"Seconds that a message is kept; default: {_KEPT.default}."),
    ] = None  # fmt: skip
    delaySeconds: Annotated[Delay, Field(description="Seconds before a new message can be received; default: 0.")] = (
        None
    )
    pollingWaitSeconds: Annotated[
        Annotated[int, Field(ge=_POLL.least, le=_POLL.most)] | None, OrNothing,
        Field(description="Seconds that a receive waits by default; default: 0."),
    ] = None  # fmt: skip
    maximumMessageSize: Annotated[
        Annotated[int, Field(ge=_SIZE.least, le=_SIZE.most)] | None, OrNothing,
        Field(description=f"Bytes of a body, at most; default: {_SIZE.default}."),
    ] = None  # fmt: skip
    loggingEnabled: Annotated[Boolean | None, Field(description="Whether the queue is logged.")] = None


class QueueList(Parameters):
    queue: Annotated[str, Field(max_length=MAX_NAME, description="Part of the names looked for, in any case.")] = ""
    currentPage: ListPage = 1
    pageSize: Annotated[ListSize, Field(description="Queues a page, 1 to 100.")] = 20


class MessageSend(QueueOnly):
    body: Annotated[
        str,
        StringConstraints(strip_whitespace=False, min_length=1, max_length=_SIZE.most),
        Field(description="The body: text of at most the queue's size, without control characters."),
    ]
    delaySeconds: Annotated[Delay, Field(description="Seconds before it can be received; default: the queue's.")] = None
    priority: Annotated[
        Annotated[int, Field(ge=PRIORITY_LEAST, le=PRIORITY_MOST)] | None,
        OrNothing,
        Field(description="1 is received first, 16 last; default: 8."),
    ] = None


class MessageReceive(QueueOnly):
    numOfMessages: Count = 1
    waitSeconds: Annotated[
        int,
        Field(ge=0, le=services.WAIT_SECONDS, description="How long to wait for a message, seconds."),
        Choice,
    ] = 0


class MessagePeek(QueueOnly):
    numOfMessages: Count = MAX_BATCH


class MessageHandle(QueueOnly):
    receiptHandle: ReceiptHandle


class MessageHide(MessageHandle):
    visibilityTimeout: Annotated[
        int, Field(ge=_HIDDEN.least, le=_HIDDEN.most, description="Seconds from now on."), Choice
    ]


class QueueDo(Result):
    """A queue."""

    queue: str
    visibilityTimeout: int = Field(description="Seconds that a received message is hidden.")
    messageRetentionPeriod: int = Field(description="Seconds that a message is kept.")
    delaySeconds: int = Field(description="Seconds before a new message can be received.")
    pollingWaitSeconds: int = Field(description="Seconds that a receive waits by default.")
    maximumMessageSize: int = Field(description="Bytes of a body, at most.")
    loggingEnabled: bool = Field(description="Whether the queue is logged.")
    activeMessages: int = Field(description="Messages that can be received.")
    inactiveMessages: int = Field(description="Messages that are hidden: received and not deleted.")
    delayMessages: int = Field(description="Messages whose delay has not ended.")
    oldestMessageTime: int = Field(description="When the oldest message was sent, ms; 0 without any.")
    sentMessages: int = Field(description="Messages sent since the queue was made.")
    receivedMessages: int = Field(description="Messages received since then, each time counted.")
    createTime: int = Field(description="Milliseconds since the epoch.")
    lastModifyTime: int = Field(description="Milliseconds since the epoch.")


class SentMessage(Result):
    """What became of a send."""

    messageId: str
    bodyMD5: str = Field(description="MD5 of the body, hexadecimal.")
    receiptHandle: str = Field(description="Of a delayed message, by which it can be deleted; else empty.")


class PeekedMessage(Result):
    """A message that was looked at."""

    messageId: str
    body: str = Field(description="The body as it was sent; SDKs for Java and Python send Base64.")
    priority: int = Field(description="1 is received first, 16 last.")
    dequeueCount: int = Field(description="How often it was received.")
    enqueueTime: int = Field(description="When it was sent, ms.")
    firstDequeueTime: int = Field(description="When it was received first, ms; when it was sent, if never.")


class ReceivedMessage(PeekedMessage):
    """A message that was received."""

    receiptHandle: str = Field(description="By which it is deleted or hidden, until nextVisibleTime.")
    nextVisibleTime: int = Field(description="When it can be received again, ms.")


class Hidden(Result):
    """What became of a change of visibility; the handle of before has ended."""

    receiptHandle: str = Field(description="The new handle.")
    nextVisibleTime: int = Field(description="When it can be received again, ms.")


@operation(
    "queue/list",
    service="Queue",
    summary="Queues, page by page",
    description="By name. A page past the end is empty and reports the true total.",
    parameters=QueueList,
    result=QueueDo,
    paged=True,
    needs=("mns:ListQueue",),
    extension=True,
)
def list_queues(call: Call, parameters: QueueList) -> Page:
    tenant = access.require_queue(call.actor, "mns:ListQueue", "")
    found = queries.listing(tenant, parameters.queue).rows
    rows = cut(parameters, found)
    queries.fill(tenant, rows)
    entries = [_described(row.state) for row in rows if row.state is not None]
    return Page.of(parameters, entries, len(found))


@operation(
    "queue/get",
    service="Queue",
    summary="Attributes and counters of a queue",
    parameters=QueueOnly,
    result=QueueDo,
    needs=("mns:GetQueueAttributes",),
    errors=_MISSES,
    extension=True,
)
def get(call: Call, parameters: QueueOnly) -> QueueDo:
    tenant = access.require_queue(call.actor, "mns:GetQueueAttributes", parameters.queue)
    return _described(queries.queue(tenant, parameters.queue))


@operation(
    "queue/create",
    service="Queue",
    summary="Create a queue",
    description=f"1 to {MAX_NAME} letters, digits and hyphens, a letter or digit first. A queue that is there with the "
    "same attributes is left as it is.",
    parameters=QueueAttributes,
    result=Nothing,
    needs=("mns:CreateQueue",),
    changes=True,
    errors=("BIZ_QUEUE_EXISTED", "BIZ_QUEUE_QUOTA_EXCEEDED"),
    extension=True,
)
def create(call: Call, parameters: QueueAttributes) -> dict[str, Any]:
    access.require_queue(call.actor, "mns:CreateQueue", parameters.queue)
    services.create_queue(actor=call.actor, name=parameters.queue, attributes=attributes.given(parameters, "queue"))
    return NOTHING


@operation(
    "queue/set",
    service="Queue",
    summary="Change attributes of a queue",
    description="Omitted attributes keep their values.",
    parameters=QueueAttributes,
    result=Nothing,
    needs=("mns:SetQueueAttributes",),
    changes=True,
    errors=_MISSES,
    extension=True,
)
def set_attributes(call: Call, parameters: QueueAttributes) -> dict[str, Any]:
    access.require_queue(call.actor, "mns:SetQueueAttributes", parameters.queue)
    services.set_attributes(actor=call.actor, name=parameters.queue, attributes=attributes.needed(parameters, "queue"))
    return NOTHING


@operation(
    "queue/delete",
    service="Queue",
    summary="Delete a queue with all that is in it",
    parameters=QueueOnly,
    result=Nothing,
    needs=("mns:DeleteQueue",),
    changes=True,
    errors=_MISSES,
    extension=True,
)
def delete(call: Call, parameters: QueueOnly) -> dict[str, Any]:
    access.require_queue(call.actor, "mns:DeleteQueue", parameters.queue)
    services.delete_queue(actor=call.actor, name=parameters.queue)
    return NOTHING


@operation(
    "queue/send",
    service="Queue",
    summary="Send a message to a queue",
    parameters=MessageSend,
    result=SentMessage,
    needs=("mns:SendMessage",),
    changes=True,
    errors=(*_MISSES, "BIZ_QUEUE_QUOTA_EXCEEDED"),
    extension=True,
)
def send(call: Call, parameters: MessageSend) -> SentMessage:
    access.require_queue(call.actor, "mns:SendMessage", parameters.queue)
    sent = services.send_message(
        actor=call.actor,
        name=parameters.queue,
        body=parameters.body,
        delay_s=parameters.delaySeconds,
        priority=parameters.priority,
    )
    return SentMessage(messageId=sent.id, bodyMD5=sent.digest.hex(), receiptHandle=sent.handle)


@operation(
    "queue/receive",
    service="Queue",
    summary="Receive messages of a queue",
    description="They are hidden for the queue's visibility timeout, and come back unless queue/deleteMessage is "
    "called meanwhile. An empty list: nothing can be received.",
    parameters=MessageReceive,
    result=list[ReceivedMessage],
    needs=("mns:ReceiveMessage",),
    changes=True,
    errors=_MISSES,
    extension=True,
)
def receive(call: Call, parameters: MessageReceive) -> list[ReceivedMessage]:
    access.require_queue(call.actor, "mns:ReceiveMessage", parameters.queue)
    found = services.receive_messages(
        actor=call.actor, name=parameters.queue, most=parameters.numOfMessages, wait_s=parameters.waitSeconds
    )
    return [
        ReceivedMessage(**_message(one), receiptHandle=one.handle, nextVisibleTime=one.next_visible_ms) for one in found
    ]


@operation(
    "queue/peek",
    service="Queue",
    summary="Look at the messages that would be received next",
    description="Nothing of them changes.",
    parameters=MessagePeek,
    result=list[PeekedMessage],
    needs=("mns:PeekMessage",),
    errors=_MISSES,
    extension=True,
)
def peek(call: Call, parameters: MessagePeek) -> list[PeekedMessage]:
    tenant = access.require_queue(call.actor, "mns:PeekMessage", parameters.queue)
    return [PeekedMessage(**_message(one)) for one in queries.peek(tenant, parameters.queue, parameters.numOfMessages)]


@operation(
    "queue/hide",
    service="Queue",
    summary="Change how long a received message is hidden",
    parameters=MessageHide,
    result=Hidden,
    needs=("mns:ChangeMessageVisibility",),
    changes=True,
    errors=_MESSAGE_MISSES,
    extension=True,
)
def hide(call: Call, parameters: MessageHide) -> Hidden:
    access.require_queue(call.actor, "mns:ChangeMessageVisibility", parameters.queue)
    handle, until_ms = services.hide_message(
        actor=call.actor, name=parameters.queue, handle=parameters.receiptHandle, seconds=parameters.visibilityTimeout
    )
    return Hidden(receiptHandle=handle, nextVisibleTime=until_ms)


@operation(
    "queue/deleteMessage",
    service="Queue",
    summary="Delete a received message",
    parameters=MessageHandle,
    result=Nothing,
    needs=("mns:DeleteMessage",),
    changes=True,
    errors=_MESSAGE_MISSES,
    extension=True,
)
def delete_message(call: Call, parameters: MessageHandle) -> dict[str, Any]:
    access.require_queue(call.actor, "mns:DeleteMessage", parameters.queue)
    services.delete_message(actor=call.actor, name=parameters.queue, handle=parameters.receiptHandle)
    return NOTHING


def _described(state: QueueState) -> QueueDo:
    attributes = {name[0].lower() + name[1:]: value for name, value in state.attributes.items() if name != LOGGING}
    return QueueDo(
        queue=state.name,
        **attributes,
        loggingEnabled=state.is_logged,
        activeMessages=state.active,
        inactiveMessages=state.inactive,
        delayMessages=state.delayed,
        oldestMessageTime=state.oldest_ms,
        sentMessages=state.sent,
        receivedMessages=state.received,
        createTime=state.created * 1000,
        lastModifyTime=state.modified * 1000,
    )


def _message(one: Delivered) -> dict[str, Any]:
    return {
        "messageId": one.id,
        "body": one.body.decode(),
        "priority": one.priority,
        "dequeueCount": one.count,
        "enqueueTime": one.enqueued_ms,
        "firstDequeueTime": one.first_ms,
    }
