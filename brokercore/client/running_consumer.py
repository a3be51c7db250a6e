"""The parts of a push consumer while it runs, put together, started and stopped in order."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from brokercore.client.consumption import Consumption, Handler
from brokercore.client.errors import ClientError
from brokercore.client.membership import ConsumerMembership
from brokercore.client.meter import ConsumeMeter
from brokercore.client.namespace import RETRY_PREFIX
from brokercore.client.offsets import BrokerOffsets, FileOffsets, OffsetStore
from brokercore.client.periodic import Periodic
from brokercore.client.process_queue import ProcessQueue
from brokercore.client.puller import Puller
from brokercore.client.rebalance import SOON_S, Rebalancer
from brokercore.client.routes import Routes
from brokercore.client.scheduler import Scheduler
from brokercore.client.server_requests import ServerRequests
from brokercore.client.session import Call, Session, integer
from brokercore.protocol.bodies.clients import RunningInfo
from brokercore.protocol.bodies.heartbeat import (
    BROADCASTING,
    CONSUME_FROM_FIRST_OFFSET,
    CONSUME_PASSIVELY,
    ConsumerData,
    SubscriptionData,
)
from brokercore.protocol.codes import RequestCode
from brokercore.protocol.message_queue import MessageQueue

log = logging.getLogger(__name__)

HEARTBEAT_S = 30.0
REBALANCE_S = 20.0
COMMIT_S = 5.0
"""Intervals of Java clients."""


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """What a consumer was made with; see PushConsumer."""

    group: str
    namespace: str
    model: str
    max_reconsume_times: int
    threads: int
    consume_from: str
    offset_file: Path | None
    client_id: str

    @property
    def broadcasting(self) -> bool:
        """True when every client gets every message."""
        return self.model == BROADCASTING


class RunningConsumer:
    """A started consumer. `subscriptions` may grow while it runs; call `resubscribe` then."""

    def __init__(
        self,
        session: Session,
        routes: Routes,
        settings: ConsumerSettings,
        *,
        subscriptions: Mapping[str, SubscriptionData],
        handler: Handler,
        running_info: Callable[[], RunningInfo],
    ) -> None:
        self._session = session
        self._routes = routes
        self._settings = settings
        self._subscriptions = subscriptions
        self.meter = ConsumeMeter()
        self._scheduler = Scheduler(f"pull {settings.group}")
        self._membership = ConsumerMembership(session, settings.client_id, self._consumer_data)
        self._offsets = self._offset_store()
        self._consumption = self._make_consumption(handler)
        self._puller = self._make_puller()
        self._rebalancer = self._make_rebalancer()
        self._rebalance = Periodic(f"rebalance {settings.group}", REBALANCE_S, self._rebalancer.run, retry_s=SOON_S)
        self._heartbeat = Periodic(f"heartbeat {settings.group}", HEARTBEAT_S, self._membership.beat)
        self._commit = Periodic(f"commit {settings.group}", COMMIT_S, self._commit_offsets)
        ServerRequests(
            session, self._rebalancer, self._consumption, wake=self._rebalance.wake, running_info=running_info
        )

    def start(self) -> None:
        """Join the brokers, take queues, start pulling. Raises ClientError when no broker lets us in."""
        missing_soon = self._rebalancer.run()
        for periodic in (self._rebalance, self._heartbeat, self._commit):
            periodic.start()
        if missing_soon is not None:
            self._rebalance.wake()

    def resubscribe(self) -> None:
        """Tell brokers of a changed subscription and look for its queues."""
        self._membership.beat()
        self._rebalance.wake()

    def owned(self) -> list[ProcessQueue]:
        """The queues this consumer has now."""
        return self._rebalancer.owned()

    def stop(self, timeout_s: float) -> None:
        """Stop pulling, let handlers end within `timeout_s`, commit, leave the group."""
        self._rebalance.stop()
        self._heartbeat.stop()
        self._scheduler.stop()
        if not self._consumption.stop(timeout_s):
            log.warning("%s: handlers still run after %s s; their messages come again", self._settings.group, timeout_s)
        self._commit.stop()
        try:
            self._offsets.commit(self._rebalancer.owned(), wait=True)
        except ClientError as error:
            log.warning("%s: the last offsets were not committed: %s", self._settings.group, error)
        self._rebalancer.release_all()
        self._membership.leave(self._settings.group)

    def _make_consumption(self, handler: Handler) -> Consumption:
        return Consumption(
            session=self._session,
            routes=self._routes,
            scheduler=self._scheduler,
            meter=self.meter,
            group=self._settings.group,
            namespace=self._settings.namespace,
            broadcasting=self._settings.broadcasting,
            max_reconsume_times=self._settings.max_reconsume_times,
            threads=self._settings.threads,
            handler=handler,
        )

    def _make_puller(self) -> Puller:
        return Puller(
            session=self._session,
            routes=self._routes,
            group=self._settings.group,
            scheduler=self._scheduler,
            subscription=lambda topic: self._subscriptions[topic],
            commit_on_pull=not self._settings.broadcasting,
            meter=self.meter,
            deliver=self._consumption.deliver,
            moved=lambda item, offset: self._rebalancer.jump(item.queue, offset),
            lost=self._connection_lost,
        )

    def _make_rebalancer(self) -> Rebalancer:
        return Rebalancer(
            group=self._settings.group,
            broadcasting=self._settings.broadcasting,
            topics=lambda: list(self._subscriptions),
            routes=self._routes,
            membership=self._membership,
            offsets=self._offsets,
            first_offset=self._first_offset,
            start_pulling=self._puller.start,
        )

    def _offset_store(self) -> OffsetStore:
        settings = self._settings
        if not settings.broadcasting:
            return BrokerOffsets(self._session, self._routes, settings.group)
        home = Path.home() / ".rocketmq_offsets" / "python" / f"{settings.group.replace('%', '_')}.json"
        return FileOffsets(settings.offset_file or home)

    def _consumer_data(self) -> ConsumerData:
        settings, subscriptions = self._settings, list(self._subscriptions.values())
        return ConsumerData(settings.group, subscriptions, CONSUME_PASSIVELY, settings.model, settings.consume_from)

    def _commit_offsets(self) -> None:
        self._offsets.commit(self._rebalancer.owned(), wait=False)

    def _connection_lost(self, address: str) -> None:
        if self._membership.lost(address):
            self._routes.forget_all()
            self._rebalance.wake()

    def _first_offset(self, queue: MessageQueue) -> int:
        """Where a group begins that has no offset yet. A retry topic is always read from its beginning."""
        if queue.topic.startswith(RETRY_PREFIX):
            return 0
        from_first = self._settings.consume_from == CONSUME_FROM_FIRST_OFFSET
        code = RequestCode.GET_MIN_OFFSET if from_first else RequestCode.GET_MAX_OFFSET
        address = self._routes.address(queue.broker_name)
        ext = {"topic": queue.topic, "queueId": str(queue.queue_id), "bname": queue.broker_name}
        return integer(self._session.call(Call(address, code, ext)), "offset", address)
