"""The broker's figures for Prometheus, read when they are asked for (docs/broker.md, "Watching it")."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector, CollectorRegistry

from brokercore.server.account import Account
from brokercore.server.pace import SLICE_SECONDS
from brokercore.server.statistics import BROKER_GET, BROKER_PUT, GET, GET_BYTES, PUT, PUT_BYTES, SENT_BACK

if TYPE_CHECKING:
    from brokercore.server.broker import Broker

_AT_ONCE = 200
"""Values of one metric that are written at once."""

_HEAD_LINES = 2
"""What is said once of a metric: its help and its type."""

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


class Figures(Collector):
    """Everything that is shown; `text` gives it in Prometheus' text format."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    async def text(self) -> bytes:
        """The figures of this moment, written in slices: there are as many as there are topics and groups."""
        parts: list[bytes] = []
        before, end = "", perf_counter() + SLICE_SECONDS
        for metric in self._registry.collect():
            written = generate_latest(_Only(metric))
            # A metric of many values comes in pieces, of which each begins with what is said once.
            parts.append(written if metric.name != before else written.split(b"\n", _HEAD_LINES)[_HEAD_LINES])
            before = metric.name
            if perf_counter() >= end:
                await asyncio.sleep(0)
                end = perf_counter() + SLICE_SECONDS
        return b"".join(parts)

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
        yield _gauge("gantry_up_seconds", "Seconds since the start", time.time() - broker.started_ms / 1000)
        yield _gauge("gantry_ready", "1 while requests can be answered", not broker.trouble())
        yield _gauge("gantry_connections", "Open connections", len(broker.connections))
        yield _gauge("gantry_secure_connections", "Those that speak TLS", sum(c.secure for c in broker.connections))
        yield _gauge("gantry_consumers", "Consumers that are online, once a group", consumers)
        yield _gauge("gantry_producers", "Producers that are online, once a group", producers)
        yield _gauge("gantry_waiting_requests", "Pulls and pops that wait for a message", broker.waiting.count)
        longest = broker.watchdog.longest(time.monotonic())
        yield _gauge("gantry_longest_turn_seconds", "Longest time of the last minute that the loop was held", longest)
        yield _counter("gantry_long_turns", "Times the loop was held for more than 20 ms", broker.watchdog.long_turns)
        yield _counter("gantry_put", "Messages stored", broker.statistics.counter(BROKER_PUT, cluster).total)
        yield _counter("gantry_get", "Messages handed out", broker.statistics.counter(BROKER_GET, cluster).total)
        yield _counter("gantry_timers_delivered", "Delayed messages delivered at their time", broker.timers.delivered)

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
        yield _gauge("gantry_store_bytes", "Bytes of messages kept", store.used_bytes)
        yield _gauge("gantry_store_limit_bytes", "Bytes that may be kept", broker.settings.store_max_bytes)
        yield _gauge("gantry_topics", "Topics", len(list(broker.topics.names())))
        yield _gauge("gantry_groups", "Consumer groups", len(broker.groups.items()))
        yield _gauge("gantry_queues", "Queues", len(store.by_number))


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=float(value))


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(name, text, value=float(value))


def _pieces(rows: list[tuple[str, int]]) -> Iterator[list[tuple[str, int]]]:
    """The rows in pieces that are written at once; one without any when there are none."""
    for start in range(0, len(rows) or 1, _AT_ONCE):
        yield rows[start : start + _AT_ONCE]


class _Only(Collector):
    """A single metric, as the library writes registries."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> list[Metric]:
        return [self._metric]
