"""Request and reply: a reply reaches the connection that waits for it, and nobody else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from brokercore.protocol.codes import RequestCode, ResponseCode
from brokercore.protocol.command import Command
from brokercore.protocol.properties import decode_properties
from tests.brokercore.server.wire import Wire, fresh, properties
from tests.support.broker import BrokerProcess, eventually

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


def send_reply(wire: Wire, correlation: str, client: str = "me@1", topic: str = REPLIES) -> int:
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
    return wire.send(325, ext, b"that.")


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
