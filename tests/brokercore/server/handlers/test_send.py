"""Sends: what is stored, what is answered, what is refused."""

from __future__ import annotations

import json
import zlib
from typing import Any

import pytest

from brokercore.protocol.codes import ResponseCode
from brokercore.protocol.command import Command
from brokercore.protocol.ids import parse_offset_message_id
from brokercore.protocol.message import BatchMessage, decode_stored, encode_batch
from brokercore.server.storage.queue import OFFSET_MASK
from tests.brokercore.server.wire import Wire, fresh, properties
from tests.support.broker import broker_process

NORMAL, FIFO, DELAY, TRANSACTION = "NORMAL", "FIFO", "DELAY", "TRANSACTION"


def test_it_stores_what_was_sent_and_answers_with_the_place(wire: Wire) -> None:
    topic, group = wire.topic(queues=4), wire.group()
    text = properties(UNIQ_KEY=fresh("ID"), KEYS="k1", TAGS="t", colour="blue")
    answer = wire.publish(topic, b"body", text, e="3", h="7", g="1234567890123")
    assert answer.code == 0
    assert answer.ext["queueId"] == "3"
    assert answer.ext["queueOffset"] == "0"
    assert answer.ext["MSG_REGION"] == "DefaultRegion"
    assert answer.ext["TRACE_ON"] == "true"
    (message,) = decode_stored(wire.pull(group, topic, queueId=3).body)
    assert (message.topic, message.body, message.queue_id, message.queue_offset) == (topic, b"body", 3, 0)
    assert (message.flag, message.born_timestamp, message.tags, message.keys) == (7, 1234567890123, "t", "k1")
    assert message.properties["colour"] == "blue"
    assert message.properties["MSG_REGION"] == "DefaultRegion"
    assert message.properties["CLUSTER"] == "DefaultCluster"
    assert message.unique_id == answer.ext["transactionId"]
    assert message.offset_message_id == answer.ext["msgId"]
    assert message.body_crc == zlib.crc32(b"body") & 0x7FFFFFFF
    assert message.born_host[0] == "127.0.0.1"
    assert parse_offset_message_id(answer.ext["msgId"])[2] == message.physical_offset


def test_offsets_are_dense_in_each_queue(wire: Wire) -> None:
    topic = wire.topic(queues=2)
    for offset in range(3):
        for queue in ("0", "1"):
            assert wire.publish(topic, e=queue).ext["queueOffset"] == str(offset)


def test_the_old_long_header_is_understood(wire: Wire) -> None:
    topic = wire.topic()
    ext = {
        "producerGroup": "PG", "topic": topic, "defaultTopic": "TBW102", "defaultTopicQueueNums": "4", "queueId": "0",
        "sysFlag": "0", "bornTimestamp": "1", "flag": "0", "properties": properties(UNIQ_KEY=fresh()),
    }  # fmt: skip
    assert wire.ok(10, ext, b"x").ext["queueOffset"] == "0"


def test_a_missing_unique_id_is_made(wire: Wire) -> None:
    answer = wire.publish(wire.topic(), text=properties(TAGS="t"))
    assert len(answer.ext["transactionId"]) == 32


def test_a_negative_queue_lets_the_broker_choose(wire: Wire) -> None:
    assert wire.publish(wire.topic(queues=4), e="-1").ext["queueId"] in {"0", "1", "2", "3"}


