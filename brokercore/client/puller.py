"""Pulls messages of the owned queues: long polls, all in flight at once, from one thread."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future

from brokercore.client.consumption import Deliveries
from brokercore.client.errors import BrokerUnreachable, ClientError
from brokercore.client.meter import ConsumeMeter
from brokercore.client.process_queue import ProcessQueue
from brokercore.client.pulling import PullResult, PullStatus, pull_call, read_pull
from brokercore.client.routes import Routes
from brokercore.client.scheduler import Scheduler
from brokercore.client.session import Session
from brokercore.protocol.bodies.heartbeat import SubscriptionData
from brokercore.protocol.command import Command
from brokercore.protocol.filters import parse_tags

log = logging.getLogger(__name__)

SUSPEND_MS = 15_000
"""How long the broker may hold a pull that finds nothing."""

_TIMEOUT_MS = 30_000
_FULL_PAUSE_S = 0.05
_ERROR_PAUSE_S = 1.0


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
        self._take(item, result, subscription, (time.monotonic() - begun) * 1000)
        self._pull(item)

    def _take(self, item: ProcessQueue, result: PullResult, subscription: SubscriptionData, spent_ms: float) -> None:
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
