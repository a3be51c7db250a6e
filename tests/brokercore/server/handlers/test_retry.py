"""CONSUMER_SEND_MSG_BACK: retry levels, counters, dead letters."""

from __future__ import annotations

from typing import Any

from brokercore.protocol.message import StoredMessage, decode_stored
from tests.brokercore.server.wire import Wire, fresh, properties
from tests.support.broker import BrokerProcess, eventually


def failed(wire: Wire, group: str, topic: str, **fields: Any) -> StoredMessage:
    """Publish a message, hand it back, and return it."""
    wire.publish(topic, b"work", properties(UNIQ_KEY=fresh("ID"), KEYS="order-1", TAGS="t"))
    message: StoredMessage = wire.messages(group, topic)[-1]
    hand_back(wire, group, message, **fields)
    return message


def hand_back(wire: Wire, group: str, message: StoredMessage, **fields: Any) -> None:
    ext = {"group": group, "offset": message.physical_offset, "delayLevel": 0, "maxReconsumeTimes": 16} | fields
    wire.ok(36, ext)


def test_a_failed_message_comes_again_on_the_retry_topic(wire: Wire) -> None:
    topic, group = wire.topic(), wire.group()
    first = failed(wire, group, topic, delayLevel=1)
    (again,) = wire.messages(group, f"%RETRY%{group}")
    assert (again.body, again.reconsume_times, again.tags, again.keys) == (b"work", 1, "t", "order-1")
    assert again.unique_id == first.unique_id
    assert again.properties["RETRY_TOPIC"] == topic
    assert again.properties["ORIGIN_MESSAGE_ID"] == first.offset_message_id
    assert again.born_timestamp == first.born_timestamp
    assert again.store_timestamp >= first.store_timestamp + 1000


def test_the_broker_counts_on_from_retry_to_retry(wire: Wire) -> None:
    topic, group = wire.topic(), wire.group()
    first = failed(wire, group, topic, delayLevel=1)
    (again,) = wire.messages(group, f"%RETRY%{group}")
    hand_back(wire, group, again, delayLevel=1)
    twice = wire.messages(group, f"%RETRY%{group}", 1)[0]
    assert twice.reconsume_times == 2
    assert twice.properties["RETRY_TOPIC"] == topic
    assert twice.properties["ORIGIN_MESSAGE_ID"] == first.offset_message_id


def test_what_is_handed_back_counts_for_the_topic_that_it_is_in_whatever_the_message_says(wire: Wire) -> None:
    topic, group, forged = wire.topic(), wire.group(), fresh("forged")
    wire.publish(topic, b"work", properties(RETRY_TOPIC=forged))
    hand_back(wire, group, wire.messages(group, topic)[-1], delayLevel=1)

    def counted(of: str) -> bool:
        return wire.call(315, {"statsName": "SNDBCK_PUT_NUMS", "statsKey": f"{of}@{group}"}).code == 0

    assert counted(topic)
    assert not counted(forged), "a name that nobody bounds would be kept for ever"


def test_without_a_level_the_first_retry_is_ten_seconds_away(wire: Wire) -> None:
    topic, group = wire.topic(), wire.group()
    before = wire.ok(30, {"topic": "SCHEDULE_TOPIC_XXXX", "queueId": 2}).ext["offset"]
    failed(wire, group, topic)
    assert int(wire.ok(30, {"topic": "SCHEDULE_TOPIC_XXXX", "queueId": 2}).ext["offset"]) == int(before) + 1


def test_after_the_last_retry_it_is_a_dead_letter(wire: Wire) -> None:
    topic, group = wire.topic(), wire.group()
    first = failed(wire, group, topic, maxReconsumeTimes=0)
    (letter,) = wire.messages(group, f"%DLQ%{group}")
    assert (letter.body, letter.unique_id) == (b"work", first.unique_id)
    assert letter.properties["RETRY_TOPIC"] == topic
    assert letter.properties["ORIGIN_MESSAGE_ID"] == first.offset_message_id
    assert "DELAY" not in letter.properties


def test_a_negative_level_makes_a_dead_letter_at_once(wire: Wire) -> None:
    topic, group = wire.topic(), wire.group()
    failed(wire, group, topic, delayLevel=-1)
    assert wire.messages(group, f"%DLQ%{group}")


def test_a_message_that_is_not_there_cannot_be_handed_back(wire: Wire) -> None:
    assert wire.call(36, {"group": wire.group(), "offset": 1 << 50, "delayLevel": 0}).code == 1
    assert wire.call(36, {"group": "GID-none", "offset": 0, "delayLevel": 0}).code == 26


def test_nobody_hands_back_the_message_of_another_tenant(broker: BrokerProcess, wire: Wire) -> None:
    topic = wire.topic(name=fresh("MQ_INST_7_aaaaaaaa%topic"))
    wire.publish(topic, b"secret")
    (message,) = wire.messages(wire.group(), topic)
    group = wire.group(fresh("MQ_INST_8_bbbbbbbb%GID"))
    key = fresh("AK"), "secret"
    everything = [{"Effect": "Allow", "Action": "*", "Resource": "*"}]
    broker.allow(*key, {"boundary": ["acs:mq:*:*:MQ_INST_8_bbbbbbbb%*"], "statements": everything, "grants": []})
    with Wire(broker.address, key) as other:

        def refused() -> bool:
            ext = {"group": group, "offset": message.physical_offset, "delayLevel": 1}
            answer = other.call(36, ext)
            return answer.code == 1 and "look message by offset failed" in (answer.remark or "")

        eventually(refused)
        shown = other.call(33, {"offset": message.physical_offset})
        nothing = other.call(33, {"offset": message.physical_offset + 1000})
        assert (shown.code, topic in str(shown.remark)) == (nothing.code, False), "what it is about is not told either"
    assert decode_stored(wire.ok(33, {"offset": message.physical_offset}).body)[0].body == b"secret"
