"""The parts of a consumer while it runs, put together, started and stopped in order."""

from __future__ import annotations

import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import orjson

from brokercore.client.consumption import ConsumeMeter, Deliveries
from brokercore.client.errors import ClientError
from brokercore.client.membership import HEARTBEAT_S, ConsumerMembership
from brokercore.client.messages import ConsumeResult
from brokercore.client.offsets import BrokerOffsets, FileOffsets, OffsetStore
from brokercore.client.process_queue import ProcessQueue
from brokercore.client.pulling import Puller
from brokercore.client.rebalance import RENEW_S, SOON_S, QueueLocks, Rebalancer
from brokercore.client.routes import Routes
from brokercore.client.session import Call, Session, integer
from brokercore.client.threads import Periodic, Scheduler
from brokercore.names import is_retry_topic
from brokercore.protocol.bodies.clients import (
    BROADCASTING,
    CONSUME_FROM_FIRST_OFFSET,
    CONSUME_FROM_TIMESTAMP,
    ConsumerData,
    DirectResult,
    RunningInfo,
    SubscriptionData,
)
from brokercore.protocol.bodies.stats import offsets_from_json, offsets_to_json
from brokercore.protocol.codes import RequestCode, ResponseCode
from brokercore.protocol.command import Command
from brokercore.protocol.errors import ProtocolError
from brokercore.protocol.fastjson import dumps_with
from brokercore.protocol.message import StoredMessage, decode_stored
from brokercore.protocol.message_queue import MessageQueue

log = logging.getLogger(__name__)

REBALANCE_S = 20.0
COMMIT_S = 5.0
"""Intervals of Java clients."""

_GOODBYE_MS = 2_000
"""How long a consumer that closes waits for each answer; a broker that is gone must not hold it up."""

_HALF_AN_HOUR_MS = 1_800_000
"""Java clients that name no time begin so long ago."""

Handle = Callable[[StoredMessage, str], ConsumeResult]
"""The handler's word on a message that came from the broker of this name."""


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

    `deliveries` get what is pulled; `properties` are what it tells of itself besides its settings (see `info`); `jobs`
    are its own periodic work.
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
        properties: Mapping[str, str],
        jobs: list[Periodic],
    ) -> None:
        self._session = session
        self._routes = routes
        self._settings = settings
        self._subscriptions = subscriptions
        self._meter = meter
        self._properties = properties
        self._started_ms = _now_ms()
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
        ServerRequests(session, self.rebalancer, handle, wake=self._rebalance.wake, running_info=self.info)

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

    def info(self) -> RunningInfo:
        """What this consumer tells a console of itself."""
        settings = self._settings
        return RunningInfo(
            properties={
                "PROP_CONSUME_TYPE": settings.consume_type,
                "PROP_CLIENT_VERSION": "V5_3_3",
                "PROP_CONSUMER_START_TIMESTAMP": str(self._started_ms),
                "PROP_NAMESERVER_ADDR": ";".join(self._session.name_servers),
                "consumerGroup": settings.group,
                "messageModel": settings.model,
                "consumeFromWhere": settings.consume_from,
                "clientLanguage": "PYTHON",
                **self._properties,
            },
            subscriptions=list(self._subscriptions.values()),
            queues={item.queue: item.info() for item in self.owned()},
            status=self._meter.status(),
        )

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
            meter=self._meter,
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
        if is_retry_topic(queue.topic):
            return 0
        settings = self._settings
        ext = {"topic": queue.topic, "queueId": str(queue.queue_id), "bname": queue.broker_name}
        code = RequestCode.GET_MAX_OFFSET
        if settings.consume_from == CONSUME_FROM_FIRST_OFFSET:
            code = RequestCode.GET_MIN_OFFSET
        elif settings.consume_from == CONSUME_FROM_TIMESTAMP:
            code = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
            begin_ms = settings.consume_timestamp_ms
            ext["timestamp"] = str(_now_ms() - _HALF_AN_HOUR_MS if begin_ms is None else begin_ms)
        address = self._routes.address(queue.broker_name)
        return integer(self._session.call(Call(address, code, ext)), "offset", address)


def _now_ms() -> int:
    return int(time.time() * 1000)


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
