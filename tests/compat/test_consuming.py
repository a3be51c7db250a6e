"""Both Java clients send in every way and consume with filters, in clustering and in broadcasting."""

from __future__ import annotations

import itertools
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from tests.compat.programs import Program
from tests.compat.world import INSTANCE, World, failures, sent

ATTRIBUTES: dict[str, Any] = {"tag": "TagA", "key": "order-1", "properties": "colour=blue,city=Zürich"}
CLIENTS = pytest.mark.parametrize("client", ["Ons", "Apache"])
#: A client that missed the news of a member looks again after 20 seconds.
BEGIN_SECONDS = 90


def send_round(world: World, topic: str, body: str, count: int = 4) -> list[str]:
    """Send some messages and return their bodies."""
    events = world.run("ApacheProducer", topic, "GID_sender", body=body, count=count)
    assert failures(events) == []
    return [e["body"] for e in sent(events)]


def begin_together(world: World, topic: str, consumers: list[Program]) -> None:
    """Send until each consumer has received something: a group is rebalanced after a member came."""
    for consumer in consumers:
        consumer.wait_ready()
    deadline, numbers = time.monotonic() + BEGIN_SECONDS, itertools.count()
    while time.monotonic() < deadline:
        if all(consumer.bodies() for consumer in consumers):
            return
        send_round(world, topic, f"begin{next(numbers)}", count=8)
    raise AssertionError(f"in {BEGIN_SECONDS} s the consumers got {[len(c.bodies()) for c in consumers]} messages")


def test_every_way_of_sending_reaches_both_clients(world: World) -> None:
    topic, group = world.topic("all-ways"), world.group("all_ways")
    ons = world.run("OnsProducer", topic, group, modes="sync,async,oneway", count=2, body="ons", **ATTRIBUTES)
    apache = world.run(
        "ApacheProducer", topic, group, modes="sync,async,oneway,batch", count=2, body="apache", **ATTRIBUTES
    )

    assert failures(ons + apache) == []
    consumers = [
        world.start("OnsConsumer", topic, world.group("all_ways_ons")),
        world.start("ApacheConsumer", topic, world.group("all_ways_apache")),
        world.start("ApacheLitePull", topic, world.group("all_ways_pull")),
    ]
    ways = [("ons", "sync"), ("ons", "async"), ("ons", "oneway")]
    ways += [("apache", way) for way in ("sync", "async", "oneway", "batch")]
    bodies = [f"{client}-{way}-{n}" for client, way in ways for n in range(2)]
    ids = {e["body"]: e["id"] for e in sent(ons + apache) if e.get("id") and e["mode"] != "batch"}
    for consumer in consumers:
        received = {e["body"]: e for e in consumer.wait_received(bodies)}
        assert sorted(consumer.bodies()) == sorted(bodies)
        for event in received.values():
            assert (event["topic"], event["tag"], event["key"]) == (topic, "TagA", "order-1")
            assert (event["properties"]["colour"], event["properties"]["city"]) == ("blue", "Zürich")
        assert {body: received[body]["id"] for body in ids} == ids


@CLIENTS
def test_a_sql92_filter_looks_at_user_properties(world: World, client: str) -> None:
    topic, group = world.topic("sql92"), world.group("sql92")
    for city, floor in (("Zürich", 1), ("Zürich", 7), ("Bern", 9)):
        properties = f"city={city},floor={floor}"
        events = world.run("ApacheProducer", topic, "GID_sender", body=f"{city}{floor}", count=1, properties=properties)
        assert failures(events) == []
    consumer = world.start(f"{client}Consumer", topic, group, sql="city = 'Zürich' and floor between 5 and 9")
    consumer.wait_ready()
    events = world.run("ApacheProducer", topic, "GID_sender", body="last", count=1, properties="city=Zürich,floor=5")
    assert failures(events) == []
    consumer.wait_until(lambda: len(consumer.bodies()) >= 2, "the messages that pass")
    assert sorted(body.partition("-")[0] for body in consumer.bodies()) == ["Zürich7", "last"]


@CLIENTS
def test_a_tag_filter_lets_only_its_tags_through(world: World, client: str) -> None:
    topic, group = world.topic("tags"), world.group("tags")
    for tag in ("TagB", "TagA", "TagC"):
        world.run("ApacheProducer", topic, group, tag=tag, body=tag)
    consumer = world.start(f"{client}Consumer", topic, group, tags="TagA || TagC")
    consumer.wait_received(["TagA-sync-0", "TagC-sync-0"])
    assert sorted(consumer.bodies()) == ["TagA-sync-0", "TagC-sync-0"]


@CLIENTS
def test_two_consumers_of_a_group_share_the_messages(world: World, client: str) -> None:
    topic, group = world.topic("share", queues=4), world.group("share")
    send_round(world, topic, "first")
    consumers = [world.start(f"{client}Consumer", topic, group) for _ in range(2)]
    begin_together(world, topic, consumers)
    bodies = send_round(world, topic, "shared", count=16)
    consumers[0].wait_until(lambda: set(bodies) <= {body for c in consumers for body in c.bodies()}, "all messages")
    shares = [[body for body in c.bodies() if body in bodies] for c in consumers]
    assert sorted(shares[0] + shares[1]) == sorted(bodies)
    assert all(shares)


@CLIENTS
def test_broadcasting_reaches_every_consumer(world: World, client: str) -> None:
    topic, group = world.topic("broadcast"), world.group("broadcast")
    consumers = [world.start(f"{client}Consumer", topic, group, model="BROADCASTING") for _ in range(2)]
    begin_together(world, topic, consumers)
    news = send_round(world, topic, "news", count=8)
    for consumer in consumers:
        consumer.wait_received(news)
        assert len(consumer.bodies()) == len(set(consumer.bodies()))


def test_a_compressed_body_arrives_whole(world: World) -> None:
    topic, group = world.topic("large"), world.group("large")
    events = world.run("ApacheProducer", topic, group, body="large", size=100_000)
    assert failures(events) == []
    consumers = [
        world.start(f"{client}Consumer", topic, world.group(f"large_{client}")) for client in ("Ons", "Apache")
    ]
    for consumer in consumers:
        assert consumer.wait_received(e["body"] for e in sent(events))[0]["body"].startswith("large-sync-0...")


@CLIENTS
def test_the_instance_s_endpoint_is_accepted_in_place_of_its_id(world: World, client: str, tmp_path: Path) -> None:
    topic, group = world.topic("endpoint"), world.group("endpoint")
    hosts = tmp_path / "hosts"  # stands for the wildcard in the DNS that such endpoints need
    hosts.write_text(f"127.0.0.1 {INSTANCE}.rocketmq.test\n127.0.0.1 {socket.gethostname()}\n")
    options: dict[str, Any] = {
        "namesrv": f"http://{INSTANCE}.rocketmq.test:{world.tools.namesrv.rpartition(':')[2]}",
        "instance": "",
        "jvm": (f"-Djdk.net.hosts.file={hosts}",),
    }
    events = world.run(f"{client}Producer", topic, group, body="by endpoint", **options)
    assert failures(events) == []
    world.start(f"{client}Consumer", topic, group, **options).wait_received(["by endpoint-sync-0"])
