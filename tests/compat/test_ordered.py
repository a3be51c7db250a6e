"""Ordered messages: one sharding key, one queue, first in first out, also when a delivery is suspended."""

from __future__ import annotations

from typing import Any

import pytest

from tests.compat.programs import Event
from tests.compat.world import World, failures

KEYS = ("a", "b", "c")
COUNT = 8


def first_deliveries(received: list[Event], key: str) -> list[str]:
    """The bodies of one key in the order in which they first came."""
    return list(dict.fromkeys(e["body"] for e in received if e["body"].startswith(f"{key}-")))


@pytest.mark.parametrize("consumer", ["OnsOrderConsumer", "ApacheConsumer"])
def test_messages_of_one_sharding_key_stay_in_order(world: World, consumer: str) -> None:
    topic, group = world.topic("fifo", message_type="FIFO", queues=8), world.group("fifo")
    options: dict[str, Any] = {"suspend_once": "a-2,b-0"} if consumer.startswith("Ons") else {"listener": "orderly"}
    events = world.run("OnsOrderProducer", topic, group, sharding_keys=",".join(KEYS), count=COUNT)
    assert failures(events) == []
    running = world.start(consumer, topic, group, **options)
    received = running.wait_received(f"{key}-{n}" for key in KEYS for n in range(COUNT))
    for key in KEYS:
        assert first_deliveries(received, key) == [f"{key}-{n}" for n in range(COUNT)]
        assert len({e["queue"] for e in received if e["body"].startswith(f"{key}-")}) == 1
    if consumer.startswith("Ons"):
        assert [running.bodies().count(body) for body in ("a-2", "b-0", "c-0")] == [2, 2, 1]


def test_a_globally_ordered_topic_has_one_queue(world: World) -> None:
    topic, group = world.topic("global", message_type="FIFO", queues=1), world.group("global")
    world.run("OnsOrderProducer", topic, group, sharding_keys=",".join(KEYS), count=4)
    running = world.start("OnsOrderConsumer", topic, group)
    expected = [f"{key}-{n}" for n in range(4) for key in KEYS]
    running.wait_received(expected)
    assert running.bodies() == expected


def test_rocketmq_client_sends_in_order_by_its_queue_selector(world: World) -> None:
    topic, group = world.topic("selector", message_type="FIFO"), world.group("selector")
    events = world.run("ApacheProducer", topic, group, modes="ordered", key="a", body="a", count=COUNT)
    assert failures(events) == []
    running = world.start("ApacheConsumer", topic, group, listener="orderly")
    expected = [f"a-ordered-{n}" for n in range(COUNT)]
    running.wait_received(expected)
    assert running.bodies() == expected
