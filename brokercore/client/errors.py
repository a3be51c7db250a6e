"""What can go wrong between us and a broker.

ClientError                     user_message, retriable
├── BrokerUnreachable           nobody answers at the address, or the connection broke
├── RequestTimeout              no answer in time; the broker may still have done it
├── BadResponse                 an answer that cannot be read
├── InvalidMessage              refused before sending: too large, bad property
├── ClientClosed                used after close() or shutdown()
└── BrokerError                 the broker answered with an error code: code, text, address
    ├── SystemFault         1   ├── TopicExistsAlready     18   ├── ConsumerNotOnline  206
    ├── SystemBusy          2   ├── QueryNotFound          22   ├── ConsumeTimeout     207
    ├── RequestNotSupported 3   ├── SubscriptionInvalid    23   ├── NoMessage          208
    ├── MessageIllegal     13   ├── SubscriptionNotExist   24   ├── BrokerNotExist     211
    ├── ServiceUnavailable 14   ├── SubscriptionNotLatest  25   ├── FlowControl        215
    ├── NoPermission       16   ├── GroupNotExist          26   ├── IllegalOperation   604
    └── TopicNotExist      17   └── InvalidParameter       29   └── GoAway            1500
"""

from __future__ import annotations

from typing import ClassVar

from brokercore.protocol.codes import RESPONSE_TEXT, ResponseCode


class ClientError(Exception):
    """Base of all errors of this library. `retriable`: the same request may succeed later or elsewhere."""

    retriable: ClassVar[bool] = False

    @property
    def user_message(self) -> str:
        """One sentence that may be shown to a user."""
        return str(self)


class BrokerUnreachable(ClientError):
    """Nobody answers at `address`, or the connection broke before the answer came."""

    retriable = True

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"No connection to {address}: {reason}.")
        self.address = address


class RequestTimeout(ClientError):
    """No answer within `timeout_ms`; whether the broker did what was asked is not known."""

    retriable = True

    def __init__(self, address: str, timeout_ms: int) -> None:
        super().__init__(f"{address} did not answer within {timeout_ms} ms.")
        self.address = address
        self.timeout_ms = timeout_ms


class BadResponse(ClientError):
    """The answer from `address` breaks the protocol."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"The answer of {address} cannot be read: {reason}.")
        self.address = address


class InvalidMessage(ClientError):
    """A message that no broker would take; nothing was sent."""


class ClientClosed(ClientError):
    """The client was closed, or not started."""


class BrokerError(ClientError):
    """The broker answered with an error. `code` is the response code, `text` the broker's own remark."""

    code: int = ResponseCode.SYSTEM_ERROR

    def __init__(self, code: int, text: str | None, address: str) -> None:
        self.code = code
        self.text = _first_sentence(text) or RESPONSE_TEXT.get(code, "no reason given")
        self.address = address
        super().__init__(f"{address} answered {code}: {self.text}")

    @property
    def user_message(self) -> str:
        words = RESPONSE_TEXT.get(self.code)
        if words is None or words.lower() in self.text.lower():
            return self.text
        return f"{words[0].upper()}{words[1:]}: {self.text}"


class SystemFault(BrokerError):
    """Code 1: the broker could not do it; the text says why."""

    code = ResponseCode.SYSTEM_ERROR
    retriable = True


class SystemBusy(BrokerError):
    """Code 2: flow control, or the store is full."""

    code = ResponseCode.SYSTEM_BUSY
    retriable = True


class RequestNotSupported(BrokerError):
    """Code 3: the broker does not know this request."""

    code = ResponseCode.REQUEST_CODE_NOT_SUPPORTED


class MessageIllegal(BrokerError):
    """Code 13: too large, or a bad timer value."""

    code = ResponseCode.MESSAGE_ILLEGAL


class ServiceUnavailable(BrokerError):
    """Code 14: the broker takes no messages now."""

    code = ResponseCode.SERVICE_NOT_AVAILABLE
    retriable = True


class NoPermission(BrokerError):
    """Code 16: AccessKey, signature or policy does not allow it. Final: another queue would refuse as well."""

    code = ResponseCode.NO_PERMISSION


class TopicNotExist(BrokerError):
    """Code 17: no such topic, or no route to it."""

    code = ResponseCode.TOPIC_NOT_EXIST


class TopicExistsAlready(BrokerError):
    """Code 18."""

    code = ResponseCode.TOPIC_EXIST_ALREADY


class QueryNotFound(BrokerError):
    """Code 22: no such offset, key or message."""

    code = ResponseCode.QUERY_NOT_FOUND


class SubscriptionInvalid(BrokerError):
    """Code 23: the filter expression cannot be parsed."""

    code = ResponseCode.SUBSCRIPTION_PARSE_FAILED


class SubscriptionNotExist(BrokerError):
    """Code 24: the broker does not know this subscription (yet)."""

    code = ResponseCode.SUBSCRIPTION_NOT_EXIST
    retriable = True


class SubscriptionNotLatest(BrokerError):
    """Code 25: the broker knows an older subscription."""

    code = ResponseCode.SUBSCRIPTION_NOT_LATEST
    retriable = True


class GroupNotExist(BrokerError):
    """Code 26: no such consumer group."""

    code = ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


class InvalidParameter(BrokerError):
    """Code 29."""

    code = ResponseCode.INVALID_PARAMETER


class ConsumerNotOnline(BrokerError):
    """Code 206: no client of the group is connected."""

    code = ResponseCode.CONSUMER_NOT_ONLINE


class ConsumeTimeout(BrokerError):
    """Code 207: the consumer did not answer the broker in time."""

    code = ResponseCode.CONSUME_MSG_TIMEOUT
    retriable = True


class NoMessage(BrokerError):
    """Code 208."""

    code = ResponseCode.NO_MESSAGE


class BrokerNotExist(BrokerError):
    """Code 211: no broker of that name is in the route."""

    code = ResponseCode.BROKER_NOT_EXIST


class FlowControl(BrokerError):
    """Code 215: a rate limit."""

    code = ResponseCode.FLOW_CONTROL
    retriable = True


class IllegalOperation(BrokerError):
    """Code 604."""

    code = ResponseCode.ILLEGAL_OPERATION


class GoAway(BrokerError):
    """Code 1500: the broker shuts down and asks to connect again."""

    code = ResponseCode.GO_AWAY
    retriable = True


_BY_CODE: dict[int, type[BrokerError]] = {cls.code: cls for cls in BrokerError.__subclasses__()}


_REFUSED_BY_ACL1 = "org.apache.rocketmq.acl.common.AclException: "


def for_code(code: int, text: str | None, address: str) -> BrokerError:
    """The error of the class that belongs to a response code; codes without a class are plain BrokerError.

    ACL 1.0 (`plain_acl.yml`) refuses with code 1 and the name of a Java exception; it is NoPermission here.
    """
    if code == ResponseCode.SYSTEM_ERROR and text is not None and text.startswith(_REFUSED_BY_ACL1):
        reason = text.removeprefix(_REFUSED_BY_ACL1).partition(", org.apache.")[0]
        return NoPermission(ResponseCode.NO_PERMISSION, reason, address)
    return _BY_CODE.get(code, BrokerError)(code, text, address)


def _first_sentence(text: str | None) -> str:
    """Java remarks go on with a help link or a stack trace in further lines; the first line says it."""
    return (text or "").strip().partition("\n")[0].strip()[:500]
