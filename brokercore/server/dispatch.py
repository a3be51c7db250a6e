"""From request code to handler: signature, permission, then the handler; every failure becomes an answer."""

from __future__ import annotations

import asyncio
import logging
import secrets
import struct
from collections.abc import Callable, Coroutine
from typing import Any

import orjson

from brokercore.protocol.codes import RequestCode, ResponseCode
from brokercore.protocol.command import Command
from brokercore.protocol.errors import ProtocolError
from brokercore.server.broker import Broker
from brokercore.server.connections.connection import Connection, refuse, respond
from brokercore.server.errors import RedisError, Refusal, StoreUnavailable
from brokercore.server.handlers import HANDLERS
from brokercore.server.rights import permissions
from brokercore.server.rights.authentication import Caller
from brokercore.server.rights.limits import TooManyConnections

logger = logging.getLogger(__name__)

Handler = Callable[[Broker, Connection, Command, Caller], Command | Coroutine[Any, Any, Command | None] | None]
"""Returns the answer, None when it answers by itself, or a coroutine of either."""

DIALECT_BODY = 16 << 10
"""A body above so many bytes has to be standard JSON: reading fastjson's dialect takes seconds for each megabyte."""

REST_SECONDS = 0.0001
"""What a request that is not answered at once takes of its account's share of a round later on."""

_LONG_LIST = 4 << 10
"""Characters of a list of names in a header field, from which on it is long."""

MAX_JSON = 1 << 20
"""Largest body in bytes of a request that carries no message."""

_MESSAGES = frozenset(
    {
        RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE,
        RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2, RequestCode.CONSUME_MESSAGE_DIRECTLY,
    }
)  # fmt: skip


class Dispatcher:
    """Takes the requests of all connections."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._handlers: dict[int, Handler] = HANDLERS
        self._authenticate: Callable[[Connection, Command], Caller] = broker.security.authenticate

    def __call__(self, connection: Connection, command: Command) -> None:
        """Handle one request."""
        handler = self._handlers.get(command.code)
        if handler is None:
            remark = f" request type {command.code} not supported"
            respond(connection, command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark)
            return
        try:
            caller = self._authenticate(connection, command)
            if connection.stranger:
                self._broker.gate.known(connection)
            if caller.account is not connection.account:
                self._broker.limits.connect(connection, caller.account)
            answer: Command | Coroutine[Any, Any, Command | None] | None
            if (len(command.body) > DIALECT_BODY or "topicList" in command.ext) and is_long(command):
                check_json(command.body)
                answer = self._slowly(connection, command, caller, handler)
            else:
                permissions.check(connection, command, caller)
                answer = handler(self._broker, connection, command, caller)
        except Exception as error:  # noqa: BLE001 (the border: a request never takes the broker down)
            self._failed(connection, command, error)
            return
        if answer is None:
            return
        if isinstance(answer, Command):
            _send(connection, command, answer)
        else:
            if caller.account is not None:
                caller.account.share.left -= REST_SECONDS
            self._broker.spawn(self._finish(connection, command, answer))

    async def _slowly(
        self, connection: Connection, command: Command, caller: Caller, handler: Handler
    ) -> Command | None:
        """Look up all names of a long request in slices, before it is handled."""
        await self._broker.pace.work(caller.account).through(permissions.steps(connection, command, caller))
        if not connection.is_open:
            return None  # it would leave something behind that no connection ends
        answer = handler(self._broker, connection, command, caller)
        return answer if answer is None or isinstance(answer, Command) else await answer

    async def _finish(
        self, connection: Connection, command: Command, work: Coroutine[Any, Any, Command | None]
    ) -> None:
        try:
            answer = await work
        except Exception as error:  # noqa: BLE001 (the border, as above)
            self._failed(connection, command, error)
            return
        if answer is not None:
            _send(connection, command, answer)

    def _failed(self, connection: Connection, command: Command, error: Exception) -> None:
        if isinstance(error, Refusal):
            refuse(connection, command, error)
            self._broker.refusals.note(connection, command, error)
            if isinstance(error, TooManyConnections):
                connection.close()
        elif isinstance(error, ProtocolError):
            respond(connection, command, ResponseCode.SYSTEM_ERROR, str(error))
        elif isinstance(error, struct.error):
            respond(connection, command, ResponseCode.SYSTEM_ERROR, f"a header field is out of range: {error}")
        elif isinstance(error, RedisError):
            refuse(connection, command, StoreUnavailable(str(error)))
        elif isinstance(error, asyncio.TimeoutError | ConnectionError):
            respond(connection, command, ResponseCode.SYSTEM_ERROR, str(error) or "the time is over")
        else:
            number = secrets.token_hex(4)
            logger.error("request %d from %s failed [%s]", command.code, connection.address, number, exc_info=error)
            respond(connection, command, ResponseCode.SYSTEM_ERROR, f"the broker failed; its log names it {number}")


def is_long(command: Command) -> bool:
    """Whether a request may name so much that it is looked up in slices."""
    if command.code in _MESSAGES:
        return False
    return len(command.body) > DIALECT_BODY or len(command.ext.get("topicList") or "") > _LONG_LIST


def check_json(body: bytes) -> None:
    """Raise Refusal unless a large body is worth reading."""
    if len(body) <= DIALECT_BODY:
        return
    if len(body) > MAX_JSON:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"the body has {len(body)} bytes; allowed are {MAX_JSON}")
    try:
        orjson.loads(body)
    except orjson.JSONDecodeError:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"the body has {len(body)} bytes and is no standard JSON") from None


def _send(connection: Connection, command: Command, answer: Command) -> None:
    if not command.flag & 2:
        connection.send(answer)
