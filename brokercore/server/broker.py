"""The broker's parts in one place, and the tasks that keep them going."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import Any

from brokercore.protocol.ids import pack_host
from brokercore.server.clients import ClientTable
from brokercore.server.connection import Connection
from brokercore.server.errors import RedisError, StoreUnavailable
from brokercore.server.gate import LOOK_SECONDS, Gate
from brokercore.server.joining import join
from brokercore.server.key_values import KeyValues
from brokercore.server.limits import TenantLimits
from brokercore.server.locks import QueueLocks
from brokercore.server.pop.flights import FlightTable
from brokercore.server.pop.modes import RequestModes
from brokercore.server.refusals import Refusals
from brokercore.server.registry import Registry
from brokercore.server.replies import AwaitedReplies, reply_cluster
from brokercore.server.retention import expire_messages
from brokercore.server.security import Security
from brokercore.server.settings import Settings, ipv4_of
from brokercore.server.statistics import Statistics
from brokercore.server.storage.groups import GroupTable
from brokercore.server.storage.keys import Keys
from brokercore.server.storage.offsets import OffsetTable
from brokercore.server.storage.store import MessageStore
from brokercore.server.storage.topics import TopicTable
from brokercore.server.tenant_use import TenantUse
from brokercore.server.timers import Timers
from brokercore.server.transactions import Transactions
from brokercore.server.turn import Turn
from brokercore.server.waiting import WaitingPulls

logger = logging.getLogger(__name__)

_CLIENT_CHECK_SECONDS = 10
_RETENTION_SECONDS = 60
_IDLE_SECONDS = 120


class Broker:
    """One broker: storage, tables, and what is connected. Handlers get it as their first argument."""

    def __init__(self, settings: Settings, advertise: str) -> None:
        self.settings = settings
        self.address = advertise
        host, _, port = advertise.rpartition(":")
        self.store_host = pack_host(ipv4_of(host), int(port))
        self.message_id_prefix = self.store_host.hex().upper().encode()
        self.region = settings.region.encode()
        self.started_ms = int(time.time() * 1000)
        keys = Keys(settings.broker_name)
        self.turn = Turn(asyncio.get_running_loop())
        self.store = MessageStore(settings, self.store_host, keys, self.turn)
        writer = self.store.writer
        self.topics = TopicTable(self.store)
        self.groups = GroupTable(writer, keys)
        self.offsets = OffsetTable(writer, keys)
        self.key_values = KeyValues(writer)
        self.registry = Registry(settings, advertise, self.store_host, keys, writer, self._name_cluster)
        self._name_cluster()
        self.limits = TenantLimits()
        self.security = Security(settings, self.store.reader, self.limits)
        self.refusals = Refusals(self)
        self.clients = ClientTable()
        self.locks = QueueLocks()
        self.statistics = Statistics()
        self.waiting = WaitingPulls()
        self.replies = AwaitedReplies()
        self.flights = FlightTable(writer, keys, self.offsets)
        self.request_modes = RequestModes(writer, keys)
        self.timers = Timers(self)
        self.transactions = Transactions(self)
        self.connections: set[Connection] = set()
        self.gate = Gate()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._requests: set[asyncio.Task[Any]] = set()
        self.store.on_stored = self.waiting.wake
        self.security.on_changed = self.waiting.review

    @property
    def name(self) -> str:
        """The broker's name in routes and queues."""
        return self.settings.broker_name

    async def start(self) -> None:
        """Read back everything from Redis and start the broker's own tasks. Raises StoreUnavailable."""
        await self.store.start()
        try:
            for table in (
                self.topics, self.groups, self.offsets, self.key_values, self.flights, self.request_modes,
            ):  # fmt: skip
                await table.load()
            for positions in (self.offsets, self.flights):
                if positions.check(self.topics.end_of):
                    await positions.mend()
            self.store.mending = [table.mend for table in (self.topics, self.groups, self.offsets, self.flights)]
            await self.registry.load()
            await join(self)
        except RedisError as error:
            raise StoreUnavailable(str(error)) from error
        await self.security.refresh()
        self._own(self.security.watch(), "permissions")
        self._own(TenantUse(self).run(), "use of tenants")
        self._own(self.refusals.run(), "refusals")
        self._own(self.registry.run(), "registry")
        self._own(self.timers.run(), "timers")
        self._own(self.transactions.run(), "transaction checks")
        self._own(_every(_CLIENT_CHECK_SECONDS, self._check_clients), "clients")
        self._own(_every(LOOK_SECONDS, self._look_at_slow_peers), "slow peers")
        self._own(_every(_RETENTION_SECONDS, self._expire), "retention")
        self._own(_every(Statistics.INTERVAL_SECONDS, self._sample), "statistics")

    async def close(self) -> None:
        """Answer what is under way, say good-bye to all connections, store the last offsets, leave Redis."""
        await self.registry.leave()
        self.waiting.release()
        if self._requests:
            await asyncio.wait(self._requests, timeout=5)
        await self.store.settle(5)
        for connection in list(self.connections):
            connection.close()
        for task in self._tasks | self._requests:
            task.cancel()
        await asyncio.gather(*self._tasks, *self._requests, return_exceptions=True)
        try:
            await asyncio.wait_for(self.offsets.flush(), 5)
        except (StoreUnavailable, RedisError, TimeoutError) as error:
            logger.error("the last offsets are not stored: %s", error)
        await self.store.close()

    def reconfigure(self, **changes: Any) -> None:
        """Work with other settings from now on; they are forgotten when the broker ends."""
        self.settings = self.store.settings = replace(self.settings, **changes)

    def trouble(self) -> str:
        """Why requests cannot be answered now, in one sentence; empty while they can."""
        if trouble := self.store.trouble:
            return f"the message store is not available: {trouble}"
        return self.security.trouble

    def opened(self, connection: Connection) -> None:
        """A connection was accepted."""
        connection.complain = self.refusals.closed
        if self.gate.enter(connection, len(self.connections)):
            self.connections.add(connection)
            connection.on_close[self] = lambda: self._closed(connection)

    def _closed(self, connection: Connection) -> None:
        self.connections.discard(connection)
        self.gate.leave(connection)

    def wall_ms(self, monotonic: float) -> int:
        """Epoch ms of a reading of the monotonic clock."""
        return int((time.time() - time.monotonic() + monotonic) * 1000)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run the rest of a request; closing the broker waits for it."""
        task = asyncio.get_running_loop().create_task(work)
        self._requests.add(task)
        task.add_done_callback(self._requests.discard)

    def _own(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.critical("the task for %s ended: %r", task.get_name(), task.exception())

    def _name_cluster(self) -> None:
        """What stored messages are told of their cluster; clients make the address of a reply from it."""
        cluster = self.settings.cluster_name
        if not self.registry.alone:
            cluster = reply_cluster(cluster, self.name)
        self.added_properties = f"MSG_REGION\x01{self.settings.region}\x02TRACE_ON\x01true\x02CLUSTER\x01{cluster}\x02"

    async def _check_clients(self) -> None:
        self.clients.expire()
        oldest = time.monotonic() - _IDLE_SECONDS
        for connection in [connection for connection in self.connections if connection.last_seen < oldest]:
            logger.info("connection %s closed: idle for %d s", connection.address, _IDLE_SECONDS)
            connection.close()

    async def _look_at_slow_peers(self) -> None:
        self.gate.sweep(self.connections)

    async def _expire(self) -> None:
        await expire_messages(self)

    async def _sample(self) -> None:
        self.statistics.sample()


async def _every(seconds: float, work: Callable[[], Awaitable[None]]) -> None:
    """Do `work` again and again; one failure is logged and does not end it."""
    while True:
        await asyncio.sleep(seconds)
        try:
            await work()
        except (StoreUnavailable, RedisError) as error:
            logger.warning("%s: %s", getattr(work, "__name__", "task"), error)
