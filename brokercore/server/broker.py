"""The broker's parts in one place; `upkeep` keeps them going."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

from brokercore.protocol.ids import pack_host
from brokercore.server.connections.clients import ClientTable, QueueLocks
from brokercore.server.connections.connection import Connection
from brokercore.server.connections.fairness import Pace, Rounds
from brokercore.server.connections.gate import Gate
from brokercore.server.connections.write_batching import Turn, Watchdog
from brokercore.server.delivery.delayed_delivery import Timers
from brokercore.server.delivery.replies import AwaitedReplies, reply_cluster
from brokercore.server.delivery.traces import Traces
from brokercore.server.delivery.transactions import Transactions
from brokercore.server.delivery.waiting import WaitingPulls
from brokercore.server.errors import store_trouble
from brokercore.server.peers.discovery import Registry
from brokercore.server.peers.key_values import KeyValues
from brokercore.server.pop.in_flight import FlightTable
from brokercore.server.rights.authentication import Security
from brokercore.server.rights.limits import TenantLimits
from brokercore.server.rights.refusals import Refusals
from brokercore.server.settings import Settings, ipv4_of
from brokercore.server.statistics import Statistics
from brokercore.server.storage.groups import GroupTable, RequestModes
from brokercore.server.storage.keys import Keys
from brokercore.server.storage.offsets import OffsetTable
from brokercore.server.storage.store import MessageStore
from brokercore.server.storage.topics import TopicTable


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
        self.watchdog = Watchdog(self.turn)
        self.rounds = Rounds(asyncio.get_running_loop())
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
        self.refusals = Refusals(self.security, self.store.reader)
        self.clients = ClientTable()
        self.locks = QueueLocks()
        self.statistics = Statistics()
        self.waiting = WaitingPulls()
        self.pace = Pace()
        self.replies = AwaitedReplies()
        self.flights = FlightTable(writer, keys, self.offsets, self.limits.note_in_flight)
        self.request_modes = RequestModes(writer, keys)
        self.traces = Traces(self.store, self.topics, self.limits)
        self.timers = Timers(self.store, self.topics)
        self.transactions = Transactions(self.store, self.topics, self.clients, self.security, self.timers)
        self.connections: set[Connection] = set()
        self.gate = Gate()
        self.requests: set[asyncio.Task[Any]] = set()
        """The rests of requests that `spawn` runs."""

        self.store.on_stored = self.waiting.wake
        self.security.on_changed = self.waiting.review

    @property
    def name(self) -> str:
        """The broker's name in routes and queues."""
        return self.settings.broker_name

    def reconfigure(self, **changes: Any) -> None:
        """Work with other settings from now on; they are forgotten when the broker ends."""
        self.settings = self.store.settings = replace(self.settings, **changes)

    def trouble(self) -> str:
        """Why requests cannot be answered now, in one sentence; empty while they can."""
        if trouble := self.store.trouble:
            return store_trouble(trouble)
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
        self.requests.add(task)
        task.add_done_callback(self.requests.discard)

    def _name_cluster(self) -> None:
        """What stored messages are told of their cluster; clients make the address of a reply from it."""
        cluster = self.settings.cluster_name
        if not self.registry.alone:
            cluster = reply_cluster(cluster, self.name)
        self.added_properties = f"MSG_REGION\x01{self.settings.region}\x02TRACE_ON\x01true\x02CLUSTER\x01{cluster}\x02"
