"""What became of one message: what its clients say in their traces, on a real broker, as far as it is the viewer's."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from django.urls import reverse

from brokercore.client import Message
from console.messaging import queries, trace
from console.messaging.consumption import TrackType
from console.messaging.queries import Source
from console.messaging.trace import Result, Step
from console.topics.models import Group, Topic
from tests.console.live import Live
from tests.support.broker import eventually
from tests.support.cast import Cast

TRACES = "RMQ_SYS_TRACE_TOPIC"


def told(live: Live, message_id: str, *records: Sequence[object]) -> None:
    """What clients say of a message, as they write it."""
    body = "\x02".join("\x01".join(map(str, record)) for record in records) + "\x02"
    before = len(live.admin.traces.of_message(message_id))
    live.producer.send(Message(TRACES, body.encode(), keys=message_id))
    eventually(lambda: len(live.admin.traces.of_message(message_id)) > before)


def steps_of(live: Live, topic: Topic, message_id: str) -> list[Step]:
    (record,) = queries.find_by_id(Source.of_topic(topic), message_id)
    return trace.steps(live.admin, topic, record, live.actor.tenant)


def sent_and_told(live: Live, **fields: str) -> tuple[Topic, Group, str, int]:
    """A message that was sent, failed once, was consumed, and was begun a third time; its ID, and when it came."""
    topic, group = live.topic(queues=1), live.group()
    sent = live.send(topic, b"traced", **fields)
    (record,) = queries.find_by_id(Source.of_topic(topic), sent.message_id)
    at, name, identity = record.stored_at_ms, group.group_id, sent.message_id
    told(
        live,
        identity,
        ("Pub", at - 20, "eu", "PG_orders", topic.name, identity, "", "k1", "127.0.0.1:1", 6, 20, 0, "offset", "true"),
        ("SubBefore", at + 100, "eu", name, "r1", identity, 0, "k1"),
        ("SubAfter", "r1", identity, 50, "false", "k1", 2, at + 150, name),
        ("SubBefore", at + 10_000, "eu", name, "r2", identity, 1, "k1"),
        ("SubAfter", "r2", identity, 30, "true", "k1", 0, at + 10_030, name),
        ("SubBefore", at + 10_100, "eu", name, "r3", identity, 2, "k1"),
        ("SubBefore", at + 50, "eu", "GID_of_somebody_else", "r9", identity, 0, "k1"),
        ("Pub", at, "eu", "PG_liar", "another-topic", identity, "", "", "", 6, 20, 0, "offset", "true"),
    )
    return topic, group, identity, at


@pytest.fixture
def traced(live: Live) -> tuple[Topic, Group, str, int]:
    return sent_and_told(live, keys="k1")


def test_each_step_is_told_with_how_long_it_took_and_how_it_ended(
    live: Live, traced: tuple[Topic, Group, str, int]
) -> None:
    topic, group, identity, at = traced
    found = steps_of(live, topic, identity)
    assert [(one.what, one.group, one.at_ms - at, one.took_ms, one.result, one.note) for one in found] == [
        ("Sent", "PG_orders", -20, 20, Result.DONE, ""),
        ("Stored", "", 0, None, Result.DONE, "queue 0, offset 0"),
        ("Attempt 1", group.group_id, 100, 50, Result.FAILED, "threw an exception"),
        ("Attempt 2", group.group_id, 10_000, 30, Result.DONE, ""),
        ("Attempt 3", group.group_id, 10_100, None, Result.OPEN, "no end was told"),
    ]
    assert all(one.x >= 0 and one.x + one.width <= trace.WIDTH and one.width > 0 for one in found)
    assert [one.x for one in found] == sorted(one.x for one in found)


def test_without_traces_the_message_itself_says_when_it_was_sent_and_stored(live: Live) -> None:
    topic = live.topic(queues=1)
    found = steps_of(live, topic, live.send(topic).message_id)
    assert [one.what for one in found] == ["Sent", "Stored"]
    assert found[0].note == "as the message says" and found[0].at_ms <= found[1].at_ms


def test_what_clients_claim_is_hostile(live: Live, cast: Cast) -> None:
    topic, group = live.topic(queues=1), live.group()
    identity = live.send(topic).message_id
    told(
        live,
        identity,
        ("SubBefore", "9" * 40, "eu", group.group_id, "r1", identity, "<b>", ""),
        ("SubAfter", "r1", identity, "-5", "perhaps", "", "<script>", "", ""),
        ("Pub", "x", "eu", "<script>alert(1)</script>", topic.name, identity, "", "", "", "", "9" * 400, "", "", ""),
        ("EndTransaction", 1, "eu", "g", topic.name, identity, "", "", "", "", "", "DROP TABLE", "maybe"),
    )
    url = reverse("messaging.trace", args=[topic.instance.instance_id, topic.name, identity])
    answer = cast.client("alice").get(url)
    assert answer.status_code == 200 and "<script>" not in answer.content.decode()
    assert cast.client("charlie").get(url).status_code == 404
    assert cast.client("nora").get(url).status_code == 403


def test_states_of_delivery_are_words(live: Live) -> None:
    assert {one.words for one in TrackType} == {"Consumed", "Filtered out", "Not consumed yet", "Offline", "Not known"}
