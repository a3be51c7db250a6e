"""Alice's instance on a real broker: topics, groups, messages and consumers of a test."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from brokercore.client import (
    Admin,
    ConsumeResult,
    Credentials,
    Message,
    MessageView,
    Producer,
    PushConsumer,
    SendResult,
)
from console.accounts.actor import Actor
from console.instances import broker as clients
from console.instances.models import Instance
from console.topics.models import Group, OrderType, Topic
from tests.support.broker import BrokerProcess
from tests.support.cast import Cast
from tests.support.redis_server import RedisServer

_numbers = itertools.count(1)
_MESSAGE_TYPES = {
    OrderType.NORMAL: "NORMAL", OrderType.PARTITIONALLY_ORDERED: "FIFO", OrderType.GLOBALLY_ORDERED: "FIFO",
    OrderType.TRANSACTIONAL: "TRANSACTION", OrderType.DELAYED: "DELAY",
}  # fmt: skip


@dataclass
class Live:
    """Alice's instance on a running broker; every test gets topics and groups of its own."""

    broker: BrokerProcess
    instance: Instance
    actor: Actor
    _consumers: list[PushConsumer] = field(default_factory=list)

    @property
    def admin(self) -> Admin:
        return clients.admin(self.instance.cluster)

    @property
    def producer(self) -> Producer:
        return clients.producer(self.instance.cluster)

    @property
    def credentials(self) -> Credentials:
        return clients.system_credentials()

    def topic(self, order_type: OrderType = OrderType.NORMAL, *, queues: int = 4, name: str = "") -> Topic:
        name = name or f"topic-{next(_numbers)}"
        topic = Topic.objects.create(
            instance=self.instance, name=name, physical_name=self.instance.physical_name(name), order_type=order_type,
            queues=queues,
        )  # fmt: skip
        self.admin.topics.create(topic.physical_name, queues=queues, message_type=_MESSAGE_TYPES[order_type])
        return topic

    def group(self) -> Group:
        name = f"GID_{next(_numbers)}"
        group = Group.objects.create(
            instance=self.instance,
            group_id=name,
            physical_name=self.instance.physical_name(name),
            owner=self.instance.tenant,
            shared=True,
        )
        self.admin.groups.create(group.physical_name)
        return group

    def send(self, topic: Topic, body: bytes = b"{}", **fields: Any) -> SendResult:
        return self.producer.send(Message(topic.physical_name, body, **fields))

    def consume(
        self,
        group: Group,
        *topics: Topic,
        expression: str = "*",
        fail: bool = False,
        retries: int = 16,
        gate: threading.Event | None = None,
        **more: Any,
    ) -> list[MessageView]:
        """Start a consumer of `group`; the list fills with what it got. With a `gate` it finishes when that opens."""
        got: list[MessageView] = []
        consumer = PushConsumer(
            self.instance.cluster.namesrv, self.credentials, group.group_id, namespace=self.instance.instance_id,
            max_reconsume_times=retries, consume_from="CONSUME_FROM_FIRST_OFFSET", **more,
        )  # fmt: skip
        for topic in topics:
            consumer.subscribe(topic.name, expression)

        def handle(message: MessageView) -> ConsumeResult:
            got.append(message)
            if gate is not None:
                gate.wait(20)
            return ConsumeResult.RECONSUME_LATER if fail else ConsumeResult.SUCCESS

        consumer.on_message(handle)
        self._consumers.append(consumer.start())
        return got

    def stop_consumers(self) -> None:
        for consumer in self._consumers:
            consumer.shutdown()
        self._consumers.clear()


@pytest.fixture(scope="session")
def live_redis(redis: RedisServer) -> RedisServer:
    return redis


@pytest.fixture(scope="session")
def live_broker(broker: BrokerProcess) -> BrokerProcess:
    return broker


@pytest.fixture
def live(cast: Cast, broker: BrokerProcess) -> Iterator[Live]:
    running = Live(broker, cast.instance, cast.actor("alice"))
    yield running
    running.stop_consumers()
