"""rocketmq-client on a cluster of two embedded brokers, one of which is killed and started again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from brokercore.protocol.ids import parse_offset_message_id
from tests.compat import servers
from tests.compat.programs import Program, Toolbox, build_programs
from tests.compat.test_pop import set_mode
from tests.compat.world import INSTANCE, World, failures
from tests.support.brokers import Pair, two_brokers


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    build_programs()
    with two_brokers() as running:
        yield running


@pytest.fixture(scope="module")
def clustered(pair: Pair, java_home: Path) -> Iterator[World]:
    cast = servers.cast_of(pair.a).cast
    tools = Toolbox(java_home, pair.namesrv, INSTANCE)
    try:
        yield World(tools, pair.admin, *cast, embedded=True)
    finally:
        tools.kill_since(0)


def brokers_of(program: Program) -> list[int]:
    """The port of the broker that acknowledged each message, in order."""
    return [parse_offset_message_id(event["offsetId"])[1] for event in program.named("sent")]


def test_java_clients_go_on_with_one_broker_and_lose_nothing_of_the_killed_one(clustered: World, pair: Pair) -> None:
    topic, group = clustered.topic("several"), clustered.group("several")
    consumer = clustered.start("ApacheConsumer", topic, group).wait_ready()
    producer = clustered.start("ApacheProducer", topic, "PID_several", count=50_000)
    producer.wait_until(lambda: len(set(brokers_of(producer))) == 2, "messages acknowledged by both brokers")
    pair.b.kill()
    left = int(pair.a.address.rpartition(":")[2])
    before = len(brokers_of(producer))
    producer.wait_until(lambda: brokers_of(producer)[before:].count(left) >= 200, "sends to the broker that is left")
    pair.b.start()
    pair.whole()
    producer.kill()
    acknowledged = [event["body"] for event in producer.named("sent")]
    assert failures(producer.events()) == []
    consumer.wait_received(acknowledged)


def test_questions_to_both_brokers_are_answered(clustered: World, pair: Pair) -> None:
    pair.whole()
    topic = clustered.topic("questions")
    responder = clustered.start("ApacheResponder", topic, clustered.group("responder")).wait_ready()
    events = clustered.run("ApacheRequester", topic, clustered.group("requester"), count=8)
    assert failures(events) == []
    assert failures(responder.events()) == []
    replies = sorted(event["body"] for event in events if event["event"] == "replied")
    assert replies == [f"re: question-{number}" for number in range(8)]
    asked = pair.admin.topics.stats(clustered.physical(topic))
    assert {queue.broker_name for queue, stats in asked.items() if stats.max_offset} == {"broker-a", "broker-b"}


@pytest.mark.parametrize("mode", ["PULL", "POP"])
def test_clients_that_let_the_broker_share_out_get_the_queues_of_both(clustered: World, pair: Pair, mode: str) -> None:
    pair.whole()
    topic, group = clustered.topic("shared-out"), clustered.group("shared-out")
    if mode == "POP":
        set_mode(clustered, topic, group)
    consumer = clustered.start("ApacheConsumer", topic, group, rebalance="broker").wait_ready()
    producer = clustered.start("ApacheProducer", topic, "PID_several", count=16).wait_for("done")
    assert len(set(brokers_of(producer))) == 2
    consumer.wait_received(event["body"] for event in producer.named("sent"))
