"""`kill -9` under load: of the broker, of Redis, of both."""

from __future__ import annotations

import pytest

from tests.brokercore.crash.field import Field
from tests.brokercore.crash.figures import judge
from tests.brokercore.crash.records import Client

KILLS = 3
BETWEEN = 150
"""Messages that are acknowledged between two kills."""


def load(ground: Field) -> tuple[Client, Client]:
    """A producer and a consumer of one topic."""
    topic, group = ground.topic(), ground.group()
    return ground.start("produce", topic), ground.start("consume", topic, group=group)


def kill_broker(ground: Field) -> None:
    ground.restart_broker()


def kill_redis(ground: Field) -> None:
    ground.restart_redis()


def kill_both(ground: Field) -> None:
    ground.broker.kill()
    ground.restart_redis()
    ground.broker.start()


@pytest.mark.parametrize(
    ("what", "kill"), [("broker", kill_broker), ("Redis", kill_redis), ("broker and Redis", kill_both)]
)
def test_nothing_acknowledged_is_lost_when_it_is_killed_again_and_again(ground: Field, what: str, kill: object) -> None:
    producer, consumer = load(ground)
    for _ in range(KILLS):
        producer.wait_for_more("acknowledged", BETWEEN)
        kill(ground)  # type: ignore[operator]
    producer.wait_for_more("acknowledged", BETWEEN)
    producer.finish()
    judge(
        f"kill -9 of {what}, {KILLS} times", producer.bodies("sent"), producer.bodies("acknowledged"), consumer,
        most_deliveries=2 + KILLS,
    )  # fmt: skip
