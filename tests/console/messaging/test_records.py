"""Stored messages as records."""

from __future__ import annotations

import zlib
from typing import cast

import pytest

from brokercore.client import Admin, MessageQueue, StoredMessage
from console.instances.models import Instance
from console.messaging.records import LARGEST_BODY, MOST_UNPACKED, Position, Recorder, belongs_to
from console.topics.names import shown_name


@pytest.mark.parametrize(
    ("topic", "real_topic", "mine"),
    [
        ("inst%flights", "", True),
        ("inst%other", "", False),
        ("inst%other", "inst%flights", False),
        ("rmq_sys_wheel_timer", "inst%flights", True),
        ("SCHEDULE_TOPIC_XXXX", "inst%other", False),
        ("RMQ_SYS_TRANS_HALF_TOPIC", "inst%flights", False),
    ],
)
def test_a_message_belongs_to_the_topic_it_lies_in_or_waits_for(topic: str, real_topic: str, mine: bool) -> None:
    message = StoredMessage(topic, properties={"REAL_TOPIC": real_topic} if real_topic else {})
    assert belongs_to(message, "inst%flights") is mine


def test_a_position_survives_its_text() -> None:
    place = Position("broker-a", 3, 17)
    assert str(place) == "broker-a:3:17"
    assert Position.parse(str(place)) == place


@pytest.mark.parametrize("text", ["", "broker-a", "broker-a:3", ":3:17", "b:x:1", "b:1:-1", "b" * 300 + ":1:1"])
def test_what_is_no_position_is_none(text: str) -> None:
    assert Position.parse(text) is None


def test_names_are_shown_without_the_namespace() -> None:
    instance = Instance(instance_id="MQ_INST_1_abc")
    assert shown_name(instance, "MQ_INST_1_abc%flights") == "flights"
    assert shown_name(instance, "%DLQ%MQ_INST_1_abc%GID_a") == "%DLQ%GID_a"
    assert shown_name(instance, "MQ_INST_2_xyz%flights") == "MQ_INST_2_xyz%flights"
    assert shown_name(instance, "bare") == "bare"


def test_a_page_of_compression_bombs_is_shown_as_stored_beyond_a_bound() -> None:
    instance = Instance(instance_id="MQ_INST_1_abc")
    queue = MessageQueue("MQ_INST_1_abc%flights", "broker-a", 0)
    bomb = StoredMessage(queue.topic, zlib.compress(bytes(LARGEST_BODY)), sys_flag=0x301)
    huge = StoredMessage(queue.topic, zlib.compress(bytes(LARGEST_BODY + 1)), sys_flag=0x301)
    recorder = Recorder(cast(Admin, None), instance)
    assert recorder.record(huge, queue).body == huge.body
    records = [recorder.record(bomb, queue) for _ in range(20)]
    assert sum(len(record.body) for record in records) <= MOST_UNPACKED + 20 * len(bomb.body)
    assert records[0].body == bytes(LARGEST_BODY)
    assert "It is shown as stored." in records[-1].body_problem
