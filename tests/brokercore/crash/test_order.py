"""Messages of one key keep their order, whoever dies."""

from __future__ import annotations

from tests.brokercore.crash.field import Field
from tests.brokercore.crash.figures import judge
from tests.brokercore.crash.records import Client
from tests.support.broker import eventually


def assert_in_order(consumers: list[Client]) -> None:
    """After a crash a key may go back to what was not committed; it never passes over a message."""
    records = sorted((record for consumer in consumers for record in consumer.named("received")), key=lambda r: r.at)
    highest: dict[str, int] = {}
    for record in records:
        key, _, number = record.body.partition(":")
        assert int(number) <= highest.get(key, -1) + 1, f"{record.body} came after {key}:{highest.get(key)}"
        highest[key] = max(highest.get(key, -1), int(number))


def test_the_order_of_a_key_outlives_kills_of_broker_and_consumer_and_a_rebalance(ground: Field) -> None:
    topic, group = ground.topic(message_type="FIFO"), ground.group()
    producer = ground.start("produce", topic, ordered=1, insist=1, threads=6, pause=0.01)
    consumers = [ground.start("consume", topic, group=group, ordered=1) for _ in range(2)]
    eventually(lambda: all(consumer.count("received") > 40 for consumer in consumers), 60)
    consumers[0].kill()
    consumers.append(ground.start("consume", topic, group=group, ordered=1))
    producer.wait_for_more("acknowledged", 60)
    ground.restart_broker()
    consumers[2].wait_for("received", 20)
    producer.finish()
    judge(
        "ordered: consumer killed, rebalance, broker killed", producer.bodies("sent"), producer.bodies("acknowledged"),
        consumers, most_deliveries=6,
    )  # fmt: skip
    assert_in_order(consumers)
