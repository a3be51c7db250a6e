"""The parts of a consumer while it runs, put together, started and stopped in order."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import orjson

from brokercore.client.consumption import Deliveries
from brokercore.client.errors import ClientError
from brokercore.client.membership import ConsumerMembership
from brokercore.client.meter import ConsumeMeter
from brokercore.client.namespace import RETRY_PREFIX
from brokercore.client.offsets import BrokerOffsets, FileOffsets, OffsetStore
from brokercore.client.periodic import Periodic
from brokercore.client.process_queue import ProcessQueue
from brokercore.client.puller import Puller
from brokercore.client.queue_locks import RENEW_S, QueueLocks
from brokercore.client.rebalance import SOON_S, Rebalancer
from brokercore.client.routes import Routes
from brokercore.client.scheduler import Scheduler
from brokercore.client.server_requests import Handle, ServerRequests
from brokercore.client.session import Call, Session, integer
from brokercore.protocol.bodies.clients import RunningInfo
from brokercore.protocol.bodies.heartbeat import (
    BROADCASTING,
    CONSUME_FROM_FIRST_OFFSET,
    CONSUME_FROM_TIMESTAMP,
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

_GOODBYE_MS = 2_000
"""How long a consumer that closes waits for each answer; a broker that is gone must not hold it up."""


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """What a consumer was made with; see PushConsumer and LitePullConsumer."""

    group: str
    model: str
    consume_type: str
    consume_from: str
    client_id: str
    consume_timestamp_ms: int | None = None
    offset_file: Path | None = None
    ordered: bool = False
    auto_commit: bool = True
    commit_on_pull: bool = True

    @property
    def broadcasting(self) -> bool:
        """True when every client gets every message."""
        return self.model == BROADCASTING


class RunningConsumer:
    """A started consumer. `subscriptions` may change while it runs; call `resubscribe` then.

    `deliveries` take what is pulled; `jobs` are its own periodic work.
    """

    def __init__(
        self,
        session: Session,
        routes: Routes,
        settings: ConsumerSettings,
        *,
        subscriptions: Mapping[str, SubscriptionData],
        assigned: Callable[[], Mapping[str, list[MessageQueue]] | None] = lambda: None,
        scheduler: Scheduler,
        deliveries: Deliveries,
        meter: ConsumeMeter,
        handle: Handle | None,
        running_info: Callable[[], RunningInfo],
        jobs: list[Periodic],
    ) -> None:
        self._session = session
        self._routes = routes
        self._settings = settings
        self._subscriptions = subscriptions
        self.meter = meter
        self._scheduler = scheduler
        self._deliveries = deliveries
        self._membership = ConsumerMembership(session, settings.client_id, self._consumer_data)
        self.offsets = self._offset_store()
        self._puller = self._make_puller()
        self.rebalancer = self._make_rebalancer(assigned)
        self._rebalance = Periodic(f"rebalance {settings.group}", REBALANCE_S, self.rebalancer.run, retry_s=SOON_S)
        self._heartbeat = Periodic(f"heartbeat {settings.group}", HEARTBEAT_S, self._membership.beat)
        self._locks = Periodic(f"locks {settings.group}", RENEW_S, self._renew_locks, retry_s=SOON_S)
        self._jobs = [self._rebalance, self._heartbeat, *jobs]
        if settings.auto_commit:
            self._jobs.append(Periodic(f"commit {settings.group}", COMMIT_S, self._commit_offsets))
        if settings.ordered:
            self._jobs.append(self._locks)
        ServerRequests(session, self.rebalancer, handle, wake=self._rebalance.wake, running_info=running_info)

    def start(self) -> None:
        """Join the brokers, take queues, start pulling. Raises ClientError when no broker lets us in."""
        missing_soon = self.rebalancer.run()
        for job in self._jobs:
            job.start()
        if missing_soon is not None:
            self._rebalance.wake()
        self._check_filters()

    def resubscribe(self) -> None:
        """Tell brokers of a changed subscription and look for its queues."""
        self._membership.beat()
        self._rebalance.wake()

    def reassign(self) -> None:
        """Look at the assigned queues now. Raises ClientError."""
        self.rebalancer.run()

    def owned(self) -> list[ProcessQueue]:
        """The queues this consumer has now."""
        return self.rebalancer.owned()

    def stop(self, timeout_s: float) -> None:
        """Stop pulling, let handlers end within `timeout_s`, commit, leave the group."""
        for job in self._jobs:
            job.signal()
        self._scheduler.stop()
        if not self._deliveries.stop(timeout_s):
            log.warning("%s: handlers still run after %s s; their messages come again", self._settings.group, timeout_s)
        self._session.hurry(_GOODBYE_MS)
        for job in self._jobs:
            job.stop()
        try:
            if self._settings.auto_commit:
                self.offsets.commit(self.rebalancer.owned(), wait=True)
        except ClientError as error:
            log.warning("%s: the last offsets were not committed: %s", self._settings.group, error)
        self.rebalancer.release_all()
        self._membership.leave(self._settings.group)

    def _make_puller(self) -> Puller:
        return Puller(
            session=self._session,
            routes=self._routes,
            group=self._settings.group,
            scheduler=self._scheduler,
            subscription=lambda topic: self._subscriptions.get(topic) or SubscriptionData(topic),
            commit_on_pull=self._settings.commit_on_pull and not self._settings.broadcasting,
            meter=self.meter,
            deliveries=self._deliveries,
            moved=lambda item, offset: self.rebalancer.jump(item.queue, offset, commit=self._settings.auto_commit),
            lost=self._connection_lost,
        )

    def _make_rebalancer(self, assigned: Callable[[], Mapping[str, list[MessageQueue]] | None]) -> Rebalancer:
        settings = self._settings
        locks = QueueLocks(self._session, self._routes, settings.group, settings.client_id)
        return Rebalancer(
            group=settings.group,
            broadcasting=settings.broadcasting,
            topics=lambda: list(self._subscriptions),
            routes=self._routes,
            membership=self._membership,
            offsets=self.offsets,
            first_offset=self._first_offset,
            start_pulling=self._puller.start,
            release=self._deliveries.release,
            locks=locks if settings.ordered and not settings.broadcasting else None,
            assigned=assigned,
            commits=settings.auto_commit,
        )

    def _offset_store(self) -> OffsetStore:
        settings = self._settings
        if not settings.broadcasting:
            return BrokerOffsets(self._session, self._routes, settings.group)
        home = Path.home() / ".rocketmq_offsets" / "python" / f"{settings.group.replace('%', '_')}.json"
        return FileOffsets(settings.offset_file or home)

    def _consumer_data(self) -> ConsumerData:
        settings, subscriptions = self._settings, list(self._subscriptions.values())
        return ConsumerData(settings.group, subscriptions, settings.consume_type, settings.model, settings.consume_from)

    def _check_filters(self) -> None:
        """Ask a broker of each topic whether it takes the filter (CHECK_CLIENT_CONFIG)."""
        for topic, subscription in self._subscriptions.items():
            if subscription.expression_type == "TAG":
                continue
            body = {
                "clientId": self._settings.client_id,
                "group": self._settings.group,
                "subscriptionData": subscription.to_dict(),
            }
            for address in self._routes.masters(topic).values():
                self._session.call(Call(address, RequestCode.CHECK_CLIENT_CONFIG, {}, orjson.dumps(body)))

    def _renew_locks(self) -> float | None:
        if self.rebalancer.keep_locks():
            return None
        self._rebalance.wake()
        return SOON_S

    def _commit_offsets(self) -> None:
        self.offsets.commit(self.rebalancer.owned(), wait=False)

    def _connection_lost(self, address: str) -> None:
        if self._membership.lost(address):
            self._routes.forget_all()
            self._rebalance.wake()
            self._locks.wake()  # the broker forgot its locks with the connection

    def _first_offset(self, queue: MessageQueue) -> int:
        """Where a group begins that has no offset yet. A retry topic is always read from its beginning."""
        if queue.topic.startswith(RETRY_PREFIX):
            return 0
        settings = self._settings
        ext = {"topic": queue.topic, "queueId": str(queue.queue_id), "bname": queue.broker_name}
        code = RequestCode.GET_MAX_OFFSET
        if settings.consume_from == CONSUME_FROM_FIRST_OFFSET:
            code = RequestCode.GET_MIN_OFFSET
        elif settings.consume_from == CONSUME_FROM_TIMESTAMP:
            code = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
            begin_ms = settings.consume_timestamp_ms
            ext["timestamp"] = str(_half_an_hour_ago_ms() if begin_ms is None else begin_ms)
        address = self._routes.address(queue.broker_name)
        return integer(self._session.call(Call(address, code, ext)), "offset", address)


def _half_an_hour_ago_ms() -> int:
    """Where Java clients begin that name no time."""
    return int((time.time() - 1800) * 1000)
