"""Transactions: half messages, commit, rollback, checks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from brokercore.protocol.command import Command
from brokercore.protocol.ids import parse_offset_message_id
from brokercore.protocol.message import decode_stored
from tests.brokercore.server.wire import Wire, fresh, properties
from tests.support.broker import BrokerProcess, eventually

COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
ANYTHING = {"Effect": "Allow", "Action": "*", "Resource": "*"}


def prepare(wire: Wire, topic: str, producer: str, **more: str) -> Command:
    text = properties(UNIQ_KEY=fresh("ID"), TRAN_MSG="true", PGROUP=producer, KEYS="deal", **more)
    answer = wire.publish(topic, b"half", text, f="4", e="1", a=producer)
    assert answer.code == 0
    return answer


def end(wire: Wire, sent: Command, producer: str, decision: int, **fields: Any) -> Command:
    ext = {
        "producerGroup": producer, "tranStateTableOffset": sent.ext["queueOffset"], "commitOrRollback": decision,
        "commitLogOffset": parse_offset_message_id(sent.ext["msgId"])[2], "fromTransactionCheck": "false",
        "msgId": sent.ext["transactionId"], "transactionId": sent.ext["transactionId"],
    } | fields  # fmt: skip
    return wire.call(37, ext)


@pytest.fixture
def topic(wire: Wire) -> str:
    return wire.topic(queues=2, message_type="TRANSACTION")


def test_a_half_message_is_seen_after_its_commit_only(wire: Wire, topic: str) -> None:
    group = wire.group()
    sent = prepare(wire, topic, "PG-1")
    assert wire.pull(group, topic, queueId=1).code == 19
    assert end(wire, sent, "PG-1", COMMIT).code == 0
    (message,) = decode_stored(wire.pull(group, topic, queueId=1).body)
    assert (message.body, message.unique_id, message.queue_id) == (b"half", sent.ext["transactionId"], 1)
    assert message.sys_flag & 0xC == COMMIT
    assert message.prepared_transaction_offset == parse_offset_message_id(sent.ext["msgId"])[2]
    ext = {"topic": topic, "key": "deal", "maxNum": 32, "beginTimestamp": 0, "endTimestamp": 1 << 62}
    assert decode_stored(wire.ok(12, ext).body)[0].unique_id == message.unique_id


def test_a_second_commit_delivers_nothing_more(wire: Wire, topic: str) -> None:
    sent = prepare(wire, topic, "PG-2")
    end(wire, sent, "PG-2", COMMIT)
    end(wire, sent, "PG-2", COMMIT)
    assert wire.ok(30, {"topic": topic, "queueId": 1}).ext["offset"] == "1"
    wire.publish(topic, b"more", properties(TRAN_MSG="true", PGROUP="PG-2"), f="4")


def test_a_rollback_ends_it(wire: Wire, topic: str) -> None:
    sent = prepare(wire, topic, "PG-3")
    assert end(wire, sent, "PG-3", ROLLBACK).code == 0
    assert end(wire, sent, "PG-3", COMMIT).code == 1
    assert wire.ok(30, {"topic": topic, "queueId": 1}).ext["offset"] == "0"


@pytest.mark.parametrize(
    "fields", [{"producerGroup": "PG-other"}, {"tranStateTableOffset": 99999}, {"commitLogOffset": 12345}]
)
def test_another_producer_or_place_ends_nothing(wire: Wire, topic: str, fields: dict[str, Any]) -> None:
    sent = prepare(wire, topic, "PG-4")
    assert end(wire, sent, "PG-4", COMMIT, **fields).code == 1
    assert wire.ok(30, {"topic": topic, "queueId": 1}).ext["offset"] == "0"


def test_the_producer_is_asked_and_its_answer_counts(wire: Wire, topic: str) -> None:
    producer = fresh("PG")
    wire.heartbeat("client-1", producer=producer)
    sent = prepare(wire, topic, producer, CHECK_IMMUNITY_TIME_IN_SECONDS="1")
    end(wire, sent, producer, UNKNOWN)
    question = wire.next_push(39)
    assert question.is_oneway
    assert question.ext["transactionId"] == sent.ext["transactionId"]
    assert question.ext["commitLogOffset"] == str(parse_offset_message_id(sent.ext["msgId"])[2])
    (shown,) = decode_stored(question.body)
    assert (shown.topic, shown.queue_id, shown.properties["PGROUP"]) == (topic, 1, producer)
    assert wire.next_push(39).ext["transactionId"] == sent.ext["transactionId"], "it is asked again"
    end(wire, sent, producer, COMMIT, fromTransactionCheck="true")
    assert eventually(lambda: wire.ok(30, {"topic": topic, "queueId": 1}).ext["offset"] == "1")


def test_a_stranger_in_the_producer_group_is_not_shown_the_message(
    broker: BrokerProcess, wire: Wire, topic: str
) -> None:
    key = fresh("AK"), "secret"
    broker.allow(*key, {"boundary": [f"acs:mq:*:*:{topic}-of-others"], "statements": [ANYTHING], "grants": []})
    with Wire(broker.address, key) as stranger:
        eventually(lambda: stranger.call(106).code == 0)
        wire.heartbeat("maker", producer="PG-asked")
        stranger.heartbeat("stranger", producer="PG-asked")
        sent = prepare(wire, topic, "PG-asked")
        assert wire.next_push(39).ext["msgId"] == sent.ext["transactionId"]
        stranger.call(106)
        assert stranger.pushed == []


def test_a_producer_whose_key_was_revoked_is_not_shown_the_message_any_more(
    broker: BrokerProcess, wire: Wire, topic: str
) -> None:
    key, producer = (fresh("AK"), "secret"), fresh("PG")
    broker.allow(*key, {"boundary": ["*"], "statements": [ANYTHING], "grants": []})
    with Wire(broker.address, key) as revoked:
        eventually(lambda: revoked.call(106).code == 0)
        wire.heartbeat("maker", producer=producer)
        revoked.heartbeat("revoked", producer=producer)  # the latest of a group is asked
        prepare(wire, topic, producer, CHECK_IMMUNITY_TIME_IN_SECONDS="1")
        assert revoked.next_push(39)
        broker.disable(key[0])
        eventually(lambda: revoked.call(106).code != 0)
        sent = prepare(wire, topic, producer, CHECK_IMMUNITY_TIME_IN_SECONDS="1")
        while wire.next_push(39).ext["transactionId"] != sent.ext["transactionId"]:
            pass
        revoked.call(106)
        assert sent.ext["transactionId"] not in {question.ext["transactionId"] for question in revoked.pushed}


def test_after_fifteen_checks_it_is_given_up(wire: Wire, topic: str) -> None:
    producer, group = fresh("PG"), wire.group()
    wire.heartbeat("client-2", producer=producer)
    sent = prepare(wire, topic, producer, CHECK_IMMUNITY_TIME_IN_SECONDS="1")
    for _ in range(15):
        wire.next_push(39)

    def given_up() -> bool:
        answer = wire.pull(group, "TRANS_CHECK_MAX_TIME_TOPIC")
        found = decode_stored(answer.body) if answer.code == 0 else []
        return any(message.unique_id == sent.ext["transactionId"] for message in found)

    eventually(given_up, 30)
    assert wire.ok(30, {"topic": topic, "queueId": 1}).ext["offset"] == "0"


def test_a_half_message_names_its_producer_group(wire: Wire, topic: str) -> None:
    assert wire.publish(topic, text=properties(TRAN_MSG="true"), f="4").code == 13


def test_a_committed_message_can_still_be_delayed(wire: Wire, topic: str) -> None:
    group = wire.group()
    sent = prepare(wire, topic, "PG-5", TIMER_DELAY_MS="700")
    assert end(wire, sent, "PG-5", COMMIT).code == 0
    assert wire.pull(group, topic, queueId=1).code == 19
    assert eventually(lambda: wire.pull(group, topic, queueId=1).code == 0)


@contextmanager
def member_of_an_account(broker: BrokerProcess) -> Iterator[tuple[Wire, str]]:
    """A connection with a key of an account of its own, and a topic for transactions in its instance."""
    uid, key = str(int.from_bytes(fresh().encode()[-5:])), (fresh("AK"), "secret")
    row = {"tenant": uid, "boundary": [f"acs:mq:*:*:MQ_INST_{uid}_*"], "statements": [ANYTHING], "grants": []}
    broker.allow(*key, row)
    with Wire(broker.address, key) as wire:
        eventually(lambda: wire.call(106).code == 0)
        yield wire, wire.topic(queues=2, name=f"MQ_INST_{uid}_turnsaaa%halves", message_type="TRANSACTION")


def test_an_account_with_many_half_messages_delays_nobody_elses_checks(broker: BrokerProcess) -> None:
    with member_of_an_account(broker) as (many, crowded), member_of_an_account(broker) as (one, topic):
        producer = fresh("PG")
        one.heartbeat("client-alone", producer=producer)
        text = properties(TRAN_MSG="true", PGROUP="PG-crowd", CHECK_IMMUNITY_TIME_IN_SECONDS="1")
        for _ in range(8):
            with many.at_once():
                sent = [many.start_publish(crowded, b"half", text, f="4") for _ in range(500)]
            assert {many.receive(opaque).code for opaque in sent} == {0}
        half = prepare(one, topic, producer, CHECK_IMMUNITY_TIME_IN_SECONDS="1")
        began = time.monotonic()
        assert one.next_push(39, 40).ext["transactionId"] == half.ext["transactionId"]
        assert time.monotonic() - began < 6
