"""The vendor's Java client of gRPC (rocketmq-client-java), with its defaults: TLS on the same port, no proxy."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from brokercore.protocol.message import decode_stored
from tests.brokercore.server.wire import Wire, fresh, properties
from tests.compat.programs import Program, build_programs, java_command
from tests.support.broker import SYSTEM_KEY, SYSTEM_SECRET, BrokerProcess, broker_process, eventually

SPACE = "MQ_INST_1234567890123456_GRPC0001"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    home = str(tmp_path_factory.mktemp("grpc"))
    with broker_process(
        gantry_grpc_port="0", gantry_home=home, gantry_broker_tls="permissive", gantry_transaction_check_seconds="1"
    ) as process:
        yield process


@pytest.fixture(scope="module")
def java(broker: BrokerProcess, java_home: Path) -> Iterator[Program]:
    """One JVM for all tests: it does what it is told, line by line."""
    build_programs()
    command = [*java_command(java_home, "grpc"), "gantry.compat.GrpcClient"]
    command += ["--endpoints", broker.grpc, "--namespace", SPACE]
    program = Program("GrpcClient", command, os.environ | {"ACCESS_KEY": SYSTEM_KEY, "SECRET_KEY": SYSTEM_SECRET})
    try:
        yield program.wait_ready()
    finally:
        program.kill()


@pytest.fixture
def wire(broker: BrokerProcess) -> Iterator[Wire]:
    with Wire(broker.address) as found:
        yield found


def names(wire: Wire, message_type: str = "NORMAL", **config: object) -> tuple[str, str]:
    """A topic and a group of the namespace, as its users write them."""
    topic, group = fresh(), fresh("GID")
    wire.topic(4, message_type, f"{SPACE}%{topic}")
    wire.group(f"{SPACE}%{group}", **config)
    return topic, group


def test_a_push_consumer_gets_what_both_kinds_of_producers_send(java: Program, wire: Wire) -> None:
    topic, group = names(wire)
    java.tell(f"push {group} {topic}")
    java.tell(f"send normal {topic} Grüße-{topic}")
    wire.publish(f"{SPACE}%{topic}", f"frames-{topic}".encode(), properties(UNIQ_KEY=fresh("ID"), TAGS="TagB"))
    events = {event["body"]: event for event in java.wait_received([f"Grüße-{topic}", f"frames-{topic}"])}
    received = events[f"Grüße-{topic}"]
    assert (received["topic"], received["tag"], received["keys"]) == (topic, "TagA", ["k1", "k2"])
    assert received["properties"] == {"colour": "blue"}
    assert received["id"] in [event["id"] for event in java.named("sent")]
    assert events[f"frames-{topic}"]["tag"] == "TagB"
    assert b'"JAVA"' in wire.ok(203, {"consumerGroup": f"{SPACE}%{group}"}).body


def test_what_the_java_producer_sends_is_read_by_frames(java: Program, wire: Wire) -> None:
    topic, group = names(wire)
    java.tell(f"send normal {topic} plain-{topic}")
    java.wait_until(lambda: any(event["body"] == f"plain-{topic}" for event in java.named("sent")), "sent")

    def found() -> bool:
        pulls = (wire.pull(f"{SPACE}%{group}", f"{SPACE}%{topic}", queueId=number) for number in range(4))
        return any(decode_stored(pull.body)[0].body == f"plain-{topic}".encode() for pull in pulls if pull.code == 0)

    eventually(found)


@pytest.mark.parametrize("options", [{"consumeMessageOrderly": True}, {}], ids=["as it is set", "by itself"])
def test_messages_of_a_group_come_in_order(java: Program, wire: Wire, options: dict[str, bool]) -> None:
    topic, group = names(wire, "FIFO", **options)
    bodies = [f"{topic}-{number}" for number in range(5)]
    for body in bodies:
        java.tell(f"send fifo {topic} {body}")
    java.tell(f"push {group} {topic}")
    java.wait_received(bodies)
    assert [body for body in java.bodies() if body in bodies] == bodies


def test_a_failed_message_comes_again(java: Program, wire: Wire) -> None:
    topic, group = names(wire)
    java.tell(f"push {group} {topic}")
    java.tell(f"send normal {topic} bad-{topic}")
    java.wait_until(lambda: java.bodies().count(f"bad-{topic}") == 2, "a second delivery")
    assert [event["attempt"] for event in java.named("received") if event["body"] == f"bad-{topic}"] == [1, 2]


def test_a_simple_consumer_gets_a_delayed_message_at_its_time(java: Program, wire: Wire) -> None:
    topic, group = names(wire, "DELAY")
    java.tell(f"send delay {topic} late-{topic}")
    java.tell(f"simple {group} {topic}")
    (received,) = [event for event in java.wait_received([f"late-{topic}"]) if event["body"] == f"late-{topic}"]
    (sent,) = [event for event in java.named("sent") if event["body"] == f"late-{topic}"]
    assert received["at"] - sent["at"] >= 1900


def test_transactions_are_committed_rolled_back_and_asked_about(java: Program, wire: Wire) -> None:
    topic, group = names(wire, "TRANSACTION")
    java.tell(f"push {group} {topic}")
    for end in ("rollback", "commit", "unknown"):
        java.tell(f"send {end} {topic} {end}-{topic}")
    java.wait_received([f"commit-{topic}", f"unknown-{topic}"])
    assert [event["body"] for event in java.named("checked")] == [f"unknown-{topic}"]
    assert f"rollback-{topic}" not in java.bodies()
