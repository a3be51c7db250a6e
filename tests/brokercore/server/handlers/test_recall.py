"""RECALL_MESSAGE: a scheduled message is taken back with the handle its send was answered with."""

from __future__ import annotations

import base64
import time

import pytest

from brokercore.protocol.codes import RequestCode as Code
from brokercore.protocol.codes import ResponseCode
from brokercore.protocol.command import Command
from brokercore.protocol.recall import RecallHandle
from tests.brokercore.server.wire import Wire, fresh, properties
from tests.support.broker import BrokerProcess, broker_process
from tests.support.redis_server import redis_server


def schedule(wire: Wire, topic: str, milliseconds: int, unique_id: str = "", **more: str) -> Command:
    given = {"TIMER_DELAY_MS": str(milliseconds), "UNIQ_KEY": unique_id or fresh("ID")} | more
    return wire.publish(topic, b"later", properties(**given))


def recall(wire: Wire, topic: str, handle: str) -> Command:
    return wire.call(Code.RECALL_MESSAGE, {"producerGroup": "PG", "topic": topic, "recallHandle": handle})


def test_a_recalled_message_never_comes_and_the_one_beside_it_does(wire: Wire) -> None:
    topic, group, at = wire.topic(message_type="DELAY"), wire.group(), str(int(time.time() * 1000) + 4000)
    handles = {
        name: wire.publish(topic, name.encode(), properties(TIMER_DELIVER_MS=at, UNIQ_KEY=fresh(name))).ext
        for name in ("gone", "kept")
    }
    answer = recall(wire, topic, handles["gone"]["recallHandle"])
    assert (answer.code, answer.ext["msgId"]) == (0, handles["gone"]["transactionId"])
    (message,) = wire.messages(group, topic)
    assert message.body == b"kept"
    assert wire.ok(Code.GET_MAX_OFFSET, {"topic": topic, "queueId": 0}).ext["offset"] == "1"


def test_a_delay_level_has_a_handle_and_a_message_without_delay_has_none(wire: Wire) -> None:
    topic = wire.topic(message_type="DELAY")
    level = wire.publish(topic, text=properties(DELAY="18", UNIQ_KEY=fresh("ID")))
    assert recall(wire, topic, level.ext["recallHandle"]).code == 0
    assert "recallHandle" not in wire.publish(topic).ext


def test_the_handle_has_the_form_that_clients_and_proxies_take_apart(wire: Wire) -> None:
    topic, unique_id = wire.topic(message_type="DELAY"), fresh("ID")
    before = int(time.time() * 1000)
    text = schedule(wire, topic, 60_000, unique_id).ext["recallHandle"]
    words = base64.urlsafe_b64decode(text).decode().split(" ")
    assert (words[0], words[1], words[2], words[4]) == ("v1", topic, "broker-a", unique_id)
    assert before + 60_000 <= int(words[3]) <= int(time.time() * 1000) + 60_000


def test_a_message_is_recalled_once(wire: Wire) -> None:
    topic = wire.topic(message_type="DELAY")
    handle = schedule(wire, topic, 60_000).ext["recallHandle"]
    assert recall(wire, topic, handle).code == 0
    again = recall(wire, topic, handle)
    assert again.code == ResponseCode.ILLEGAL_OPERATION
    assert "it was delivered or recalled" in (again.remark or "")


def test_a_message_that_came_cannot_be_recalled(wire: Wire) -> None:
    topic, group = wire.topic(message_type="DELAY"), wire.group()
    handle = schedule(wire, topic, 200).ext["recallHandle"]
    wire.messages(group, topic)
    assert recall(wire, topic, handle).code == ResponseCode.ILLEGAL_OPERATION


@pytest.mark.parametrize(
    ("handle", "says"),
    [
        ("no base64!", "is not one of a broker"),
        ("bm9uZQ==", "is not one of a broker"),
        (str(RecallHandle("other", "broker-a", 1 << 50, "ID")), "is of topic other"),
    ],
)
def test_a_handle_of_something_else_is_refused(wire: Wire, handle: str, says: str) -> None:
    topic = wire.topic(message_type="DELAY")
    answer = recall(wire, topic, handle)
    assert answer.code == ResponseCode.ILLEGAL_OPERATION
    assert says in (answer.remark or "")
    of_another = recall(wire, topic, str(RecallHandle(topic, "broker-z", 1 << 50, "ID")))
    assert "is of broker broker-z" in (of_another.remark or "")


def test_a_handle_written_for_ones_own_topic_takes_no_message_of_another_back(wire: Wire) -> None:
    mine, theirs = wire.topic(message_type="DELAY"), wire.topic(message_type="DELAY")
    at, unique_id = int(time.time() * 1000) + 60_000, fresh("ID")
    handle = wire.publish(theirs, text=properties(TIMER_DELIVER_MS=str(at), UNIQ_KEY=unique_id)).ext["recallHandle"]
    assert recall(wire, mine, str(RecallHandle(mine, "broker-a", at, unique_id))).code == ResponseCode.ILLEGAL_OPERATION
    assert recall(wire, theirs, handle).code == 0, "it still waited"


def test_a_restart_keeps_what_waits_and_what_was_recalled() -> None:
    with redis_server() as redis, broker_process(redis) as broker:
        with Wire(broker.address) as wire:
            topic, group = wire.topic(message_type="DELAY"), wire.group()
            before = schedule(wire, topic, 5000).ext["recallHandle"]
            wire.publish(topic, b"kept", properties(TIMER_DELAY_MS="5000", UNIQ_KEY=fresh("ID")))
            after = schedule(wire, topic, 60_000).ext["recallHandle"]  # however long the broker takes to start
            assert recall(wire, topic, before).code == 0
        _restart(broker)
        with Wire(broker.address) as wire:
            assert recall(wire, topic, after).code == 0
            assert recall(wire, topic, after).code == ResponseCode.ILLEGAL_OPERATION, "it waits no more"
            (message,) = wire.messages(group, topic)
            assert message.body == b"kept"
            assert wire.ok(Code.GET_MAX_OFFSET, {"topic": topic, "queueId": 0}).ext["offset"] == "1"


def _restart(broker: BrokerProcess) -> None:
    broker.kill()
    broker.start()
