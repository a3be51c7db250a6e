"""What a gRPC client is told: a `Status`, from a fault of the door's own or from an answer of the broker."""

from __future__ import annotations

import asyncio
import logging
import secrets
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from brokercore.protocol.codes import ResponseCode
from brokercore.protocol.errors import ProtocolError
from brokercore.protocol.grpc.messaging_pb2 import Code, Status
from brokercore.server.errors import RedisError, Refusal, StoreUnavailable

if TYPE_CHECKING:
    from brokercore.protocol.command import Command

logger = logging.getLogger(__name__)

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

OK = Status(code=Code.OK, message="OK")


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
