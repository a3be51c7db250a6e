"""Who is connected: producers and consumers by group, as their heartbeats say."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from brokercore.protocol.bodies.clients import ConsumerData, SubscriptionData
from brokercore.protocol.codes import RequestCode
from brokercore.protocol.message_queue import MessageQueue
from brokercore.server.connections.connection import Connection

if TYPE_CHECKING:
    from brokercore.server.rights.authentication import Caller

EXPIRE_SECONDS = 120
"""A client that has not sent a heartbeat for this long is forgotten."""

LOCK_EXPIRE_SECONDS = 60.0
"""A lock that is not asked for again within this time is free."""


@dataclass(slots=True, eq=False)
class Client:
    """One client of one group, on the connection it registered on."""

    client_id: str
    connection: Connection
    language: str
    version: int
    last_seen: float = 0.0
    caller: Caller | None = None
    """Whose AccessKey it registered with; None for a client of the broker's own."""


@dataclass(slots=True)
class ConsumerGroup:
    """The online part of a consumer group. All members ought to have the same subscriptions: the latest counts."""

    consume_type: str
    message_model: str
    consume_from_where: str
    members: dict[Connection, Client] = field(default_factory=dict)
    subscriptions: dict[str, SubscriptionData] = field(default_factory=dict)

    def find(self, client_id: str) -> Client | None:
        """The member with this client id."""
        return next((client for client in self.members.values() if client.client_id == client_id), None)


class ClientTable:
    """Producers and consumers by group. A member leaves when its connection closes or its heartbeats stop."""

    def __init__(self) -> None:
        self.producers: dict[str, dict[Connection, Client]] = {}
        self._producing: dict[Connection, set[str]] = {}
        """The producer groups of each connection."""
        self.consumers: dict[str, ConsumerGroup] = {}

    def register_producer(self, group: str, client: Client) -> None:
        """A producer said that it is there."""
        client.last_seen = time.monotonic()
        self.producers.setdefault(group, {})[client.connection] = client
        self._producing.setdefault(client.connection, set()).add(group)
        self._watch(client.connection, client.client_id)

    def register_consumer(self, data: ConsumerData, client: Client, *, keep_subscriptions: bool, notify: bool) -> bool:
        """A consumer said that it is there; tells the group when that changes something, and returns whether."""
        group = self.consumers.get(data.group)
        if group is None:
            group = self.consumers[data.group] = ConsumerGroup(
                data.consume_type, data.message_model, data.consume_from_where
            )
        known = group.members.get(client.connection)
        client.last_seen = time.monotonic()
        group.members[client.connection] = client
        group.consume_type, group.message_model = data.consume_type, data.message_model
        group.consume_from_where = data.consume_from_where
        changed = known is None or known.client_id != client.client_id
        if not keep_subscriptions:
            changed = _subscribe(group, data.subscriptions) or changed
        self._watch(client.connection, client.client_id)
        if changed and notify:
            self.notify(data.group)
        return changed

    def producer_groups(self, connection: Connection) -> set[str]:
        """The producer groups that a connection is in."""
        return self._producing.get(connection, set())

    def unregister(self, connection: Connection, client_id: str, producer_group: str, consumer_group: str) -> None:
        """A client leaves a group; only what was registered on this connection is touched."""
        members = self.producers.get(producer_group, {})
        if connection in members and members[connection].client_id == client_id:
            self._remove_producer(producer_group, connection)
        group = self.consumers.get(consumer_group)
        if group and connection in group.members and group.members[connection].client_id == client_id:
            self._remove_consumer(consumer_group, connection)

    def online(self, group: str) -> ConsumerGroup | None:
        """The online members of a consumer group, None when there are none."""
        return self.consumers.get(group)

    def notify(self, group_name: str) -> None:
        """Ask all members of a group to rebalance (NOTIFY_CONSUMER_IDS_CHANGED)."""
        group = self.consumers.get(group_name)
        for connection in list(group.members) if group else ():
            connection.push(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": group_name})

    def expire(self) -> None:
        """Forget clients whose heartbeats stopped."""
        oldest = time.monotonic() - EXPIRE_SECONDS
        for name, members in list(self.producers.items()):
            for connection in [key for key, client in members.items() if client.last_seen < oldest]:
                self._remove_producer(name, connection)
        for name, group in list(self.consumers.items()):
            for connection in [key for key, client in group.members.items() if client.last_seen < oldest]:
                self._remove_consumer(name, connection)

    def _watch(self, connection: Connection, client_id: str) -> None:
        connection.client_id = client_id
        connection.on_close[self] = lambda: self._left(connection)

    def _left(self, connection: Connection) -> None:
        for name in list(self.producer_groups(connection)):
            self._remove_producer(name, connection)
        for name in [name for name, group in self.consumers.items() if connection in group.members]:
            self._remove_consumer(name, connection)

    def _remove_producer(self, name: str, connection: Connection) -> None:
        self.producers[name].pop(connection, None)
        mine = self._producing.get(connection, set())
        mine.discard(name)
        if not mine:
            self._producing.pop(connection, None)
        if not self.producers[name]:
            del self.producers[name]

    def _remove_consumer(self, name: str, connection: Connection) -> None:
        group = self.consumers[name]
        group.members.pop(connection, None)
        if group.members:
            self.notify(name)
        else:
            del self.consumers[name]


def _subscribe(group: ConsumerGroup, subscriptions: list[SubscriptionData]) -> bool:
    """Take over subscriptions; True when topics or expressions changed."""
    before = {topic: item.expression for topic, item in group.subscriptions.items()}
    for item in subscriptions:
        known = group.subscriptions.get(item.topic)
        if known is None or known.version <= item.version:
            group.subscriptions[item.topic] = item
    wanted = {item.topic for item in subscriptions}
    for topic in [topic for topic in group.subscriptions if topic not in wanted]:
        del group.subscriptions[topic]
    return before != {topic: item.expression for topic, item in group.subscriptions.items()}


class QueueLocks:
    """Locks by group and queue, in memory: after a restart the clients lock again."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, MessageQueue], tuple[str, float]] = {}

    def lock(
        self, group: str, client_id: str, queues: Iterable[MessageQueue], connection: Connection
    ) -> list[MessageQueue]:
        """Lock what is free or held by this client, and return it. The locks end with the connection."""
        now = time.monotonic()
        taken = []
        for queue in queues:
            holder, since = self._held.get((group, queue), (client_id, now))
            if holder == client_id or now - since > LOCK_EXPIRE_SECONDS:
                self._held[group, queue] = client_id, now
                taken.append(queue)
        if taken:
            connection.on_close[self, group, client_id] = lambda: self._release_all(group, client_id)
        return taken

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Give back what this client holds."""
        for queue in queues:
            if self._held.get((group, queue), ("", 0.0))[0] == client_id:
                del self._held[group, queue]

    def _release_all(self, group: str, client_id: str) -> None:
        for key in [key for key, held in self._held.items() if key[0] == group and held[0] == client_id]:
            del self._held[key]
