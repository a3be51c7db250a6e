"""Membership: who is in a group, who is told, who is not let in; queue locks; relayed questions."""

from __future__ import annotations

import json

import pytest

from brokercore.protocol.fastjson import loads
from tests.brokercore.server.wire import Wire, fresh, properties
from tests.support.broker import BrokerProcess, eventually


def members(wire: Wire, group: str) -> list[str]:
    answer = wire.call(38, {"consumerGroup": group})
    return sorted(json.loads(answer.body)["consumerIdList"]) if answer.code == 0 else []


def test_members_come_and_go_and_the_others_are_told(broker: BrokerProcess, wire: Wire) -> None:
    topic, group = wire.topic(), wire.group()
    assert wire.call(38, {"consumerGroup": group}).code == 1
    answer = wire.heartbeat("c1", group, topic)
    assert answer.version == 479
    assert answer.ext["IS_SUB_CHANGE"] == "true"
    wire.next_push(40)
    with Wire(broker.address) as second:
        second.heartbeat("c2", group, topic)
        assert wire.next_push(40).ext == {"consumerGroup": group}
        assert members(wire, group) == ["c1", "c2"]
    wire.next_push(40)
    assert members(wire, group) == ["c1"]
    wire.ok(35, {"clientID": "c1", "consumerGroup": group})
    assert members(wire, group) == []


def test_an_unchanged_heartbeat_disturbs_nobody(wire: Wire) -> None:
    topic, group = wire.topic(), wire.group()
    wire.heartbeat("c1", group, topic)
    assert wire.heartbeat("c1", group, topic).ext["IS_SUB_CHANGE"] == "false"


def test_a_changed_expression_is_a_change(wire: Wire) -> None:
    topic, group = wire.topic(), wire.group()
    wire.heartbeat("c1", group, topic, tags="a")
    assert wire.heartbeat("c1", group, topic, tags="b").ext["IS_SUB_CHANGE"] == "true"


def test_groups_that_do_not_exist_are_left_out(wire: Wire) -> None:
    wire.heartbeat("c1", "GID-none", wire.topic())
    assert members(wire, "GID-none") == []


def test_a_group_without_permission_is_left_out_quietly(broker: BrokerProcess, wire: Wire) -> None:
    mine, others = wire.group(fresh("MQ_INST_7_aaaaaaaa%GID")), wire.group(fresh("MQ_INST_8_bbbbbbbb%GID"))
    topic = wire.topic(name=fresh("MQ_INST_7_aaaaaaaa%t"))
    key = fresh("AK"), "secret"
    everything = [{"Effect": "Allow", "Action": "*", "Resource": "*"}]
    broker.allow(*key, {"boundary": ["acs:mq:*:*:MQ_INST_7_aaaaaaaa%*"], "statements": everything, "grants": []})
    with Wire(broker.address, key) as tenant:
        eventually(lambda: tenant.call(106).code == 0)
        tenant.heartbeat("c1", others, topic)
        tenant.heartbeat("c1", mine, topic)
        assert members(wire, others) == []
        assert members(wire, mine) == ["c1"]


def test_connections_are_shown(wire: Wire) -> None:
    topic, group, producer = wire.topic(), wire.group(), fresh("PG")
    assert wire.call(203, {"consumerGroup": group}).code == 206
    wire.heartbeat("c1", group, topic, tags="a || b", producer=producer)
    shown = json.loads(wire.ok(203, {"consumerGroup": group}).body)
    assert shown["connectionSet"][0]["clientId"] == "c1"
    assert shown["connectionSet"][0]["clientAddr"].startswith("127.0.0.1:")
    assert shown["subscriptionTable"][topic]["subString"] == "a || b"
    assert (shown["messageModel"], shown["consumeType"]) == ("CLUSTERING", "CONSUME_PASSIVELY")
    assert json.loads(wire.ok(204, {"producerGroup": producer}).body)["connectionSet"][0]["clientId"] == "c1"
    assert producer in json.loads(wire.ok(328).body)["data"]


@pytest.mark.parametrize(
    ("kind", "expression", "code"),
    [("TAG", "a || b", 0), ("SQL92", "a > 5 and b = 'x'", 0), ("SQL92", "a >", 23), ("BLOOM", "a", 23)],
)
def test_a_filter_is_checked_before_its_consumer_starts(wire: Wire, kind: str, expression: str, code: int) -> None:
    data = {"topic": "t", "expressionType": kind, "subString": expression}
    body = {"clientId": "c", "group": "g", "subscriptionData": data}
    assert wire.call(46, body=json.dumps(body).encode()).code == code


