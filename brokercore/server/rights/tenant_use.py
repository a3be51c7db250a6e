"""What each tenant takes of this broker: measured in small steps beside the work, and told to the console by Redis."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from brokercore.names import CHECKED_TOO_OFTEN_TOPIC, TRACE_TOPIC
from brokercore.policy.table import RATES_USED, USE, RateUse, UseRow, use_field
from brokercore.server.errors import RedisError, StoreUnavailable
from brokercore.server.rights.account import Account
from brokercore.server.storage.parked_bytes import SHARED_TOPICS
from brokercore.server.storage.queue import Queue
from brokercore.server.storage.store import OVERHEAD_BYTES, OVERHEAD_FACTOR

if TYPE_CHECKING:
    from brokercore.server.broker import Broker

logger = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
MEASURE_SECONDS = 5.0
"""Between two sums over all queues: in between, what clients send is added as it comes."""

_TELL_ALL_SECONDS = 30.0
_AT_ONCE = 1000
_NOBODY = frozenset({CHECKED_TOO_OFTEN_TOPIC, *SHARED_TOPICS})


class _Taken(NamedTuple):
    """What the clients of an instance had sent and received at a moment (epoch seconds), since the broker's start."""

    at: float
    sent: int
    received: int
    held_back: int


class TenantUse:
    """Keeps `Account.stored_bytes` right, shares the limits with the other brokers, and tells the console."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._measured = 0.0
        self._told_all = 0.0
        self._told: dict[str, bytes] = {}
        self._before: dict[str, tuple[float, int, int]] = {}
        self._rates_before: dict[str, _Taken] = {}
        self._rates_told: dict[str, bytes] = {}

    async def run(self) -> None:
        """Measure and tell until cancelled."""
        while True:
            try:
                await self._look()
            except (StoreUnavailable, RedisError) as error:
                logger.debug("the use of tenants is not told: %s", error)  # the store's own log tells of it
            await asyncio.sleep(LOOK_SECONDS)

    async def _look(self) -> None:
        broker = self._broker
        broker.limits.tenants = broker.security.tenants
        broker.limits.share(1 + sum(not peer.stopped for peer in broker.registry.peers.values()))
        while not broker.store.parked.known:
            await broker.store.parked.read_on(broker.store)
        if time.monotonic() - self._measured >= MEASURE_SECONDS:
            await self.measure()
        broker.limits.divide(broker.settings.store_max_bytes, broker.store.used_bytes)
        await self._tell()

    async def measure(self) -> None:
        """Sum up what every tenant stores."""
        broker, limits = self._broker, self._broker.limits
        queues_before = {uid: account.queues for uid, account in limits.accounts.items()}
        queues: defaultdict[Account, int] = defaultdict(int)
        before = {uid: account.stored_bytes for uid, account in limits.accounts.items()}
        stored: defaultdict[Account, int] = defaultdict(int)
        messages: defaultdict[str, int] = defaultdict(int)
        for number, queue in enumerate(list(broker.store.by_number.values())):
            if number % _AT_ONCE == _AT_ONCE - 1:
                await asyncio.sleep(0)
            if queue.topic not in _NOBODY:
                queues[self._owner(queue)] += 1
            if queue.max_offset > queue.min_offset and queue.topic not in _NOBODY:
                stored[self._owner(queue)] += _bytes_of(queue)
                messages[queue.topic] += queue.max_offset - queue.min_offset
        for topic, size in broker.store.index_bytes.items():
            if topic == TRACE_TOPIC:
                self._share_index_of_traces(size, stored)
                continue
            # The common share of the index is in the overhead of a message; messages with many keys have more.
            stored[limits.owner(topic)] += max(0, size - messages[topic] * OVERHEAD_BYTES)
        for table in (broker.store.parked.waiting, broker.store.parked.given_up):
            for topic, size in table.items():
                stored[limits.owner(topic)] += int(size * OVERHEAD_FACTOR)
        for uid, account in limits.accounts.items():
            account.stored_bytes = stored[account] + account.stored_bytes - before.get(uid, account.stored_bytes)
            account.queues = queues[account] + account.queues - queues_before.get(uid, account.queues)
        await self._measure_positions()
        await self._measure_flights()
        self._measured = time.monotonic()

    async def _measure_positions(self) -> None:
        broker = self._broker
        before = {uid: account.positions for uid, account in broker.limits.accounts.items()}
        kept = [(group, len(places)) for (group, _), places in broker.offsets.items()]
        kept += [(group, 1) for group, _ in broker.request_modes.popping()]
        positions = await self._by_owner(kept)
        for uid, account in broker.limits.accounts.items():
            account.positions = positions[account] + account.positions - before.get(uid, account.positions)

    async def _measure_flights(self) -> None:
        """They are counted as they come and go; who owns a group may not have been known then."""
        broker = self._broker
        before = {uid: account.in_flight for uid, account in broker.limits.accounts.items()}
        flights = await self._by_owner(broker.flights.counts())
        for uid, account in broker.limits.accounts.items():
            account.in_flight = flights[account] + account.in_flight - before.get(uid, account.in_flight)

    async def _by_owner(self, counts: list[tuple[str, int]]) -> defaultdict[Account, int]:
        """Sum up counts by group for the accounts that own the groups, in small steps."""
        limits = self._broker.limits
        found: defaultdict[Account, int] = defaultdict(int)
        for number, (group, count) in enumerate(counts):
            if number % _AT_ONCE == _AT_ONCE - 1:
                await asyncio.sleep(0)
            found[limits.account(limits.group_owner_uid(group))] += count
        return found

    def _owner(self, queue: Queue) -> Account:
        if queue.topic == TRACE_TOPIC:
            return self._broker.limits.account(self._broker.traces.owner_uid(queue))
        return self._broker.limits.owner(queue.topic)

    def _share_index_of_traces(self, size: int, stored: defaultdict[Account, int]) -> None:
        """The index of all traces is one: each account has as much of it as of the traces."""
        topic = self._broker.topics.get(TRACE_TOPIC)
        queues = topic.queues if topic else []
        total = sum(queue.stored_bytes for queue in queues)
        for queue in queues if total else []:
            surplus = size * queue.stored_bytes // total - (queue.max_offset - queue.min_offset) * OVERHEAD_BYTES
            stored[self._owner(queue)] += max(0, surplus)

    async def _tell(self) -> None:
        now, name = time.time(), self._broker.name
        rows: list[str | bytes] = []
        for uid, account in self._broker.limits.accounts.items():
            at, messages, size = self._before.get(uid, (now, account.messages_in, account.bytes_in))
            seconds = max(now - at, LOOK_SECONDS)
            self._before[uid] = now, account.messages_in, account.bytes_in
            told = UseRow(
                connections=account.connections,
                messages_per_second=round((account.messages_in - messages) / seconds),
                bytes_per_second=round((account.bytes_in - size) / seconds),
                stored_bytes=account.stored_bytes,
                queues=account.queues,
                refused=account.refused,
            ).encode()
            if uid and self._told.get(uid) != told:
                self._told[uid] = told
                rows += [use_field(uid, name), told]
        if now - self._told_all >= _TELL_ALL_SECONDS:
            self._told_all = now
            self._told.clear()  # the next time everything is told: Redis may be another one
        if rows:
            await self._broker.store.reader.call("HSET", USE, *rows)
        await self._tell_rates(now)
        await self._broker.store.reader.call("HSET", USE, use_field("", name), int(now * 1000))

    async def _tell_rates(self, now: float) -> None:
        """The rates of instances, of which the console shows how much is used; most instances are quiet."""
        rows: list[str | bytes] = []
        used: dict[str, _Taken] = {}
        for number, (sending, receiving) in enumerate(self._broker.limits.rates.items()):
            if number % _AT_ONCE == _AT_ONCE - 1:
                await asyncio.sleep(0)
            name, nothing = sending.instance, _Taken(now, 0, 0, 0)
            taken = used[name] = _Taken(now, sending.count, receiving.count, sending.held_back + receiving.held_back)
            before = self._rates_before.get(name, nothing)
            if taken[1:] == before[1:] and name not in self._rates_told:
                continue
            seconds = max(now - before.at, LOOK_SECONDS)
            told = RateUse(
                sent=round((taken.sent - before.sent) / seconds),
                received=round((taken.received - before.received) / seconds),
                held_back=taken.held_back,
            ).encode()
            if self._rates_told.get(name) != told:
                rows += [use_field(name, self._broker.name), told]
            if taken[1:] == before[1:]:
                self._rates_told.pop(name, None)  # told that it is quiet: nothing is to be said of it until it is not
            else:
                self._rates_told[name] = told
        self._rates_before = used
        if rows:
            await self._broker.store.reader.call("HSET", RATES_USED, *rows)


def _bytes_of(queue: Queue) -> int:
    return int(queue.stored_bytes * OVERHEAD_FACTOR) + (queue.max_offset - queue.min_offset) * OVERHEAD_BYTES
