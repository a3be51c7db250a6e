"""Who sends to a topic.

No broker tells it: a heartbeat names producer groups, not topics. But each stored message says from which address and
port it came, and the brokers tell which client is connected from there (GET_ALL_PRODUCER_INFO). So the newest messages
of the topic and the connected clients are laid side by side. Clients that trace say more (`console.messaging.trace`).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from ipaddress import ip_address
from typing import NamedTuple

from brokercore.client import Admin, ProducerInfo, StoredMessage
from brokercore.client.errors import NoPermission, RequestNotSupported
from brokercore.names import SYSTEM_GROUPS
from console.instances import broker
from console.messaging.trace import number_of, records_of
from console.topics.models import Group, Topic
from console.topics.names import apart, shown_name

NEWEST = 32
"""Messages of each queue that are looked at: as many as a broker gives at once."""
MOST_QUEUES = 64
MOST_BYTES = 4 << 20
"""So many bytes are read, and the messages of the queue that goes beyond."""
RATE_SECONDS = 300
"""Rates are those of the last minutes, or of the time that the newest messages cover where that is less."""
MOST_TRACED = 8
"""Producers whose newest message is looked up among the traces."""
MOST_SHOWN = 200

Address = tuple[str, int]


@dataclass(frozen=True)
class Sender:
    """A client that sends to a topic, or an address from which messages came without a client that is known.

    `client_id`, `language` and `version` are the client's own words, empty where none is known. Times are
    epoch milliseconds. `messages` of the newest ones are its own, `rate` is messages a second and None where none of
    the last minutes is known. `groups` are producer groups as the account knows them; `sent_ms` is what the client's
    trace says that a send took.
    """

    client_id: str
    addresses: tuple[str, ...]
    language: str
    version: int | None
    groups: tuple[str, ...]
    heartbeat_ms: int | None
    message_ms: int | None
    messages: int
    rate: float | None
    is_console: bool = False
    is_traced: bool = False
    sent_ms: int | None = None

    @property
    def online(self) -> bool:
        """Whether a broker knows the client as connected."""
        return bool(self.client_id)


@dataclass(frozen=True)
class Senders:
    """All that is known. `looked_at` messages were read; `told` is False where the brokers do not tell of clients."""

    found: list[Sender]
    looked_at: int
    told: bool


class _Client(NamedTuple):
    info: ProducerInfo
    groups: tuple[str, ...]


@dataclass
class _Seen:
    """What came from one address."""

    messages: int = 0
    newest: StoredMessage | None = None
    rate: float | None = None

    def add(self, message: StoredMessage) -> None:
        self.messages += 1
        if self.newest is None or message.store_timestamp > self.newest.store_timestamp:
            self.newest = message

    def merge(self, other: _Seen) -> None:
        if other.newest is not None:
            self.add(other.newest)
            self.messages += other.messages - 1
        if other.rate is not None:
            self.rate = (self.rate or 0.0) + other.rate


def senders(topic: Topic) -> Senders:
    """Who sends to the topic, those of the newest messages first. Raises ClientError for an outage."""
    admin = broker.admin(topic.instance.cluster)
    seen = _seen(admin, topic.physical_name, int(time.time() * 1000))
    clients = _clients(admin)
    found = _joined(topic, seen, clients or {})
    found.sort(key=lambda pair: (-(pair[0].message_ms or 0), -(pair[0].heartbeat_ms or 0), pair[0].client_id))
    shown = found[:MOST_SHOWN]
    traced = [_traced(admin, topic, sender, newest) for sender, newest in shown[:MOST_TRACED]]
    total = sum(one.messages for one in seen.values())
    return Senders([*traced, *(sender for sender, _ in shown[MOST_TRACED:])], total, clients is not None)


def _seen(admin: Admin, physical_topic: str, now_ms: int) -> dict[Address, _Seen]:
    """The newest messages of the topic by where they came from."""
    found: dict[Address, _Seen] = {}
    size = 0
    stats = sorted(admin.topics.stats(physical_topic).items(), key=lambda one: -one[1].last_update_ms)
    for queue, queue_stats in stats[:MOST_QUEUES]:
        begin = max(queue_stats.min_offset, queue_stats.max_offset - NEWEST)
        if begin >= queue_stats.max_offset or size >= MOST_BYTES:
            continue
        messages = admin.messages.pull(queue, begin, queue_stats.max_offset - begin).messages
        size += sum(message.total_size for message in messages)
        of_queue: dict[Address, int] = {}
        # Where all messages of a queue are known they cover the whole span, else what lies between them and now.
        oldest = messages[0].store_timestamp if messages and begin > queue_stats.min_offset else 0
        span_ms = min(max(now_ms - oldest, 1000), RATE_SECONDS * 1000)
        for message in messages:
            address = _address(*message.born_host)
            found.setdefault(address, _Seen()).add(message)
            if now_ms - message.store_timestamp <= span_ms:
                of_queue[address] = of_queue.get(address, 0) + 1
        for address, count in of_queue.items():
            found[address].rate = (found[address].rate or 0.0) + count * 1000 / span_ms
    return found


def _clients(admin: Admin) -> dict[Address, _Client] | None:
    """The connected clients of the cluster by address; None where the brokers do not tell of them."""
    try:
        groups = admin.clients.all_producers()
    except (RequestNotSupported, NoPermission):
        return None
    found: dict[Address, _Client] = {}
    for group, infos in groups.items():
        for info in infos:
            host, _, port = info.address.rpartition(":")
            address = _address(host, int(port) if port.isdecimal() else 0)
            known = found.get(address)
            found[address] = _Client(info, (*known.groups, group) if known else (group,))
    return found


def _joined(
    topic: Topic, seen: Mapping[Address, _Seen], clients: Mapping[Address, _Client]
) -> list[tuple[Sender, StoredMessage | None]]:
    """Each client with what came from its addresses, and each other host with what came from there."""
    of_client: dict[str, list[Address]] = {}
    for address, client in clients.items():
        # A client of RocketMQ 5 registers the topics that it sends to; of others only what they sent tells it.
        if address in seen or topic.physical_name in client.groups:
            of_client.setdefault(client.info.client_id, []).append(address)
    gone: dict[str, list[Address]] = {}
    for address in seen:
        if address not in clients:
            gone.setdefault(address[0], []).append(address)
    found = []
    for addresses in of_client.values():
        sums = _sum(seen, addresses)
        found.append((_client(topic, addresses, [clients[one] for one in addresses], sums), sums.newest))
    for host, addresses in gone.items():
        sums = _sum(seen, addresses)
        shown = tuple(_text(one) for one in sorted(addresses)) if len(addresses) == 1 else (host,)
        found.append((Sender("", shown, "", None, (), None, _stored(sums), sums.messages, sums.rate), sums.newest))
    return found


def _client(topic: Topic, addresses: list[Address], known: list[_Client], sums: _Seen) -> Sender:
    groups = {group for client in known for group in client.groups}
    return Sender(
        client_id=known[0].info.client_id,
        addresses=tuple(_text(one) for one in sorted(addresses)),
        language=known[0].info.language,
        version=known[0].info.version,
        groups=_own_groups(topic, groups),
        heartbeat_ms=max(client.info.last_seen_ms for client in known),
        message_ms=_stored(sums),
        messages=sums.messages,
        rate=sums.rate,
        is_console=broker.CONSOLE_GROUP in groups,
    )


def _own_groups(topic: Topic, groups: set[str]) -> tuple[str, ...]:
    """Producer groups that may be named: of the topic's instance, and none that another account made there.

    What clients have for themselves is left out, and the topics that those of RocketMQ 5 register.
    """
    namespace = topic.instance.instance_id if topic.instance.independent_naming else ""
    others = Group.objects.filter(cluster=topic.instance.cluster, physical_name__in=groups)
    hidden = {topic.physical_name, broker.CONSOLE_GROUP, *SYSTEM_GROUPS}
    hidden.update(others.exclude(owner=topic.instance.tenant).values_list("physical_name", flat=True))
    named = Topic.objects.filter(cluster=topic.instance.cluster, physical_name__in=groups - hidden)
    hidden.update(named.values_list("physical_name", flat=True))
    return tuple(sorted(shown_name(topic.instance, group) for group in groups - hidden if apart(group)[0] == namespace))


def _traced(admin: Admin, topic: Topic, sender: Sender, newest: StoredMessage | None) -> Sender:
    """With what the client's trace says of its newest message: under which group it sent, and how long that took."""
    if newest is None or not newest.unique_id:
        return sender
    for record in records_of(admin, topic, newest.unique_id, topic.instance.tenant):
        if record.kind == "Pub":
            groups = (*sender.groups, *([record.group] if record.group and record.group not in sender.groups else []))
            return replace(sender, groups=groups, is_traced=True, sent_ms=number_of(record, "cost_ms"))
    return sender


def _sum(seen: Mapping[Address, _Seen], addresses: Iterable[Address]) -> _Seen:
    total = _Seen()
    for address in addresses:
        if address in seen:
            total.merge(seen[address])
    return total


def _stored(seen: _Seen) -> int | None:
    return seen.newest.store_timestamp if seen.newest is not None else None


def _address(host: str, port: int) -> Address:
    """In one way of writing: an IPv6 address has several."""
    host = host.strip("[]")
    try:
        return str(ip_address(host)), port
    except ValueError:
        return host, port


def _text(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
