"""The Python Producer and PushConsumer exchange messages with the Java clients."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from brokercore.client import ConsumeResult, Credentials, Message, MessageView, Producer, PushConsumer
from tests.compat.programs import Keys
from tests.compat.world import INSTANCE, World, sent


def credentials(keys: Keys) -> Credentials:
    return Credentials(keys.access_key_id, keys.secret)


class Inbox:
    """Collects what a Python consumer receives."""

    def __init__(self) -> None:
        self.messages: list[MessageView] = []
        self._changed = threading.Condition()

    def take(self, message: MessageView) -> ConsumeResult:
        with self._changed:
            self.messages.append(message)
            self._changed.notify_all()
        return ConsumeResult.SUCCESS

    def wait(self, condition: Callable[[], bool], seconds: float = 40) -> None:
        with self._changed:
            assert self._changed.wait_for(condition, seconds), self.messages


def test_messages_of_the_python_producer_reach_both_java_clients(world: World) -> None:
    topic, group = world.topic("from-python"), world.group("from_python")
    consumers = [world.start(f"{c}Consumer", topic, world.group(f"java_{c}")) for c in ("Ons", "Apache")]
    with Producer(world.tools.namesrv, credentials(world.tenant), group, namespace=INSTANCE) as producer:
        message = Message(topic, "Grüße".encode(), tags="TagA", keys="k1", properties={"colour": "blue"})
        result = producer.send(message)
    for consumer in consumers:
        (received,) = consumer.wait_received(["Grüße"])
        assert received["id"] == result.message_id
        assert (received["topic"], received["tag"], received["key"]) == (topic, "TagA", "k1")
        assert received["properties"]["colour"] == "blue"


def test_messages_of_both_java_producers_reach_the_python_consumer(world: World) -> None:
    topic, group = world.topic("to-python"), world.group("to_python")
    inbox = Inbox()
    consumer = PushConsumer(world.tools.namesrv, credentials(world.tenant), group, namespace=INSTANCE)
    consumer.subscribe(topic, "TagA")
    consumer.on_message(inbox.take)
    consumer.start()
    try:
        events = []
        for client in ("Ons", "Apache"):
            options: dict[str, Any] = {"tag": "TagA", "key": "k1", "properties": "colour=blue"}
            events += sent(world.run(f"{client}Producer", topic, group, body=client, **options))
            world.run(f"{client}Producer", topic, group, body="unwanted", tag="TagB")
        inbox.wait(lambda: len(inbox.messages) >= 2)
        assert {m.message_id for m in inbox.messages} == {e["id"] for e in events}
        for message in inbox.messages:
            assert (message.tags, message.keys, message.properties["colour"]) == ("TagA", "k1", "blue")
    finally:
        consumer.shutdown()