def test_a_one_way_send_is_stored_and_not_answered(wire: Wire) -> None:
    topic, group = wire.topic(), wire.group()
    ext = {"a": "PG", "b": topic, "c": "", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0", "i": ""}
    wire.send(310, ext, b"silent", flag=2)
    wire.publish(topic, b"loud")
    assert [message.body for message in wire.messages(group, topic, count=2)] == [b"silent", b"loud"]


def test_a_batch_keeps_each_messages_own_unique_id(wire: Wire) -> None:
    topic, group = wire.topic(), wire.group()
    ids = [fresh("ID") for _ in range(3)]
    body = encode_batch(BatchMessage(0, b"m%d" % n, properties(UNIQ_KEY=ids[n]).encode()) for n in range(3))
    ext = {
        "a": "PG", "b": topic, "c": "", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0", "m": "true",
        "i": properties(UNIQ_KEY="of-the-batch"),
    }  # fmt: skip
    answer = wire.ok(320, ext, body)
    assert answer.ext["queueOffset"] == "0"
    assert len(answer.ext["msgId"].split(",")) == 3
    found = wire.messages(group, topic, count=3)
    assert [message.unique_id for message in found] == ids
    assert [message.body for message in found] == [b"m0", b"m1", b"m2"]


def batch(topic: str, *bodies: bytes) -> tuple[int, dict[str, str], bytes]:
    """What sends these messages as one batch."""
    ext = {"a": "PG", "b": topic, "c": "", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0", "m": "true"}
    return 320, ext, encode_batch(BatchMessage(0, body, b"") for body in bodies)


def places(answer: Command) -> list[int]:
    """The offsets at which the messages of a batch lie."""
    return [parse_offset_message_id(text)[2] & OFFSET_MASK for text in answer.ext["msgId"].split(",")]


def test_no_other_message_lies_within_a_batch_of_a_thousand(wire: Wire) -> None:
    topic = wire.topic()
    single = {"a": "PG", "b": topic, "c": "", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0"}
    with wire.at_once():
        opaque = wire.send(*batch(topic, *[b"m"] * 1000))
        others = [wire.send(310, single, b"x") for _ in range(1500)]
    answer = wire.receive(opaque)
    first = int(answer.ext["queueOffset"])
    assert places(answer) == list(range(first, first + 1000))
    assert all(wire.receive(other).code == 0 for other in others)


def test_every_message_of_an_enormous_batch_is_stored_and_told(wire: Wire) -> None:
    topic, group = wire.topic(), wire.group()
    answer = wire.ok(*batch(topic, *[b"%d" % number for number in range(5000)]))
    at = places(answer)
    assert at == sorted(set(at))
    assert len(at) == len(answer.ext["transactionId"].split(",")) == 5000
    assert wire.ok(30, {"topic": topic, "queueId": 0}).ext["offset"] == "5000"
    assert wire.messages(group, topic, at[4999])[0].body == b"4999"


@pytest.mark.parametrize(("count", "size"), [(900, 1200), (5000, 700)], ids=["ordinary", "enormous"])
def test_a_batch_without_room_for_all_of_it_is_refused_before_any_is_stored(count: int, size: int) -> None:
    with broker_process(gantry_store_max_bytes=str(1 << 20)) as process, Wire(process.address) as wire:
        topic = wire.topic()
        answer = wire.call(*batch(topic, *[bytes(size)] * count))
        assert (answer.code, "the message store is full" in (answer.remark or "")) == (2, True)
        assert wire.ok(30, {"topic": topic, "queueId": 0}).ext["offset"] == "0"
        assert wire.call(*batch(topic, *[b"m"] * 900)).code == 0, "there is room for a smaller one"


def test_a_batch_whose_last_message_is_wrong_stores_none(wire: Wire) -> None:
    topic = wire.topic()
    code, ext, body = batch(topic, *[b"m"] * 5000)
    assert wire.call(code, ext, body + encode_batch([BatchMessage(0, b"m", b"DELAY\x013")])).code == 13
    assert wire.ok(30, {"topic": topic, "queueId": 0}).ext["offset"] == "0"


@pytest.mark.parametrize(
    ("kind", "text", "accepted"),
    [
        (NORMAL, properties(UNIQ_KEY="a"), True),
        (NORMAL, properties(UNIQ_KEY="a", __SHARDINGKEY="s"), False),
        (NORMAL, properties(UNIQ_KEY="a", DELAY="1"), False),
        (NORMAL, properties(UNIQ_KEY="a", TRAN_MSG="true", PGROUP="PG"), False),
        (FIFO, properties(UNIQ_KEY="a", __SHARDINGKEY="s"), True),
        (FIFO, properties(UNIQ_KEY="a"), True),
        (FIFO, properties(UNIQ_KEY="a", DELAY="1"), False),
        (DELAY, properties(UNIQ_KEY="a", DELAY="1"), True),
        (DELAY, properties(UNIQ_KEY="a"), True),
        (DELAY, properties(UNIQ_KEY="a", __SHARDINGKEY="s"), False),
        (TRANSACTION, properties(UNIQ_KEY="a"), False),
        ("MIXED", properties(UNIQ_KEY="a", __SHARDINGKEY="s"), True),
    ],
)
def test_the_kind_of_message_must_be_the_topics(wire: Wire, kind: str, text: str, accepted: bool) -> None:
    answer = wire.publish(wire.topic(message_type=kind), text=text)
    assert (answer.code == 0) is accepted
    if not accepted:
        assert answer.code == 13
        assert kind in (answer.remark or "")


@pytest.mark.parametrize(
    "text",
    [
        properties(UNIQ_KEY="a", __SHARDINGKEY="s"),
        properties(UNIQ_KEY="a", DELAY="1"),
        properties(UNIQ_KEY="a", TRAN_MSG="true", PGROUP="PG"),
    ],
    ids=["ordered", "delayed", "half"],
)
def test_a_topic_made_without_a_kind_takes_all_of_them(wire: Wire, text: str) -> None:
    topic = wire.topic(message_type="")
    assert "message.type" not in json.loads(wire.ok(351, {"topic": topic}).body)["attributes"]
    assert wire.publish(topic, text=text).code == 0


def test_an_unknown_topic_is_refused_and_not_made(wire: Wire) -> None:
    answer = wire.publish("no-such-topic")
    assert answer.code == 17
    assert wire.call(105, {"topic": "no-such-topic"}).code == 17
    assert wire.call(105, {"topic": "TBW102"}).code == 17


@pytest.mark.parametrize(
    ("body", "text", "remark"),
    [
        (b"", properties(UNIQ_KEY="a"), "no body"),
        (b"x" * ((4 << 20) + 1), properties(UNIQ_KEY="a"), "allowed are 4194304"),
        (b"x", properties(UNIQ_KEY="a", long="v" * 32760), "allowed are 32767"),
    ],
)
def test_limits_are_refused_with_the_allowed_size(wire: Wire, body: bytes, text: str, remark: str) -> None:
    answer = wire.publish(wire.topic(), body, text)
    assert answer.code == 13
    assert remark in (answer.remark or "")


def test_the_largest_body_is_taken(wire: Wire) -> None:
    topic, group = wire.topic(), wire.group()
    assert wire.publish(topic, b"x" * (4 << 20)).code == 0
    assert len(wire.messages(group, topic)[0].body) == 4 << 20


def test_a_queue_that_does_not_exist_is_refused(wire: Wire) -> None:
    assert wire.publish(wire.topic(queues=2), e="2").code == 29


@pytest.mark.parametrize("fields", [{"e": "x"}, {"h": str(1 << 40)}, {"g": "-"}])
def test_a_header_that_makes_no_sense_is_refused(wire: Wire, fields: dict[str, Any]) -> None:
    assert wire.publish(wire.topic(), **fields).code == 1


def test_the_topics_of_the_broker_take_no_messages(wire: Wire) -> None:
    assert wire.publish("SCHEDULE_TOPIC_XXXX").code == 16


def test_a_read_only_topic_takes_no_messages(wire: Wire) -> None:
    name = fresh()
    ext = {"topic": name, "defaultTopic": "", "readQueueNums": 1, "writeQueueNums": 1, "perm": 4, "order": "false"}
    wire.ok(17, ext)
    assert wire.publish(name).code == 16


def test_a_clients_own_retry_beyond_the_limit_is_a_dead_letter(wire: Wire) -> None:
    group = wire.group()
    assert wire.publish(f"%RETRY%{group}", j="3", l="3").code == 0
    assert wire.publish(f"%RETRY%{group}", b"dead", j="4", l="3").code == 0
    (letter,) = wire.messages(group, f"%DLQ%{group}")
    assert letter.body == b"dead"


def test_a_message_with_a_crowd_of_keys_is_found_by_the_first_of_them(wire: Wire) -> None:
    topic = wire.topic()
    keys = " ".join(f"key-{number}" for number in range(1000))
    assert wire.publish(topic, text=properties(KEYS=keys)).code == 0
    query = {"topic": topic, "maxNum": 5, "beginTimestamp": 0, "endTimestamp": 1 << 60}
    assert wire.call(12, query | {"key": "key-63"}).code == 0
    assert wire.call(12, query | {"key": "key-64"}).code == ResponseCode.QUERY_NOT_FOUND
