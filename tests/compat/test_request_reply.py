"""Request and reply of rocketmq-client, through the broker."""

from __future__ import annotations

from tests.compat.world import World, failures


def test_questions_are_answered(world: World) -> None:
    topic = world.topic("questions")
    responder = world.start("ApacheResponder", topic, world.group("responder")).wait_ready()
    events = world.run("ApacheRequester", topic, world.group("requester"), count=5)
    assert failures(events) == []
    assert failures(responder.events()) == []
    replies = sorted(event["body"] for event in events if event["event"] == "replied")
    assert replies == [f"re: question-{number}" for number in range(5)]
