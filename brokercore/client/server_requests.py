"""What a broker asks of a consumer: rebalance, reset offsets, tell of itself, consume one message now."""

from __future__ import annotations

import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable

from brokercore.client.messages import ConsumeResult
from brokercore.client.rebalance import Rebalancer
from brokercore.client.session import Session
from brokercore.protocol.bodies.clients import DirectResult, RunningInfo
from brokercore.protocol.bodies.stats import offsets_from_json, offsets_to_json
from brokercore.protocol.codes import RequestCode, ResponseCode
from brokercore.protocol.command import Command
from brokercore.protocol.errors import ProtocolError
from brokercore.protocol.fastjson import dumps_with
from brokercore.protocol.message import StoredMessage, decode_stored

log = logging.getLogger(__name__)

Handle = Callable[[StoredMessage, str], ConsumeResult]
"""The handler's word on a message that came from the broker of this name."""


class ServerRequests:
    """Answers NOTIFY_CONSUMER_IDS_CHANGED, RESET_CONSUMER_CLIENT_OFFSET, GET_CONSUMER_STATUS_FROM_CLIENT,
    GET_CONSUMER_RUNNING_INFO and, where there is a handler, CONSUME_MESSAGE_DIRECTLY."""

    def __init__(
        self,
        session: Session,
        rebalancer: Rebalancer,
        handle: Handle | None,
        *,
        wake: Callable[[], None],
        running_info: Callable[[], RunningInfo],
    ) -> None:
        self._rebalancer = rebalancer
        self._wake = wake
        self._running_info = running_info
        session.handle(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, self._members_changed)
        session.handle(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, self._reset)
        session.handle(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, self._status)
        session.handle(RequestCode.GET_CONSUMER_RUNNING_INFO, self._tell)
        if handle is not None:
            session.handle(RequestCode.CONSUME_MESSAGE_DIRECTLY, lambda _address, command: _consume(command, handle))

    def _members_changed(self, _address: str, _command: Command) -> None:
        self._wake()

    def _reset(self, address: str, command: Command) -> None:
        try:
            offsets = offsets_from_json(command.body)
        except ProtocolError as error:
            log.warning("< %s offsets to reset cannot be read: %s", address, error)
            return
        for queue, offset in offsets.items():
            self._rebalancer.jump(queue, offset)

    def _status(self, _address: str, command: Command) -> Command:
        topic = command.ext.get("topic", "")
        offsets = {item.queue: item.commit_offset for item in self._rebalancer.owned() if item.queue.topic == topic}
        table = offsets_to_json(offsets, "messageQueueTable")
        return command.response(
            ResponseCode.SUCCESS, body=dumps_with({"consumerTable": {}}, {})[:-1] + b"," + table[1:]
        )

    def _tell(self, _address: str, command: Command) -> Command:
        info = self._running_info()
        if command.ext.get("jstackEnable") == "true":
            info.jstack = stack_dump()
        return command.response(ResponseCode.SUCCESS, body=info.to_json())


def _consume(command: Command, handle: Handle) -> Command:
    begun = time.monotonic()
    try:
        message = decode_stored(command.body)[0]
    except (ProtocolError, IndexError):
        return command.response(ResponseCode.SYSTEM_ERROR, "the body is no message")
    try:
        consumed = handle(message, command.ext.get("brokerName", ""))
        result = DirectResult("CR_SUCCESS" if consumed is ConsumeResult.SUCCESS else "CR_LATER")
    except Exception as error:
        log.exception("the handler failed on message %s, consumed on request", message.unique_id)
        result = DirectResult("CR_THROW_EXCEPTION", remark=f"{type(error).__name__}: {error}")
    result.spent_ms = int((time.monotonic() - begun) * 1000)
    return command.response(ResponseCode.SUCCESS, body=result.to_json())


def stack_dump() -> str:
    """The stack of every thread: what Java calls jstack."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    parts = []
    for ident, frame in sys._current_frames().items():
        stack = "".join(traceback.format_stack(frame))
        parts.append(f"{names.get(ident, '?'):<40}TID: {ident}\n{stack}")
    return "\n".join(parts)
