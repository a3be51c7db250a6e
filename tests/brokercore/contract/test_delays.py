"""Delay levels and delivery times."""

from __future__ import annotations

import time

import pytest

from brokercore.client import Message
from brokercore.client.errors import InvalidMessage
from tests.brokercore.contract.cluster import Cluster
from tests.brokercore.contract.slow import DELAYS_S, SLOW_SECONDS, SlowRuns
from tests.support.broker import eventually

#: The timers of Apache RocketMQ are exact to a second, and both ends run on one clock; a busy machine may add some.
EARLY_MS, LATE_MS = 1000, 6000


@pytest.mark.parametrize("body", sorted(DELAYS_S))
def test_a_message_comes_at_its_time(slow: SlowRuns, body: str) -> None:
    run = slow.delays
    eventually(lambda: run.received.of(body), SLOW_SECONDS)
    (message,) = run.received.of(body)
    (came_ms,) = run.received.times_of(body)
    late_ms = came_ms - run.sent_ms[body] - DELAYS_S[body] * 1000
    assert -EARLY_MS <= late_ms <= LATE_MS
    assert message.topic.startswith("delay-")


def test_a_recalled_message_never_comes(cluster: Cluster) -> None:
    topic, group = cluster.topic("recall", message_type="DELAY"), cluster.group("recall")
    with cluster.consuming(topic, group) as received, cluster.producer() as producer:
        due_ms = int(time.time() * 1000) + 4000
        recalled = producer.send(Message(topic, b"recalled", deliver_at_ms=due_ms))
        producer.recall(recalled)
        producer.send(Message(topic, b"kept", deliver_at_ms=due_ms + 1000))
        received.wait_for("kept", seconds=SLOW_SECONDS)
        with pytest.raises(InvalidMessage, match="cannot be recalled"):
            producer.recall(producer.send(Message(topic, b"at once")))
    assert "recalled" not in received.bodies
