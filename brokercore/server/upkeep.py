"""What keeps a broker going: reading back what is stored, the tasks of its own, and its end in order."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from brokercore.server.broker import Broker
from brokercore.server.connections.gate import LOOK_SECONDS
from brokercore.server.errors import RedisError, StoreUnavailable
from brokercore.server.peers.catching_up import join
from brokercore.server.rights.tenant_use import TenantUse
from brokercore.server.statistics import Statistics
from brokercore.server.storage.retention import expire_messages

logger = logging.getLogger(__name__)

_CLIENT_CHECK_SECONDS = 10
_RETENTION_SECONDS = 60
_IDLE_SECONDS = 120
_POP_SECONDS = 5


class Upkeep:
    """Owns the tasks of a broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._tasks: set[asyncio.Task[Any]] = set()

    async def start(self) -> None:
        """Read back everything from Redis and start the broker's own tasks. Raises StoreUnavailable."""
        broker = self._broker
        await broker.store.start()
        try:
            for table in (
                broker.topics, broker.groups, broker.offsets, broker.key_values, broker.flights, broker.request_modes,
                broker.traces,
            ):  # fmt: skip
                await table.load()
            for positions in (broker.offsets, broker.flights):
                if positions.check(broker.topics.end_of):
                    await positions.mend()
            broker.store.mending = [
                table.mend for table in (broker.topics, broker.groups, broker.offsets, broker.flights)
            ]
            await broker.registry.load()
            await join(broker)
        except RedisError as error:
            raise StoreUnavailable(str(error)) from error
        await broker.security.refresh()
        self._own(broker.watchdog.run(), "watchdog")
        self._own(broker.security.watch(), "permissions")
        self._own(TenantUse(broker).run(), "use of tenants")
        self._own(broker.refusals.run(), "refusals")
        self._own(broker.registry.run(), "registry")
        self._own(broker.timers.run(), "timers")
        self._own(broker.transactions.run(), "transaction checks")
        self._own(_every(_CLIENT_CHECK_SECONDS, self._check_clients), "clients")
        self._own(_every(LOOK_SECONDS, self._look_at_slow_peers), "slow peers")
        self._own(_every(_RETENTION_SECONDS, self._expire), "retention")
        self._own(_every(_POP_SECONDS, self._sweep_pop), "states of POP")
        self._own(_every(Statistics.INTERVAL_SECONDS, self._sample), "statistics")

    async def close(self) -> None:
        """Answer what is under way, say good-bye to all connections, store the last offsets, leave Redis."""
        broker = self._broker
        await broker.registry.leave()
        broker.waiting.release()
        if broker.requests:
            await asyncio.wait(broker.requests, timeout=5)
        await broker.store.settle(5)
        for connection in list(broker.connections):
            connection.close()
        for task in self._tasks | broker.requests:
            task.cancel()
        await asyncio.gather(*self._tasks, *broker.requests, return_exceptions=True)
        await broker.traces.close()
        try:
            await asyncio.wait_for(broker.offsets.flush(), 5)
        except (StoreUnavailable, RedisError, TimeoutError) as error:
            logger.error("the last offsets are not stored: %s", error)
        await broker.store.close()

    def _own(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.critical("the task for %s ended: %r", task.get_name(), task.exception())

    async def _check_clients(self) -> None:
        self._broker.clients.expire()
        oldest = time.monotonic() - _IDLE_SECONDS
        for connection in [connection for connection in self._broker.connections if connection.last_seen < oldest]:
            logger.info("connection %s closed: idle for %d s", connection.address, _IDLE_SECONDS)
            connection.close()

    async def _look_at_slow_peers(self) -> None:
        self._broker.gate.sweep(self._broker.connections)

    async def _expire(self) -> None:
        broker = self._broker
        await expire_messages(broker.store, broker.topics, broker.traces.most_bytes)

    async def _sweep_pop(self) -> None:
        await self._broker.flights.sweep(self._broker.pace.work(None))

    async def _sample(self) -> None:
        now = time.monotonic()
        async for counter in self._broker.pace.work(None).over(self._broker.statistics.counters):
            counter.sample(now)


async def _every(seconds: float, work: Callable[[], Awaitable[None]]) -> None:
    """Do `work` again and again; one failure is logged and does not end it."""
    while True:
        await asyncio.sleep(seconds)
        try:
            await work()
        except (StoreUnavailable, RedisError) as error:
            logger.warning("%s: %s", getattr(work, "__name__", "task"), error)
