"""The machine of Redis loses power: the end of the append-only file is torn, or what was not yet on disk is missing."""

from __future__ import annotations

import os

import pytest

from tests.brokercore.crash.field import Field, field
from tests.brokercore.crash.figures import judge

WITHIN = 2.0
"""Seconds before the loss of which docs/operate/storage.md says that `everysec` may lose them."""


def test_a_torn_last_record_costs_nothing_that_was_acknowledged(ground: Field) -> None:
    topic, group = ground.topic(), ground.group()
    producer, consumer = ground.start("produce", topic), ground.start("consume", topic, group=group)
    producer.wait_for("acknowledged", 200)
    ground.broker.kill()
    ground.redis.kill()
    path = ground.append_only_file
    data = path.read_bytes()
    record = data[data.rindex(b"*5\r\n$4\r\nXADD") :]
    with path.open("ab") as file:  # the write that the power loss cut short: nobody was told that it is done
        file.write(record[: len(record) // 2])
    ground.redis.start()
    ground.broker.start()
    producer.wait_for_more("acknowledged", 200)
    producer.finish()
    judge("torn tail of the append-only file", producer.bodies("sent"), producer.bodies("acknowledged"), consumer)


@pytest.mark.parametrize("broker_dies", [False, True], ids=["Redis", "both"])
def test_everysec_loses_at_most_what_was_not_on_disk_and_nothing_that_comes_later(broker_dies: bool) -> None:
    with field() as ground:
        topic, group = ground.topic(queues=1), ground.group()
        producer, consumer = ground.start("produce", topic), ground.start("consume", topic, group=group)
        producer.wait_for("acknowledged", 200)
        on_disk = ground.append_only_file.stat().st_size
        since = producer.named("acknowledged")[-1].at
        producer.wait_for_more("acknowledged", 200)
        consumer.wait_for("received", 300)  # it is ahead of what Redis will know
        if broker_dies:
            ground.broker.kill()
        ground.redis.kill()
        torn = producer.named("acknowledged")[-1].at
        os.truncate(ground.append_only_file, on_disk - 5)
        ground.redis.start()
        if broker_dies:
            ground.broker.start()
        producer.wait_for_more("acknowledged", 600)
        producer.finish()
        excused = [r.body for r in producer.named("acknowledged") if since - 0.5 <= r.at <= torn + 0.1]
        judge(
            f"power loss with everysec, {'broker too' if broker_dies else 'the broker lives'}",
            producer.bodies("sent"), producer.bodies("acknowledged"), consumer, excused=excused,
            remark=f"the last {torn - since:.1f} s were cut off the file; the window is {WITHIN:.0f} s",
        )  # fmt: skip