def lock(wire: Wire, code: int, group: str, client: str, topic: str, *queues: int) -> list[int]:
    queue_set = [{"brokerName": "broker-a", "queueId": queue, "topic": topic} for queue in queues]
    body = {"clientId": client, "consumerGroup": group, "mqSet": queue_set, "onlyThisBroker": False}
    answer = wire.ok(code, body=json.dumps(body).encode())
    return sorted(queue["queueId"] for queue in json.loads(answer.body)["lockOKMQSet"]) if answer.body else []


def test_a_queue_has_one_holder_until_it_is_given_back(broker: BrokerProcess, wire: Wire) -> None:
    topic, group = wire.topic(queues=3), wire.group()
    assert lock(wire, 41, group, "c1", topic, 0, 1) == [0, 1]
    assert lock(wire, 41, group, "c1", topic, 0, 1) == [0, 1]
    with Wire(broker.address) as second:
        assert lock(second, 41, group, "c2", topic, 0, 1, 2) == [2]
        lock(second, 42, group, "c2", topic, 0, 1)
        assert lock(second, 41, group, "c2", topic, 0, 1) == [], "nobody gives back what another client holds"
        lock(wire, 42, group, "c1", topic, 0)
        assert lock(second, 41, group, "c2", topic, 0) == [0]
    assert eventually(lambda: lock(wire, 41, group, "c1", topic, 0, 1, 2) == [0, 1, 2])


def test_a_question_is_passed_to_the_client_and_back(broker: BrokerProcess, wire: Wire) -> None:
    topic, group = wire.topic(), wire.group()
    with Wire(broker.address) as client:
        client.heartbeat("c1", group, topic)
        opaque = wire.send(307, {"consumerGroup": group, "clientId": "c1", "jstackEnable": "true"})
        question = client.next_push(307)
        assert question.ext == {"consumerGroup": group, "clientId": "c1", "jstackEnable": "true"}
        client.answer(question, body=b'{"jstack":"main"}')
        assert json.loads(wire.receive(opaque).body) == {"jstack": "main"}


def test_a_message_is_handed_to_one_client_directly(broker: BrokerProcess, wire: Wire) -> None:
    topic, group = wire.topic(), wire.group()
    sent = wire.publish(topic, b"direct", properties(UNIQ_KEY=fresh()))
    with Wire(broker.address) as client:
        client.heartbeat("c1", group, topic)
        opaque = wire.send(309, {"consumerGroup": group, "clientId": "c1", "msgId": sent.ext["msgId"]})
        question = client.next_push(309)
        assert b"direct" in question.body
        client.answer(question, body=b'{"consumeResult":"CR_SUCCESS"}')
        assert b"CR_SUCCESS" in wire.receive(opaque).body


def test_the_offsets_of_all_clients_are_gathered(broker: BrokerProcess, wire: Wire) -> None:
    topic, group = wire.topic(), wire.group()
    with Wire(broker.address) as client:
        client.heartbeat("c1", group, topic)
        opaque = wire.send(223, {"topic": topic, "group": group})
        question = client.next_push(221)
        body = b'{"messageQueueTable":{{"brokerName":"broker-a","queueId":0,"topic":"%b"}:5}}' % topic.encode()
        client.answer(question, body=body)
        table = loads(wire.receive(opaque).body)["consumerTable"]
        assert table["c1"] == [({"brokerName": "broker-a", "queueId": 0, "topic": topic}, 5)]


def test_a_client_that_is_not_there_is_named(wire: Wire) -> None:
    answer = wire.call(307, {"consumerGroup": wire.group(), "clientId": "c9", "jstackEnable": "false"})
    assert answer.code == 1
    assert "c9" in (answer.remark or "")
    assert "not online" in (answer.remark or "")


def test_a_client_that_leaves_ends_the_question(broker: BrokerProcess, wire: Wire) -> None:
    topic, group = wire.topic(), wire.group()
    with Wire(broker.address) as client:
        client.heartbeat("c1", group, topic)
        opaque = wire.send(307, {"consumerGroup": group, "clientId": "c1", "jstackEnable": "false"})
        client.next_push(307)
    answer = wire.receive(opaque)
    assert answer.code == 1
    assert "disconnected" in (answer.remark or "")
