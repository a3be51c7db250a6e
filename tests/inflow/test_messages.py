"""Messages of topics and queues as events: what the vendor's sample paths find, and bodies of every format."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import pytest

from analytics.inflow.delivery import FAULT, PARTITION_KEY
from analytics.inflow.messages import QueueEvents, TopicEvents
from analytics.inflow.paths import Path
from brokercore.client import StoredMessage
from brokercore.smq.client import Delivered

PROPERTIES = {"KEYS": "k1 k2", "TAGS": "paid", "UNIQ_KEY": "AC14C305", "a": "1", "TRACE_ON": "true"}


def message(body: bytes = b"TEST", **more: Any) -> StoredMessage:
    made = StoredMessage("MQ_INST_1%orders", body, dict(PROPERTIES), queue_id=2, queue_offset=41)
    made.born_timestamp, made.store_timestamp = 1_768_465_800_120, 1_768_465_800_125
    return made.copy(**more)


def delivered(body: bytes) -> Delivered:
    return Delivered("C6DB60D1", body, 8, 3, 1_768_465_800_120, 1_768_465_801_000)


def of_topic(body: bytes = b"TEST", written: str = "text", **more: Any) -> dict[str, Any]:
    return TopicEvents("orders", "MQ_INST_1", written).event(message(body, **more), "broker-a")


def test_the_paths_of_the_vendors_samples_find_what_they_are_to_find() -> None:
    event = of_topic()
    found = {path: Path.compile(path).find(event) for path in (
        "$.data.body", "$.data.topic", "$.data.systemProperties.KEYS", "$.data.systemProperties.TAGS",
        "$.data.systemProperties.UNIQ_KEY", "$.data.systemProperties.INSTANCE_ID", "$.data.userProperties",
        "$.data.queueId", "$.data.queueOffset", "$.data.bornTime", "$.type", "$.subject", "$.time", "$.id",
    )}  # fmt: skip
    assert list(found.values()) == [
        "TEST", "orders", "k1 k2", "paid", "AC14C305", "MQ_INST_1", {"a": "1"}, 2, 41, 1_768_465_800_120,
        "mq:Topic:SendMessage", "acs:mq:*:*:MQ_INST_1%orders", "2026-01-15T08:30:00.120Z", "AC14C305",
    ]  # fmt: skip
    assert event["specversion"] == "1.0" and FAULT not in event


def test_the_id_of_an_event_is_its_messages_and_its_order_is_that_of_key_or_queue() -> None:
    assert of_topic() == of_topic()
    bare = of_topic(properties={}, store_host=("10.0.0.1", 10911), physical_offset=4711)
    assert bare["id"] == message(store_host=("10.0.0.1", 10911), physical_offset=4711).offset_message_id
    assert (bare[PARTITION_KEY], bare["data"]["userProperties"]) == ("broker-a:2", {})
    keyed = of_topic(properties={"__SHARDINGKEY": "o-7"})
    assert keyed[PARTITION_KEY] == "o-7"
    assert keyed["data"]["systemProperties"]["__SHARDINGKEY"] == "o-7"


@pytest.mark.parametrize(
    ("written", "body", "found"),
    [
        ("text", "größer ✓ 🛒".encode(), "größer ✓ 🛒"),
        ("text", b"", ""),
        ("json", b'{"n": 12345678901234567890123, "l": [1, null]}', {"n": 12345678901234567890123, "l": [1, None]}),
        ("json", b" 7 ", 7),
        ("binary", b"\x00\xff", "AP8="),
    ],
)  # fmt: skip
def test_bodies_are_what_their_format_says(written: str, body: bytes, found: Any) -> None:
    event = of_topic(body, written)
    assert event["data"]["body"] == found and FAULT not in event
    event = QueueEvents("orders", written).event(delivered(body))
    assert event["data"]["body"] == event["data"]["messageBody"] == found and FAULT not in event


@pytest.mark.parametrize(
    ("written", "body", "kept", "sentence"),
    [
        ("text", b"\xff", "/w==", "The body of the message is no text in UTF-8: "),
        ("json", b"{", "{", "The body of the message is no JSON: "),
        ("json", b"NaN", "NaN", "The body of the message is no JSON: JSON has no NaN"),
        ("json", b"\xff", "/w==", "The body of the message is no JSON: "),
        ("json", b"", "", "The body of the message is no JSON: "),
        ("json", b"[" * 100_000, "[" * 100_000, "The body of the message is no JSON: "),
        ("json", b"9" * 5000, "9" * 5000, "The body of the message is no JSON: "),
    ],
)
def test_a_body_that_is_not_of_the_format_is_a_fault_of_its_event(
    written: str, body: bytes, kept: str, sentence: str
) -> None:
    event = of_topic(body, written)
    assert event["data"]["body"] == kept
    assert event[FAULT].startswith(sentence)
    assert QueueEvents("orders", written).event(delivered(body))[FAULT] == event[FAULT]


def test_packed_bodies_are_unpacked_and_what_unpacks_to_too_much_is_a_fault() -> None:
    compressed = 1
    assert of_topic(zlib.compress(b"TEST"), sys_flag=compressed)["data"]["body"] == "TEST"
    bomb = zlib.compress(bytes(64 << 20))
    event = of_topic(bomb, sys_flag=compressed)
    assert event[FAULT].startswith("The body of the message cannot be unpacked: ")
    assert base64.b64decode(event["data"]["body"]) == bomb


def test_a_message_of_a_queue_has_what_the_queue_knows_of_it() -> None:
    event = QueueEvents("orders").event(delivered(b"TEST"))
    assert event["data"] == {
        "queue": "orders", "messageId": "C6DB60D1", "enqueueTime": 1_768_465_800_120,
        "firstDequeueTime": 1_768_465_801_000, "dequeueCount": 3, "priority": 8, "body": "TEST", "messageBody": "TEST",
    }  # fmt: skip
    assert (event["id"], event["type"]) == ("C6DB60D1", "mns:Queue:SendMessage")
    assert PARTITION_KEY not in event


def test_bodies_that_clients_send_in_base64_are_unwrapped_where_the_task_says_so() -> None:
    unwrapping = QueueEvents("orders", "json", unwraps=True)
    event = unwrapping.event(delivered(base64.b64encode(b'{"n": 1}')))
    assert event["data"]["messageBody"] == {"n": 1}
    assert unwrapping.event(delivered(b"{}"))[FAULT] == "The body of the message is no Base64."
    assert json.loads(json.dumps(event)) == event


def test_a_time_that_no_clock_knows_is_no_reason_to_fail() -> None:
    assert of_topic(born_timestamp=1 << 62)["time"] == "1970-01-01T00:00:00.000Z"
