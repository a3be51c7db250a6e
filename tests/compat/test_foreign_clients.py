"""Clients of other languages and frameworks, unmodified: Go (remoting), Node (gRPC) and the starter of Spring Boot."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.brokercore.server.wire import Wire, fresh
from tests.compat.programs import Program, build_programs, java_command
from tests.support.broker import SYSTEM_KEY, SYSTEM_SECRET, BrokerProcess, broker_process
from tests.support.golang import go_program
from tests.support.needs import need_tool
from tests.support.node import node_modules

SPACE = "MQ_INST_1234567890123456_FOREIGN1"
FOREIGN = Path(__file__).parent / "foreign"
KEYS = {"ACCESS_KEY": SYSTEM_KEY, "SECRET_KEY": SYSTEM_SECRET}
#: The broker's second level, 5 s, and the first delay of a group's retries, 10 s, come on top of a busy machine.
PATIENCE_S = 90.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    home = str(tmp_path_factory.mktemp("foreign"))
    with broker_process(gantry_grpc_port="0", gantry_home=home, gantry_transaction_check_seconds="1") as process:
        yield process


@pytest.fixture(scope="module")
def go(broker: BrokerProcess) -> Iterator[Program]:
    program = Program("Go", [str(go_program(FOREIGN / "go")), broker.namesrv, SPACE], os.environ | KEYS)
    try:
        yield program.wait_ready()
    finally:
        program.kill()


@pytest.fixture(scope="module")
def node(broker: BrokerProcess) -> Iterator[Program]:
    modules = node_modules(FOREIGN / "node")
    command = [str(need_tool("node")), str(FOREIGN / "node" / "program.js"), broker.grpc, SPACE]
    program = Program("Node", command, os.environ | KEYS | {"NODE_PATH": str(modules)})
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


@pytest.mark.parametrize("client", ["go", "node"])
def test_a_push_consumer_gets_all_of_a_message(client: str, wire: Wire, request: pytest.FixtureRequest) -> None:
    program: Program = request.getfixturevalue(client)
    topic, group = names(wire)
    program.tell(f"push {group} {topic}")
    program.tell(f"send normal {topic} Grüße-{topic}")
    (received,) = [e for e in program.wait_received([f"Grüße-{topic}"]) if e["body"] == f"Grüße-{topic}"]
    # Go leaves the namespace in the name.
    assert received["topic"].removeprefix(f"{SPACE}%") == topic
    assert (received["tag"], received["keys"]) == ("TagA", ["k1", "k2"])
    assert received["colour"] == "blue" and received["attempt"] == 1
    assert received["id"] in [event["id"] for event in program.named("sent")]
    assert not program.named("failed")


@pytest.mark.parametrize("client", ["go", "node"])
def test_a_failed_message_comes_again(client: str, wire: Wire, request: pytest.FixtureRequest) -> None:
    program: Program = request.getfixturevalue(client)
    topic, group = names(wire)
    program.tell(f"push {group} {topic}")
    program.tell(f"send normal {topic} bad-{topic}")
    program.wait_until(lambda: program.bodies().count(f"bad-{topic}") == 2, "a second delivery", PATIENCE_S)
    assert [e["attempt"] for e in program.named("received") if e["body"] == f"bad-{topic}"] == [1, 2]


@pytest.mark.parametrize(("client", "consume"), [("go", "ordered"), ("node", "push")])
def test_messages_of_a_group_come_in_order(
    client: str, consume: str, wire: Wire, request: pytest.FixtureRequest
) -> None:
    program: Program = request.getfixturevalue(client)
    topic, group = names(wire, "FIFO", consumeMessageOrderly=True)
    bodies = [f"{topic}-{number}" for number in range(5)]
    if client == "go":
        # Its producer picks a queue by turns unless it is told how, so that one queue stands for its order.
        wire.topic(1, "FIFO", f"{SPACE}%{topic}")
    for body in bodies:
        program.tell(f"send fifo {topic} {body}")
    program.tell(f"{consume} {group} {topic}")
    program.wait_received(bodies, PATIENCE_S)
    assert [body for body in program.bodies() if body in bodies] == bodies


def test_go_gets_replies_with_and_without_a_body(go: Program, wire: Wire) -> None:
    topic, group = names(wire)
    go.tell(f"answer {group} {topic}")
    for asked in ("hello", "empty"):
        go.tell(f"ask {topic} {asked}")
    go.wait_until(lambda: len(go.named("answered")) == 2, "both replies", PATIENCE_S)
    assert {event["asked"]: event["body"] for event in go.named("answered")} == {"hello": "re: hello", "empty": ""}


def test_nodes_simple_consumer_gets_a_delayed_message(node: Program, wire: Wire) -> None:
    topic, group = names(wire, "DELAY")
    node.tell(f"send delay {topic} late-{topic}")
    node.tell(f"simple {group} {topic}")
    node.wait_received([f"late-{topic}"])


def test_node_commits_and_rolls_back(node: Program, wire: Wire) -> None:
    topic, group = names(wire, "TRANSACTION")
    for end in ("rollback", "commit"):
        node.tell(f"send {end} {topic} {end}-{topic}")
    node.tell(f"push {group} {topic}")
    node.wait_received([f"commit-{topic}"])
    assert f"rollback-{topic}" not in node.bodies()


@pytest.fixture(scope="module")
def spring(java_home: Path) -> list[str]:
    """The command line of the application. Built before a test opens a line: a broker ends silent ones."""
    build_programs()
    return [*java_command(java_home, "spring"), "gantry.compat.SpringApplication"]


def test_an_application_of_spring_boot(spring: list[str], broker: BrokerProcess, wire: Wire) -> None:
    told = {
        "rocketmq.name-server": broker.namesrv,
        "rocketmq.producer.group": "GID_spring_producer",
        "rocketmq.producer.namespace": SPACE,
        "rocketmq.producer.access-key": SYSTEM_KEY,
        "rocketmq.producer.secret-key": SYSTEM_SECRET,
        "rocketmq.consumer.access-key": SYSTEM_KEY,
        "rocketmq.consumer.secret-key": SYSTEM_SECRET,
        "namespace": SPACE,
    }
    for prefix, message_type in (
        ("", "NORMAL"),
        ("ordered.", "FIFO"),
        ("transactions.", "TRANSACTION"),
    ):
        told[f"{prefix}topic"], told[f"{prefix}group"] = names(wire, message_type)
    program = Program(
        "Spring Boot", [*spring, *(f"--{name}={value}" for name, value in told.items())], dict(os.environ)
    )
    try:
        program.wait_for("done")
        ordered = [f"ordered-{number}" for number in range(5)]
        program.wait_received(["plain", "commit", "unknown", *ordered], PATIENCE_S)
        program.wait_until(lambda: program.bodies().count("bad") == 2, "a second delivery", PATIENCE_S)
    finally:
        program.kill()
    (plain,) = [event for event in program.named("received") if event["body"] == "plain"]
    assert (plain["tag"], plain["keys"]) == ("TagA", "k1 k2")
    assert [body for body in program.bodies() if body in ordered] == ordered
    assert not {"rollback", "of another tag"} & set(program.bodies())
    assert [event["body"] for event in program.named("checked")] == ["unknown"]
