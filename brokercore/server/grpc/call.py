"""A gRPC call as the broker's handlers see it, and as its client is answered.

To the handlers it is a connection that asks for its caller and keeps the answers. The client is told a `Status`, made
from a fault of the service's own or from an answer of the broker.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from google.protobuf.message import DecodeError, Message

from brokercore.protocol.codes import ResponseCode
from brokercore.protocol.command import Command, decode
from brokercore.protocol.errors import ProtocolError
from brokercore.protocol.grpc.messaging_pb2 import Code, Resource, Status
from brokercore.server.connections.connection import Connection
from brokercore.server.errors import RedisError, Refusal, StoreUnavailable

if TYPE_CHECKING:
    from brokercore.server.broker import Broker
    from brokercore.server.connections.connection import Dispatch
    from brokercore.server.rights.authentication import Caller

logger = logging.getLogger(__name__)
Request = TypeVar("Request", bound=Message)

MOST_ENTRIES = 1000
"""Messages, or receipt handles, of one call: clients send one message, and acknowledge what one receive gave them."""

_LANGUAGES = {"DOT_NET": "DOTNET", "GOLANG": "GO"}
_KNOWN = frozenset({"JAVA", "CPP", "DOTNET", "PYTHON", "GO", "PHP", "RUST", "RUBY", "NODE_JS"})

CALL_SECONDS = 0.0003
"""What reading and answering a call takes, whatever it asks for."""

OK = Status(code=Code.OK, message="OK")

_CODES: dict[int, Code] = {
    ResponseCode.SUCCESS: Code.OK,
    ResponseCode.SYSTEM_BUSY: Code.TOO_MANY_REQUESTS,
    ResponseCode.FLOW_CONTROL: Code.TOO_MANY_REQUESTS,
    ResponseCode.POLLING_FULL: Code.TOO_MANY_REQUESTS,
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: Code.NOT_IMPLEMENTED,
    ResponseCode.NO_PERMISSION: Code.FORBIDDEN,
    ResponseCode.TOPIC_NOT_EXIST: Code.TOPIC_NOT_FOUND,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: Code.CONSUMER_GROUP_NOT_FOUND,
    ResponseCode.SUBSCRIPTION_PARSE_FAILED: Code.ILLEGAL_FILTER_EXPRESSION,
    ResponseCode.INVALID_PARAMETER: Code.BAD_REQUEST,
    ResponseCode.MESSAGE_ILLEGAL: Code.BAD_REQUEST,
    ResponseCode.POLLING_TIMEOUT: Code.MESSAGE_NOT_FOUND,
    ResponseCode.NO_MESSAGE: Code.INVALID_RECEIPT_HANDLE,
}


class InnerConnection(Connection):
    """Where a call came from, and what the broker answers to the requests that it stands for."""

    minds_unset_types = True
    minds_late_handles = True

    def __init__(self, broker: Broker, dispatch: Dispatch, caller: Caller, came_on: Connection) -> None:
        super().__init__(dispatch, _nothing, broker.turn, broker.rounds)
        self.broker, self.caller = broker, caller
        self.account = caller.account  # the line that it came on is what counts as a connection
        self.peer, self.host_bytes, self.secure = came_on.peer, came_on.host_bytes, came_on.secure
        self.last_seen = time.monotonic()
        self.language = "OTHER"
        self._ended = False

    @property
    def is_open(self) -> bool:
        """False once the client has gone, or is answered."""
        return not self._ended

    def speaks(self, language: str) -> None:
        """The client's language, as its metadata names it."""
        name = _LANGUAGES.get(language, language)
        self.language = name if name in _KNOWN else "OTHER"

    async def turn(self) -> None:
        """Wait until the account has room in a round of the loop: a call takes as much as many small requests."""
        await self._rounds.turn(self._share(), CALL_SECONDS)

    async def ask(self, code: int, ext: dict[str, str], body: bytes = b"") -> Command:
        """Have the broker's handlers do something, with the rights of the caller, and return their answer.

        Raises ConnectionResetError when the client goes meanwhile.
        """
        opaque = self._next_opaque()
        future: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        self._waiting[opaque] = future
        try:
            self._dispatch(self, Command(code, opaque, language=self.language, ext=ext, body=body))
            return await future
        finally:
            self._waiting.pop(opaque, None)

    # What handlers answer

    def write(self, *parts: bytes) -> None:
        self._answered(decode(b"".join(parts)[4:]))

    def send(self, command: Command) -> None:
        self._answered(command)

    def send_frames(self, command: Command, frames: Iterable[bytes], _size: int) -> None:
        command.body = b"".join(frames)
        self._answered(command)

    # What the broker asks or tells by itself: only a client that listens (Session) can be told

    def push(self, code: int, ext: dict[str, str], body: bytes = b"") -> None:
        """Nobody listens."""

    async def request(self, code: int, _ext: dict[str, str], _body: bytes = b"", *, seconds: float) -> Command:
        raise TimeoutError(f"a gRPC client cannot be asked {code} within {seconds} s")

    # The end

    def close(self) -> None:
        """The call is over: what waits for it gives up."""
        if not self._ended:
            self._ended = True
            self.connection_lost(None)

    abort = close


