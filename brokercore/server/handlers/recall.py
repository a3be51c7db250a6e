"""RECALL_MESSAGE (370): a producer takes a scheduled message back before its time."""

from __future__ import annotations

import time

from brokercore.protocol.codes import RequestCode, ResponseCode
from brokercore.protocol.command import Command
from brokercore.protocol.errors import MessageFormatError
from brokercore.protocol.recall import RecallHandle
from brokercore.server.broker import Broker
from brokercore.server.connection import Connection
from brokercore.server.errors import Refusal
from brokercore.server.handlers.offsets import existing_topic
from brokercore.server.headers import text
from brokercore.server.security import Caller

_ILLEGAL = ResponseCode.ILLEGAL_OPERATION


async def recall(broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """Answered with the message's unique id once it is gone. A message that is on its way already stays on its way."""
    unique_id = await take_back(broker, text(command.ext, "topic"), text(command.ext, "recallHandle"))
    return command.response(ResponseCode.SUCCESS, ext={"msgId": unique_id})


async def take_back(broker: Broker, topic: str, given: str) -> str:
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


HANDLERS = {RequestCode.RECALL_MESSAGE: recall}
