"""A second broker of the same name, started by mistake or after the first was frozen: only one of them writes."""

from __future__ import annotations

import signal

import pytest

from tests.brokercore.crash.field import Field
from tests.brokercore.crash.figures import judge
from tests.support.broker import BrokerProcess, eventually


def test_a_second_broker_of_the_same_name_is_told_and_does_no_harm(ground: Field) -> None:
    topic, group = ground.topic(), ground.group()
    producer, consumer = ground.start("produce", topic), ground.start("consume", topic, group=group)
    producer.wait_for("acknowledged", 100)
    second = BrokerProcess(ground.redis.url)
    with pytest.raises(AssertionError, match="another broker named broker-a writes to this Redis"):
        second.start()
    second.close()
    producer.wait_for_more("acknowledged", 100)
    producer.finish()
    judge("a second broker of the same name", producer.bodies("sent"), producer.bodies("acknowledged"), consumer)


def test_a_broker_that_others_have_replaced_while_it_was_cut_off_ends(ground: Field) -> None:
    topic = ground.topic()
    ground.broker.signal(signal.SIGSTOP)
    try:
        # Redis takes it for dead after 15 s; here its connection is ended by hand.
        ground.command("CLIENT", "KILL", "TYPE", "normal")
        second = BrokerProcess(ground.redis.url)
        second.start()
        second.stop()
    finally:
        ground.broker.signal(signal.SIGCONT)
    eventually(lambda: "has written to Redis: this one ends" in ground.broker.log, 30)
    ground.restart_broker()
    assert topic in ground.admin.topics.names()
