"""The cluster that a contract is checked on, and what a test does with it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from brokercore.client import (
    Admin,
    ConsumeResult,
    Credentials,
    LitePullConsumer,
    MessageQueue,
    MessageSelector,
    MessageView,
    Producer,
    PushConsumer,
    StoredMessage,
)
from brokercore.client.errors import NoPermission, TopicNotExist
from tests.compat.programs import Keys
from tests.compat.world import INSTANCE, World
from tests.support.broker import eventually

Kind = Literal["embedded", "apache", "apache-4.9.7", "apache-5.5.0"]
Decide = Callable[[MessageView], ConsumeResult]

#: Requests wait for so long; what passes is seen at once, so only failures wait.
TIMEOUT_MS = 10_000

PRODUCER: dict[str, Any] = {"namespace": INSTANCE, "timeout_ms": TIMEOUT_MS}
CONSUMER: dict[str, Any] = PRODUCER | {"consume_from": "CONSUME_FROM_FIRST_OFFSET"}


@dataclass
class Received:
    """What a consumer got, in the order in which it came."""

    messages: list[MessageView] = field(default_factory=list)
    arrived_ms: list[int] = field(default_factory=list)
    consumer: PushConsumer | None = None

    @property
    def bodies(self) -> list[str]:
        """The bodies, as text."""
        return [message.body.decode() for message in self.messages]

    def of(self, body: str) -> list[MessageView]:
        """The deliveries of one message."""
        return [message for message in self.messages if message.body.decode() == body]

    def times_of(self, body: str) -> list[int]:
        """When each of them came, in epoch ms."""
        both = zip(self.messages, self.arrived_ms, strict=False)
        return [time_ms for message, time_ms in both if message.body.decode() == body]

    def wait_for(self, *bodies: str, seconds: float = 30.0) -> list[MessageView]:
        """Wait until each of these bodies came at least once."""
        eventually(lambda: set(bodies) <= set(self.bodies), seconds)
        return self.messages


def succeed(_message: MessageView) -> ConsumeResult:
    """The handler of a consumer that has nothing to complain of."""
    return ConsumeResult.SUCCESS


class Cluster:
    """Names are those of the tenant's instance; our clients use the tenant's keys unless told otherwise."""

    def __init__(self, kind: Kind, world: World) -> None:
        self.kind = kind
        self.world = world
        self.admin: Admin = world.admin
        self.namesrv = world.tools.namesrv

    def knows_its_tenant(self) -> bool:
        """False until the broker has read the AccessKeys that were made after its start."""
        with Admin(self.namesrv, self.credentials(), timeout_ms=TIMEOUT_MS) as admin:
            try:
                admin.topics.route("no-such-topic")
            except NoPermission:
                return False
            except TopicNotExist:
                return True
        return True

    def credentials(self, keys: Keys | None = None) -> Credentials:
        """Of the tenant, or of `keys`."""
        return Credentials(*(keys or self.world.tenant))

    def physical(self, name: str) -> str:
        """The name on the wire."""
        return self.world.physical(name)

    def topic(self, hint: str, *, queues: int = 2, message_type: str = "NORMAL") -> str:
        """A new topic that has a route already."""
        name = self.world.topic(hint, queues=queues, message_type=message_type)
        eventually(lambda: self._has_route(name))
        return name

    def group(self, hint: str) -> str:
        """A new group."""
        return self.world.group(hint)

    def _has_route(self, topic: str) -> bool:
        try:
            return bool(self.admin.topics.route(self.physical(topic)).queues)
        except TopicNotExist:
            return False

    def producer(self, group: str = "GID_sender", keys: Keys | None = None, **options: Any) -> Producer:
        """A producer of the tenant."""
        settings: dict[str, Any] = PRODUCER | options
        return Producer(self.namesrv, self.credentials(keys), group, **settings)

    def pull_consumer(self, group: str, keys: Keys | None = None, **options: Any) -> LitePullConsumer:
        """A lite pull consumer of the tenant that begins at the first message."""
        settings: dict[str, Any] = CONSUMER | options
        return LitePullConsumer(self.namesrv, self.credentials(keys), group, **settings)

    def push_consumer(self, group: str, keys: Keys | None = None, **options: Any) -> PushConsumer:
        """A push consumer of the tenant that begins at the first message, not started."""
        settings: dict[str, Any] = CONSUMER | options
        return PushConsumer(self.namesrv, self.credentials(keys), group, **settings)

    @contextmanager
    def consuming(
        self,
        topic: str,
        group: str,
        selector: str | MessageSelector = "*",
        decide: Decide = succeed,
        **options: Any,
    ) -> Iterator[Received]:
        """A started push consumer of the tenant."""
        received = Received()
        with self.push_consumer(group, **options) as consumer:

            @consumer.on_message
            def handle(message: MessageView) -> ConsumeResult:
                received.arrived_ms.append(int(time.time() * 1000))
                received.messages.append(message)
                return decide(message)

            received.consumer = consumer
            consumer.subscribe(topic, selector).start()
            yield received

    def stored(self, topic: str, queue_id: int | None = None) -> list[StoredMessage]:
        """Every message that lies in a topic, queue by queue. `topic` may be physical."""
        name = topic if "%" in topic else self.physical(topic)
        messages: list[StoredMessage] = []
        try:
            queues = sorted(self.admin.topics.stats(name).items())
        except TopicNotExist:
            return []
        for queue, stats in queues:
            if queue_id is not None and queue.queue_id != queue_id:
                continue
            offset = stats.min_offset
            while offset < stats.max_offset:
                result = self.admin.messages.pull(queue, offset)
                messages += result.messages
                if result.next_offset <= offset:
                    break
                offset = result.next_offset
        return messages

    def stored_bodies(self, topic: str) -> list[str]:
        """Their bodies, as text."""
        return [message.decoded_body().decode() for message in self.stored(topic)]

    def wait_stored(self, topic: str, count: int, seconds: float = 10.0) -> list[StoredMessage]:
        """Wait until so many messages can be read: Apache RocketMQ answers a send a moment before that."""
        return list(eventually(lambda: _enough(self.stored(topic), count), seconds))

    def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic."""
        return sorted(self.admin.topics.stats(self.physical(topic)))


def _enough(messages: list[StoredMessage], count: int) -> list[StoredMessage] | None:
    return messages if len(messages) >= count else None
