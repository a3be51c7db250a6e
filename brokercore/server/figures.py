"""What a broker tells Prometheus of itself, its store, its accounts, topics and groups (docs/operate/broker.md)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from brokercore.server.rights.account import Account
from brokercore.server.statistics import BROKER_GET, BROKER_PUT, GET, GET_BYTES, PUT, PUT_BYTES, SENT_BACK
from brokercore.server.watching import counter, gauge

if TYPE_CHECKING:
    from brokercore.server.broker import Broker

_AT_ONCE = 200
"""Values of one metric that are written at once."""

_BY_TOPIC = {
    PUT: ("gantry_messages_in", "Messages stored, by topic"),
    PUT_BYTES: ("gantry_message_bytes_in", "Bytes of their bodies, by topic"),
}
_BY_GROUP = {
    GET: ("gantry_messages_out", "Messages handed to a group"),
    GET_BYTES: ("gantry_message_bytes_out", "Bytes of their frames"),
    SENT_BACK: ("gantry_messages_sent_back", "Messages that a group has failed on"),
}
_BY_TENANT: dict[str, tuple[str, Callable[[Account], int]]] = {
    "gantry_tenant_connections": ("Open connections of an account", lambda account: account.connections),
    "gantry_tenant_stored_bytes": ("Bytes that an account stores here", lambda account: account.stored_bytes),
    "gantry_tenant_stored_limit_bytes": (
        "Bytes that it may store here; 0 is no limit",
        lambda account: account.limits.stored_bytes,
    ),
    "gantry_tenant_queues": ("Queues of an account's topics and groups", lambda account: account.queues),
    "gantry_tenant_messages_in": ("Messages that an account has sent", lambda account: account.messages_in),
    "gantry_tenant_message_bytes_in": ("Bytes of their bodies and properties", lambda account: account.bytes_in),
}


class BrokerFigures(Collector):
    """The figures of this moment; a metric of many values comes in pieces."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def describe(self) -> list[Metric]:
        """Nothing beforehand: topics and groups come and go."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Of the broker, then by topic and group."""
        yield from self._of_the_broker()
        yield from self._of_the_store()
        yield from self._of_the_tenants()
        statistics = self._broker.statistics
        for name, (metric, text) in _BY_TOPIC.items():
            for piece in _pieces(statistics.totals(name)):
                family = CounterMetricFamily(metric, text, labels=["topic"])
                for topic, total in piece:
                    family.add_metric([topic], total)
                yield family
        for name, (metric, text) in _BY_GROUP.items():
            for piece in _pieces(statistics.totals(name)):
                family = CounterMetricFamily(metric, text, labels=["topic", "group"])
                for key, total in piece:
                    topic, _, group = key.partition("@")
                    family.add_metric([topic, group], total)
                yield family

    def _of_the_broker(self) -> Iterator[Metric]:
        broker = self._broker
        clients = broker.clients
        consumers = sum(len(group.members) for group in clients.consumers.values())
        producers = sum(len(members) for members in clients.producers.values())
        cluster = broker.settings.cluster_name
        yield gauge("gantry_up_seconds", "Seconds since the start", time.time() - broker.started_ms / 1000)
        yield gauge("gantry_ready", "1 while requests can be answered", not broker.trouble())
        yield gauge("gantry_connections", "Open connections", len(broker.connections))
        yield gauge("gantry_secure_connections", "Those that speak TLS", sum(c.secure for c in broker.connections))
        yield gauge("gantry_consumers", "Consumers that are online, once a group", consumers)
        yield gauge("gantry_producers", "Producers that are online, once a group", producers)
        yield gauge("gantry_waiting_requests", "Pulls and pops that wait for a message", broker.waiting.count)
        longest = broker.watchdog.longest(time.monotonic())
        yield gauge("gantry_longest_turn_seconds", "Longest time of the last minute that the loop was held", longest)
        yield counter("gantry_long_turns", "Times the loop was held for more than 20 ms", broker.watchdog.long_turns)
        yield counter("gantry_put", "Messages stored", broker.statistics.counter(BROKER_PUT, cluster).total)
        yield counter("gantry_get", "Messages handed out", broker.statistics.counter(BROKER_GET, cluster).total)
        yield counter("gantry_timers_delivered", "Delayed messages delivered at their time", broker.timers.delivered)

    def _of_the_tenants(self) -> Iterator[Metric]:
        """By account, which is known by its AccessKeys and topics: there are as many as there are accounts."""
        broker = self._broker
        accounts = {uid: account for uid, account in broker.limits.accounts.items() if uid}
        for name, (text, value) in _BY_TENANT.items():
            counts = name.startswith("gantry_tenant_message")
            family = (CounterMetricFamily if counts else GaugeMetricFamily)(name, text, labels=["tenant"])
            for uid, account in accounts.items():
                family.add_metric([uid], value(account))
            yield family
        refused = CounterMetricFamily(
            "gantry_refused_requests", "Refused requests, by account and reason", labels=["tenant", "reason"]
        )
        for uid, account in accounts.items():
            for reason, count in account.refused.items():
                refused.add_metric([uid, reason], count)
        for reason, count in broker.refusals.of_strangers.items():
            refused.add_metric(["", reason], count)
        yield refused

    def _of_the_store(self) -> Iterator[Metric]:
        broker = self._broker
        store = broker.store
        yield gauge("gantry_store_bytes", "Bytes of messages kept", store.used_bytes)
        yield gauge("gantry_store_limit_bytes", "Bytes that may be kept", broker.settings.store_max_bytes)
        yield gauge("gantry_topics", "Topics", len(list(broker.topics.names())))
        yield gauge("gantry_groups", "Consumer groups", len(broker.groups.items()))
        yield gauge("gantry_queues", "Queues", len(store.by_number))


def _pieces(rows: list[tuple[str, int]]) -> Iterator[list[tuple[str, int]]]:
    """The rows in pieces that are written at once; one without any when there are none."""
    for start in range(0, len(rows) or 1, _AT_ONCE):
        yield rows[start : start + _AT_ONCE]