class Call(InnerConnection):
    """A call whose signature is right, of the client that calls itself `client_id`."""

    def __init__(self, broker: Broker, dispatch: Dispatch, caller: Caller, came_on: Connection, client_id: str) -> None:
        super().__init__(broker, dispatch, caller, came_on)
        self.came_on, self.client_id = came_on, client_id
        self.space = ""
        """The namespace that the call's metadata names."""
        self.seconds_left: float | None = None
        """Until the client gives up, when the call began; None when it waits for ever."""

    def read(self, kind: type[Request], data: bytes) -> Request:
        """A request of this call, with all its topics and groups in their namespace. Raises DecodeError."""
        request: Request = kind.FromString(data)
        if self.space:
            _complete(request, self.space)
        return request


def _complete(request: Message, space: str) -> None:
    """Put the namespace of a call into all topics and groups of its request that have none.

    The clients for Java and Python name it with each of them and in the call's metadata; the client for Node in the
    metadata alone, but for what it sends.
    """
    for field, value in request.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        for part in value if isinstance(value, Sequence) else (value,):
            if not isinstance(part, Resource):
                _complete(part, space)
            elif not part.resource_namespace and part.name and not part.name.startswith(f"{space}%"):
                part.resource_namespace = space


def _nothing(_connection: Connection) -> None:
    """An inner connection is no connection of the broker's: its line is."""


class Fault(Exception):  # noqa: N818 (an answer, not a failure)
    """The call is answered with this code and sentence."""

    def __init__(self, code: Code, sentence: str) -> None:
        super().__init__(sentence)
        self.code, self.sentence = code, sentence

    @property
    def status(self) -> Status:
        """The status of the answer."""
        return Status(code=self.code, message=self.sentence)


def code_of(response_code: int, special: dict[int, Code] | None = None) -> Code:
    """The code of a broker's answer; `special` is what a call makes of codes that mean something else elsewhere."""
    if special and response_code in special:
        return special[response_code]
    return _CODES.get(response_code, Code.INTERNAL_SERVER_ERROR)


def check(answer: Command, special: dict[int, Code] | None = None) -> Command:
    """The broker's answer when it is a success. Raises Fault."""
    if answer.code != ResponseCode.SUCCESS:
        raise Fault(code_of(answer.code, special), answer.remark or f"the broker answered {answer.code}")
    return answer


def status_of(error: Exception, what: str) -> Status:
    """How a call that raised is answered; what nobody expected is logged under a number that the client is told."""
    if isinstance(error, Fault):
        return error.status
    if isinstance(error, Refusal):
        return Status(code=code_of(error.code), message=error.remark)
    if isinstance(error, ProtocolError | DecodeError):
        return Status(code=Code.BAD_REQUEST, message=str(error))
    if isinstance(error, RedisError):
        return Status(code=Code.TOO_MANY_REQUESTS, message=StoreUnavailable(str(error)).remark)
    if isinstance(error, asyncio.TimeoutError | ConnectionError):
        return Status(code=Code.PROXY_TIMEOUT, message=str(error) or "the time is over")
    number = secrets.token_hex(4)
    logger.error("gRPC call %s failed [%s]", what, number, exc_info=error)
    return Status(code=Code.INTERNAL_SERVER_ERROR, message=f"the broker failed; its log names it {number}")


def overall(statuses: list[Status]) -> Status:
    """The status of an answer whose entries have their own."""
    if not statuses:
        return Status(code=Code.INTERNAL_SERVER_ERROR, message="there is no entry")
    codes = {status.code for status in statuses}
    return statuses[0] if len(codes) == 1 else Status(code=Code.MULTIPLE_RESULTS, message="MULTIPLE_RESULTS")
