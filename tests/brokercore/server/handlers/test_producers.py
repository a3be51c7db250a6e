"""Scheduled messages are taken back with the handle of their send; a reply reaches the connection that waits for it."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator

import pytest

from brokercore.protocol.codes import RequestCode, ResponseCode
from brokercore.protocol.command import Command
from brokercore.protocol.ids import RecallHandle
from brokercore.protocol.properties import decode_properties
from tests.brokercore.server.wire import Wire, fresh, properties
from tests.support.broker import BrokerProcess, broker_process, eventually
from tests.support.redis_server import redis_server


def schedule(wire: Wire, topic: str, milliseconds: int, unique_id: str = "", **more: str) -> Command:
    given = {"TIMER_DELAY_MS": str(milliseconds), "UNIQ_KEY": unique_id or fresh("ID")} | more
    return wire.publish(topic, b"later", properties(**given))


def recall(wire: Wire, topic: str, handle: str) -> Command:
    return wire.call(RequestCode.RECALL_MESSAGE, {"producerGroup": "PG", "topic": topic, "recallHandle": handle})


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
    assert wire.ok(RequestCode.GET_MAX_OFFSET, {"topic": topic, "queueId": 0}).ext["offset"] == "1"


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
            assert wire.ok(RequestCode.GET_MAX_OFFSET, {"topic": topic, "queueId": 0}).ext["offset"] == "1"


def _restart(broker: BrokerProcess) -> None:
    broker.kill()
    broker.start()


REPLIES = "DefaultCluster_REPLY_TOPIC"


@pytest.fixture
def asked(broker: BrokerProcess, wire: Wire) -> Iterator[tuple[Wire, str, str]]:
    """A requester that waits: its connection, the correlation id, the topic."""
    topic, correlation = fresh("MQ_INST_7_replyabc%ask"), fresh("C")
    wire.topic(name=topic)
    with Wire(broker.address) as requester:
        text = properties(CORRELATION_ID=correlation, REPLY_TO_CLIENT="me@1", TTL="20000")
        assert requester.publish(topic, b"what?", text).code == 0
        yield requester, correlation, topic


def send_reply(wire: Wire, correlation: str, client: str = "me@1", topic: str = REPLIES, body: bytes = b"that.") -> int:
    """Send a reply and return the opaque of its answer."""
    text = properties(CORRELATION_ID=correlation, REPLY_TO_CLIENT=client, MSG_TYPE="reply")
    ext = {
        "a": "PG",
        "b": topic,
        "c": "TBW102",
        "d": 4,
        "e": 0,
        "f": 0,
        "g": 1,
        "h": 0,
        "i": text,
        "j": 0,
        "k": "false",
    }
    return wire.send(325, ext, body)


def refused(wire: Wire, opaque: int) -> Command:
    answer = wire.receive(opaque)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "is waiting for a reply" in (answer.remark or "")
    return answer


def test_a_reply_reaches_the_requester(wire: Wire, asked: tuple[Wire, str, str]) -> None:
    requester, correlation, _ = asked
    opaque = send_reply(wire, correlation, topic=f"MQ_INST_7_replyabc%{REPLIES}")
    pushed = requester.next_push(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT)
    assert pushed.body == b"that."
    given = decode_properties(pushed.ext["properties"])
    assert (given["CORRELATION_ID"], given["MSG_TYPE"]) == (correlation, "reply")
    assert int(given["PUSH_REPLY_TIME"]) > 0
    assert {"bornHost", "storeHost", "storeTimestamp", "producerGroup", "sysFlag"} <= pushed.ext.keys()
    requester.answer(pushed)
    answer = wire.receive(opaque)
    assert (answer.code, answer.ext["msgId"]) == (0, "0")
    refused(wire, send_reply(wire, correlation))


def test_a_reply_may_be_empty(wire: Wire, asked: tuple[Wire, str, str]) -> None:
    requester, correlation, _ = asked
    opaque = send_reply(wire, correlation, body=b"")
    pushed = requester.next_push(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT)
    assert pushed.body == b""
    requester.answer(pushed)
    assert wire.receive(opaque).code == 0


def test_a_requester_can_refuse(wire: Wire, asked: tuple[Wire, str, str]) -> None:
    requester, correlation, _ = asked
    opaque = send_reply(wire, correlation)
    requester.answer(requester.next_push(326), code=1)
    assert wire.receive(opaque).code == ResponseCode.SYSTEM_ERROR


def test_nobody_is_pushed_what_nobody_waits_for(wire: Wire, asked: tuple[Wire, str, str]) -> None:
    _, correlation, _ = asked
    refused(wire, send_reply(wire, "another"))
    refused(wire, send_reply(wire, correlation, client="somebody@2"))
    assert wire.receive(send_reply(wire, correlation, topic="orders")).code == ResponseCode.TOPIC_NOT_EXIST


def test_a_requester_that_has_gone_gets_nothing(wire: Wire, asked: tuple[Wire, str, str]) -> None:
    requester, correlation, _ = asked
    requester.socket.close()
    assert eventually(lambda: refused(wire, send_reply(wire, correlation)))


def test_only_who_may_read_the_request_may_answer_it(
    broker: BrokerProcess, wire: Wire, asked: tuple[Wire, str, str]
) -> None:
    requester, correlation, topic = asked
    keys = {}
    for name, actions in (("reader", ["mq:SUB"]), ("stranger", ["mq:PUB"])):
        keys[name] = fresh("AK"), "secret"
        statements = [{"Effect": "Allow", "Action": actions, "Resource": f"acs:mq:*:*:{topic}"}]
        broker.allow(*keys[name], {"boundary": ["*"], "statements": statements})
    with Wire(broker.address, keys["stranger"]) as stranger, Wire(broker.address, keys["reader"]) as reader:
        for caller in (stranger, reader):
            eventually(lambda known=caller: known.call(RequestCode.GET_BROKER_CLUSTER_INFO).code == 0)
        refused = stranger.receive(send_reply(stranger, correlation))
        assert (refused.code, "is waiting for a reply" in str(refused.remark)) == (ResponseCode.SYSTEM_ERROR, True)
        opaque = send_reply(reader, correlation)
        requester.answer(requester.next_push(326))
        assert reader.receive(opaque).code == 0


def test_the_reply_topic_has_a_route_and_takes_no_messages(wire: Wire) -> None:
    for name in (REPLIES, f"MQ_INST_7_replyabc%{REPLIES}"):
        assert wire.ok(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": name}).body
        assert wire.publish(name).code == ResponseCode.TOPIC_NOT_EXIST
