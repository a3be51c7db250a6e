"""PULL_MESSAGE: the request and what comes back, for admin reads and consumers alike."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from brokercore.client.errors import BadResponse
from brokercore.client.session import Call, check, integer
from brokercore.protocol.codes import RequestCode, ResponseCode
from brokercore.protocol.command import Command
from brokercore.protocol.errors import MessageFormatError
from brokercore.protocol.message import StoredMessage, decode_stored
from brokercore.protocol.message_queue import MessageQueue

COMMIT_OFFSET, SUSPEND, SUBSCRIPTION = 0x1, 0x2, 0x4
"""Bits of a pull's sysFlag: the commit offset counts, the broker may hold the request, the expression counts."""

MAX_PULL_BYTES = 256 * 1024


class PullStatus(StrEnum):
    """What a pull found (Java's PullStatus)."""

    FOUND = "FOUND"
    NO_NEW_MSG = "NO_NEW_MSG"
    NO_MATCHED_MSG = "NO_MATCHED_MSG"
    OFFSET_ILLEGAL = "OFFSET_ILLEGAL"


_STATUS = {
    int(ResponseCode.SUCCESS): PullStatus.FOUND,
    int(ResponseCode.PULL_NOT_FOUND): PullStatus.NO_NEW_MSG,
    int(ResponseCode.PULL_RETRY_IMMEDIATELY): PullStatus.NO_MATCHED_MSG,
    int(ResponseCode.PULL_OFFSET_MOVED): PullStatus.OFFSET_ILLEGAL,
}


PULL_CODES = frozenset(_STATUS)
"""Response codes that carry a PullResult."""


@dataclass(frozen=True, slots=True)
class PullResult:
    """Answer of a pull. `next_offset` is where to go on, also when nothing was found."""

    status: PullStatus
    messages: list[StoredMessage]
    next_offset: int
    min_offset: int
    max_offset: int


def pull_call(
    address: str,
    queue: MessageQueue,
    group: str,
    offset: int,
    *,
    max_messages: int = 32,
    expression: str = "*",
    expression_type: str = "TAG",
    subscription_version: int = 0,
    suspend_ms: int = 0,
    commit_offset: int | None = None,
) -> Call:
    """The request. `suspend_ms` > 0 lets the broker hold it; `commit_offset` is committed on the way."""
    flags = SUBSCRIPTION | (SUSPEND if suspend_ms else 0) | (COMMIT_OFFSET if commit_offset is not None else 0)
    ext = {
        "consumerGroup": group,
        "topic": queue.topic,
        "queueId": str(queue.queue_id),
        "queueOffset": str(offset),
        "maxMsgNums": str(max_messages),
        "maxMsgBytes": str(MAX_PULL_BYTES),
        "sysFlag": str(flags),
        "commitOffset": str(commit_offset or 0),
        "suspendTimeoutMillis": str(suspend_ms),
        "subscription": expression,
        "subVersion": str(subscription_version),
        "expressionType": expression_type,
        "bname": queue.broker_name,
    }
    return Call(address, RequestCode.PULL_MESSAGE, ext)


def read_pull(response: Command, address: str) -> PullResult:
    """Read the answer. Raises BrokerError for other codes than the four of PullStatus, BadResponse for nonsense."""
    check(response, address, PULL_CODES)
    status = _STATUS[response.code]
    try:
        messages = decode_stored(response.body) if status is PullStatus.FOUND else []
    except MessageFormatError as error:
        raise BadResponse(address, str(error)) from error
    return PullResult(
        status,
        messages,
        integer(response, "nextBeginOffset", address),
        integer(response, "minOffset", address),
        integer(response, "maxOffset", address),
    )
