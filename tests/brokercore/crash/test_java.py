"""The same with the real Java clients: a producer and a consumer of rocketmq-client, and its transactions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.brokercore.crash.field import Field
from tests.brokercore.crash.figures import judge_bodies
from tests.compat.programs import Keys, Toolbox, build_programs
from tests.support.broker import SYSTEM_KEY, SYSTEM_SECRET

BEAT_MS = 1000
"""Heartbeats come so often here: a restarted broker knows its clients by them."""

KEYS = Keys(SYSTEM_KEY, SYSTEM_SECRET)


@pytest.fixture(scope="module")
def java_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The user's home of the JVMs."""
    build_programs()
    return tmp_path_factory.mktemp("java")


@pytest.fixture
def tools(java_home: Path, ground: Field) -> Iterator[Toolbox]:
    """The Java programs, pointed at the broker of this test."""
    tools = Toolbox(java_home, ground.broker.namesrv, "")
    yield tools
    tools.kill_since()


def restart_all(ground: Field) -> None:
    ground.broker.kill()
    ground.restart_redis()
    ground.broker.start()


def test_java_clients_lose_nothing_over_kills_of_broker_and_redis(ground: Field, tools: Toolbox) -> None:
    topic, group = ground.topic(), ground.group()
    consumer = tools.start("ApacheConsumer", KEYS, topic=topic, group=group, heartbeat_ms=BEAT_MS).wait_ready()
    producer = tools.start("ApacheSteadyProducer", KEYS, topic=topic, group="GID_java", heartbeat_ms=BEAT_MS)
    for strike in (ground.restart_broker, ground.restart_redis, lambda: restart_all(ground)):
        known = len(producer.named("sent"))
        producer.wait_until(lambda known=known: len(producer.named("sent")) >= known + 150, "more sends")  # type: ignore[misc]
        strike()
    known = len(producer.named("sent"))
    producer.wait_until(lambda: len(producer.named("sent")) >= known + 150, "more sends")
    producer.stop()
    judge_bodies(
        "kill -9 of broker, Redis, both", [e["body"] for e in producer.named("sending")],
        [e["body"] for e in producer.named("sent")], consumer.bodies, client="Java", most_deliveries=5,
    )  # fmt: skip


def test_a_java_producer_is_asked_about_its_half_message_after_a_kill(ground: Field, tools: Toolbox) -> None:
    topic, group = ground.topic(message_type="TRANSACTION"), ground.group()
    consumer = tools.start("ApacheConsumer", KEYS, topic=topic, group=group, heartbeat_ms=BEAT_MS).wait_ready()
    outcomes = ["commit", "rollback", "unknown"]
    producer = tools.start(
        "ApacheTransactionProducer", KEYS, topic=topic, group="GID_java_tx", outcomes=",".join(outcomes),
        check_immunity_seconds=5, heartbeat_ms=BEAT_MS,
    ).wait_ready()  # fmt: skip
    assert len(producer.named("sent")) == len(outcomes)
    restart_all(ground)
    producer.wait_for("checked")
    judge_bodies("broker and Redis killed before the check", outcomes, ["commit", "unknown"], consumer.bodies,
                 client="Java")  # fmt: skip
    assert "rollback" not in consumer.bodies()
