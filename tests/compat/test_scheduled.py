"""Delayed and scheduled messages come at their time, not before."""

from __future__ import annotations

from typing import Any

import pytest

from tests.compat.programs import Event
from tests.compat.world import World, failures, sent

#: The timers' precision is one second, and both ends run on one clock.
PRECISION_MS = 1000


def lateness_ms(world: World, producer: str, consumer: str, **options: Any) -> int:
    """Send one message with a delay and return how long after the send it came."""
    topic, group = world.topic("delay", message_type="DELAY"), world.group("delay")
    running = world.start(consumer, topic, group).wait_ready()
    # A client that does not hear of its queues at the first try, on a busy machine, asks again half a minute later.
    world.run(producer, topic, group, body="first", **options)
    running.wait_received(["first-sync-0"])
    events = world.run(producer, topic, group, body="later", **options)
    for _ in range(2):  # the vendor's client asks for the queues once, for 3 s at most, which a busy machine may take
        if not any("No route info of this topic" in failure for failure in failures(events)):
            break
        events = world.run(producer, topic, group, body="later", **options)
    assert failures(events) == []
    message = running.wait_received(["first-sync-0", "later-sync-0"])[-1]
    sending: Event = sent(events)[0]
    return int(message["at"]) - int(sending["at"])


def test_start_deliver_time_of_ons_client_is_honoured(world: World) -> None:
    if not world.embedded:
        pytest.skip("Apache RocketMQ ignores __STARTDELIVERTIME")
    late = lateness_ms(world, "OnsProducer", "ApacheConsumer", deliver_after_ms=3000)
    assert 3000 - PRECISION_MS <= late <= 3000 + 4 * PRECISION_MS


def test_a_delay_level_of_rocketmq_client_is_honoured(world: World) -> None:
    late = lateness_ms(world, "ApacheProducer", "OnsConsumer", delay_level=2)
    assert 5000 - PRECISION_MS <= late <= 5000 + 4 * PRECISION_MS


def test_a_deliver_time_of_rocketmq_client_is_honoured(world: World) -> None:
    late = lateness_ms(world, "ApacheProducer", "ApacheConsumer", deliver_after_ms=3000)
    assert 3000 - PRECISION_MS <= late <= 3000 + 4 * PRECISION_MS


def test_a_message_that_rocketmq_client_recalled_never_comes(world: World) -> None:
    topic, group = world.topic("recall", message_type="DELAY"), world.group("recall")
    running = world.start("ApacheConsumer", topic, group).wait_ready()
    events = world.run("ApacheProducer", topic, group, modes="recalled,sync", deliver_after_ms=3000, body="later")
    assert failures(events) == []
    (recalled,) = [event for event in events if event["event"] == "recalled"]
    assert recalled["id"] == sent(events)[0]["id"]
    running.wait_received(["later-sync-0"])  # sent behind it, so due behind it
    assert running.bodies() == ["later-sync-0"]
