"""PULL_MESSAGE: the request and what comes back, for admin reads and consumers alike; and a consumer's long polls."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from enum import StrEnum

from brokercore.client.consumption import ConsumeMeter, Deliveries
from brokercore.client.errors import BadResponse, BrokerUnreachable, ClientError
from brokercore.client.process_queue import ProcessQueue
from brokercore.client.routes import Routes
from brokercore.client.session import Call, Session, check, integer
from brokercore.client.threads import Scheduler
from brokercore.protocol.bodies.clients import SubscriptionData
from brokercore.protocol.codes import RequestCode, ResponseCode
from brokercore.protocol.command import Command
from brokercore.protocol.errors import MessageFormatError
from brokercore.protocol.filters import parse_tags
from brokercore.protocol.message import StoredMessage, decode_stored
from brokercore.protocol.message_queue import MessageQueue

log = logging.getLogger(__name__)

COMMIT_OFFSET, SUSPEND, SUBSCRIPTION = 0x1, 0x2, 0x4
"""Bits of a pull's sysFlag: the commit offset counts, the broker may hold the request, the expression counts."""

MAX_PULL_BYTES = 256 * 1024

SUSPEND_MS = 15_000
"""How long the broker may hold a pull that finds nothing."""

_TIMEOUT_MS = 30_000
_FULL_PAUSE_S = 0.05
_ERROR_PAUSE_S = 1.0


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


class Puller:
    """Keeps one pull per queue going and hands messages to `deliveries`; `moved` learns of offsets out of range."""

    def __init__(
        self,
        *,
        session: Session,
        routes: Routes,
        group: str,
        scheduler: Scheduler,
        subscription: Callable[[str], SubscriptionData],
        commit_on_pull: bool,
        meter: ConsumeMeter,
        deliveries: Deliveries,
        moved: Callable[[ProcessQueue, int], object],
        lost: Callable[[str], None],
    ) -> None:
        self._session = session
        self._routes = routes
        self._group = group
        self._scheduler = scheduler
        self._subscription = subscription
        self._commit_on_pull = commit_on_pull
        self._meter = meter
        self._deliveries = deliveries
        self._moved = moved
        self._lost = lost

    def start(self, item: ProcessQueue) -> None:
        """Pull a queue from now on until it is dropped."""
        self._scheduler.call(lambda: self._pull(item))

    def _pull(self, item: ProcessQueue) -> None:
        if item.dropped:
            return
        if self._deliveries.is_full(item):
            self._scheduler.call(lambda: self._pull(item), _FULL_PAUSE_S)
            return
        subscription = self._subscription(item.queue.topic)
        try:
            address = self._routes.address(item.queue.broker_name)
        except ClientError as error:
            self._again(item, error)
            return
        call = pull_call(
            address,
            item.queue,
            self._group,
            item.pull_offset,
            expression=subscription.expression,
            expression_type=subscription.expression_type,
            subscription_version=subscription.version,
            suspend_ms=SUSPEND_MS,
            commit_offset=item.commit_offset if self._commit_on_pull else None,
        )
        begun = time.monotonic()
        future = self._session.submit(call, _TIMEOUT_MS)
        future.add_done_callback(
            lambda done: self._scheduler.call(lambda: self._pulled(item, address, done, begun, subscription))
        )

    def _pulled(
        self, item: ProcessQueue, address: str, done: Future[Command], begun: float, subscription: SubscriptionData
    ) -> None:
        if item.dropped:
            return
        try:
            result = read_pull(done.result(), address)
        except ClientError as error:
            if isinstance(error, BrokerUnreachable):
                self._lost(address)
            self._again(item, error)
            return
        if result.status is PullStatus.OFFSET_ILLEGAL:
            log.info("%s: offset %d of %s moves to %d", self._group, item.pull_offset, item.queue, result.next_offset)
            self._moved(item, result.next_offset)
            return
        self._deliver(item, result, subscription, (time.monotonic() - begun) * 1000)
        self._pull(item)

    def _deliver(self, item: ProcessQueue, result: PullResult, subscription: SubscriptionData, spent_ms: float) -> None:
        """A broker may compare hashes of tags only: here the tags themselves are compared."""
        tags = parse_tags(subscription.expression if subscription.expression_type == "TAG" else "*")
        matching = [message for message in result.messages if tags.matches(message.tags)]
        item.add(matching, result.next_offset)
        item.pull_fails = False
        if result.messages:
            self._meter.pulled(item.queue.topic, len(matching), spent_ms)
        for message in matching:
            self._deliveries.deliver(item, message)

    def _again(self, item: ProcessQueue, error: ClientError) -> None:
        log.log(
            logging.DEBUG if item.pull_fails else logging.WARNING, "%s: pull of %s: %s", self._group, item.queue, error
        )
        item.pull_fails = True
        self._scheduler.call(lambda: self._pull(item), _ERROR_PAUSE_S)
