"""Request and reply of rocketmq-client, through the broker."""

from __future__ import annotations

import pytest

from tests.compat.world import World, failures


def test_questions_are_answered(world: World) -> None:
    if not world.embedded:
        pytest.skip("rocketmq-client puts the topic of replies into its namespace, where Apache RocketMQ has none")
    topic = world.topic("questions")
    responder = world.start("ApacheResponder", topic, world.group("responder")).wait_ready()
    requester = world.start("ApacheRequester", topic, world.group("requester"), count=5)
    responder.wait_until(lambda: len(responder.named("answered") + responder.named("failed")) >= 5, "the answers")
    assert failures(responder.events()) == []
    events = requester.wait_for("done").events()
    assert failures(events) == []
    replies = sorted(event["body"] for event in events if event["event"] == "replied")
    assert replies == [f"re: question-{number}" for number in range(5)]
