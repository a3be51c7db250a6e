"""rocketmq-client's push consumer, when the broker tells it to pop."""

from __future__ import annotations

import json

import pytest

from brokercore.client.session import Call
from brokercore.protocol.codes import RequestCode
from tests.compat.world import World, failures, sent


def set_mode(world: World, topic: str, group: str) -> None:
    """As `mqadmin setConsumeMode` does."""
    body = {"consumerGroup": world.physical(group), "topic": world.physical(topic), "mode": "POP"}
    for address in world.admin.brokers.masters().values():
        call = Call(address, RequestCode.SET_MESSAGE_REQUEST_MODE, {}, json.dumps(body).encode())
        world.admin.session.call(call)


def test_a_push_consumer_pops_and_retries(world: World) -> None:
    if not world.embedded:
        pytest.skip("rocketmq-client acknowledges without its namespace, which Apache RocketMQ does not understand")
    topic, group = world.topic("popping"), world.group("popping")
    set_mode(world, topic, group)
    consumers = [world.start("ApacheConsumer", topic, group, rebalance="broker").wait_ready() for _ in range(2)]
    events = world.run("ApacheProducer", topic, "GID_sender", body="easy", count=20)
    assert failures(events) == []
    hard = world.run("ApacheProducer", topic, "GID_sender", body="hard", count=1, properties="fails=1")
    bodies = {e["body"] for e in sent(events)}
    consumers[0].wait_until(
        lambda: bodies <= {body for consumer in consumers for body in consumer.bodies()}, "all messages"
    )
    again = sent(hard)[0]["body"]
    consumers[0].wait_until(
        lambda: [body for consumer in consumers for body in consumer.bodies()].count(again) == 2,
        "the second attempt",
    )
    received = [event for consumer in consumers for event in consumer.named("received")]
    easy = [event["body"] for event in received if event["body"] in bodies]
    assert sorted(easy) == sorted(bodies)
    assert sorted(event["reconsumeTimes"] for event in received if event["body"] == again) == [0, 1]
    consumers[0].wait_until(lambda: world.committed(topic, group) == world.message_count(topic), "acknowledgements")
