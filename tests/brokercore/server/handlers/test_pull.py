"""Pulls: codes and offsets of each situation, filters, long polling."""

from __future__ import annotations

import time

import pytest

from brokercore.protocol.message import decode_stored
from tests.brokercore.server.wire import Wire, fresh, properties
from tests.support.broker import BrokerProcess


@pytest.fixture
def place(wire: Wire) -> tuple[str, str]:
    """A group, and a topic with three messages."""
    topic, group = wire.topic(), wire.group()
    for number in range(3):
        wire.publish(topic, b"m%d" % number, properties(UNIQ_KEY=fresh("ID"), TAGS=f"t{number}"))
    return group, topic


@pytest.mark.parametrize(
    ("offset", "code", "following"),
    [(0, 0, "3"), (1, 0, "3"), (3, 19, "3"), (4, 21, "3"), (-1, 21, "0")],
)
def test_each_offset_has_its_answer(wire: Wire, place: tuple[str, str], offset: int, code: int, following: str) -> None:
    answer = wire.pull(*place, offset)
    assert answer.code == code
    assert answer.ext["nextBeginOffset"] == following
    assert (answer.ext["minOffset"], answer.ext["maxOffset"]) == ("0", "3")


@pytest.mark.parametrize(("offset", "code"), [(0, 19), (5, 21)])
def test_an_empty_queue_has_its_answers(wire: Wire, offset: int, code: int) -> None:
    answer = wire.pull(wire.group(), wire.topic(), offset)
    assert (answer.code, answer.ext["nextBeginOffset"]) == (code, "0")


@pytest.mark.parametrize(
    ("expression", "bodies", "code"),
    [("*", [b"m0", b"m1", b"m2"], 0), ("t1", [b"m1"], 0), ("t0 || t2", [b"m0", b"m2"], 0), ("t9", [], 20)],
)
def test_tags_filter_exactly(
    wire: Wire, place: tuple[str, str], expression: str, bodies: list[bytes], code: int
) -> None:
    answer = wire.pull(*place, subscription=expression)
    assert answer.code == code
    assert [message.body for message in decode_stored(answer.body)] == bodies
    assert answer.ext["nextBeginOffset"] == "3"


def test_a_tag_with_the_same_hash_does_not_pass(wire: Wire) -> None:
    topic, group = wire.topic(), wire.group()
    wire.publish(topic, b"other", properties(UNIQ_KEY=fresh(), TAGS="BB"))  # "Aa" and "BB" hash alike in Java
    wire.publish(topic, b"right", properties(TAGS="Aa"))
    assert [message.body for message in decode_stored(wire.pull(group, topic, subscription="Aa").body)] == [b"right"]


def test_an_answer_stays_below_the_asked_size_but_has_one_message(wire: Wire) -> None:
    topic, group = wire.topic(), wire.group()
    for _ in range(3):
        wire.publish(topic, b"x" * 2000)
    assert len(decode_stored(wire.pull(group, topic, maxMsgBytes=10).body)) == 1
    assert len(decode_stored(wire.pull(group, topic, maxMsgBytes=5000).body)) == 2
    assert len(decode_stored(wire.pull(group, topic, maxMsgNums=1).body)) == 1


def test_a_waiting_pull_is_woken_by_the_next_message(broker: BrokerProcess, wire: Wire, place: tuple[str, str]) -> None:
    opaque = wire.start_pull(*place, 3, sysFlag=6, suspendTimeoutMillis=15_000)
    with Wire(broker.address) as producer:
        producer.publish(place[1], b"new")
    began = time.monotonic()
    answer = wire.receive(opaque)
    assert time.monotonic() - began < 12, "and not when its time is over"
    assert [message.body for message in decode_stored(answer.body)] == [b"new"]


def test_a_waiting_pull_with_a_filter_sleeps_through_other_tags(
    broker: BrokerProcess, wire: Wire, place: tuple[str, str]
) -> None:
    opaque = wire.start_pull(*place, 3, sysFlag=6, suspendTimeoutMillis=15_000, subscription="wanted")
    with Wire(broker.address) as producer:
        producer.publish(place[1], b"no", properties(TAGS="other"))
        producer.publish(place[1], b"yes", properties(TAGS="wanted"))
    assert [message.body for message in decode_stored(wire.receive(opaque).body)] == [b"yes"]


def test_a_waiting_pull_ends_with_its_time(wire: Wire, place: tuple[str, str]) -> None:
    began = time.monotonic()
    answer = wire.pull(*place, 3, sysFlag=6, suspendTimeoutMillis=300)
    assert answer.code == 19
    assert 0.25 < time.monotonic() - began < 10


def test_a_pull_that_may_not_wait_is_answered_at_once(wire: Wire, place: tuple[str, str]) -> None:
    assert wire.pull(*place, 3, sysFlag=4, suspendTimeoutMillis=15_000).code == 19


def test_a_pull_commits_the_offset_it_carries(wire: Wire, place: tuple[str, str]) -> None:
    group, topic = place
    wire.pull(group, topic, sysFlag=5, commitOffset=2)
    assert wire.ok(14, {"consumerGroup": group, "topic": topic, "queueId": 0}).ext["offset"] == "2"


def test_without_a_subscription_of_its_own_the_heartbeats_holds(wire: Wire, place: tuple[str, str]) -> None:
    group, topic = place
    assert wire.pull(group, topic, sysFlag=0).code == 24
    wire.heartbeat("c1", group, topic, tags="t2")
    answer = wire.pull(group, topic, sysFlag=0)
    assert [message.body for message in decode_stored(answer.body)] == [b"m2"]
    assert wire.pull(group, topic, sysFlag=0, subVersion=1 << 60).code == 25


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"consumerGroup": "GID-none"}, 26),
        ({"topic": "no-topic"}, 17),
        ({"queueId": 9}, 29),
        ({"subscription": "||"}, 23),
        ({"expressionType": "SQL92", "subscription": "a >"}, 23),
        ({"expressionType": "BLOOM", "subscription": "a"}, 23),
    ],
)
def test_what_does_not_exist_is_refused(wire: Wire, place: tuple[str, str], fields: dict[str, str], code: int) -> None:
    assert wire.pull(*place, **fields).code == code


def test_a_sql92_filter_looks_at_properties(wire: Wire) -> None:
    topic, group = wire.topic(), wire.group()
    for number in range(6):
        wire.publish(topic, b"m%d" % number, properties(a=str(number), region="hz" if number % 2 else "sh"))
    fields = {"expressionType": "SQL92", "subscription": "a between 2 and 5 and region = 'hz'"}
    answer = wire.pull(group, topic, **fields)
    assert [message.body for message in decode_stored(answer.body)] == [b"m3", b"m5"]
    wire.heartbeat("c1", group, topic, tags="region <> 'hz'", kind="SQL92")
    answer = wire.pull(group, topic, sysFlag=0, expressionType="SQL92")
    assert [message.body for message in decode_stored(answer.body)] == [b"m0", b"m2", b"m4"]


def test_a_waiting_pull_with_a_sql92_filter_is_woken_by_what_it_wants(broker: BrokerProcess, wire: Wire) -> None:
    topic, group = wire.topic(), wire.group()
    fields = {"expressionType": "SQL92", "subscription": "a > 1", "sysFlag": 6, "suspendTimeoutMillis": 15_000}
    opaque = wire.start_pull(group, topic, 0, **fields)
    with Wire(broker.address) as other:
        other.publish(topic, b"small", properties(a="1"))
        other.publish(topic, b"large", properties(a="2"))
    assert [message.body for message in decode_stored(wire.receive(opaque).body)] == [b"large"]


def test_a_group_that_is_switched_off_pulls_nothing(wire: Wire, place: tuple[str, str]) -> None:
    assert wire.pull(wire.group(consumeEnable=False), place[1]).code == 16
    wire.ok(353, {"group": place[0], "topic": place[1], "readable": "false"})
    assert wire.pull(*place).code == 16


def test_messages_older_than_the_hot_tail_come_from_redis(wire: Wire) -> None:
    topic, group = wire.topic(), wire.group()
    size = 1 << 20
    for number in range(70):  # the hot tail has 64 MiB
        wire.publish(topic, bytes([number]) * size)
    bodies = []
    for offset in range(0, 70, 23):
        bodies.append(decode_stored(wire.pull(group, topic, offset).body)[0].body[0])
    assert bodies == [0, 23, 46, 69]


def test_deleting_the_topic_answers_the_waiting_pull(broker: BrokerProcess, wire: Wire, place: tuple[str, str]) -> None:
    opaque = wire.start_pull(*place, 3, sysFlag=6, suspendTimeoutMillis=15_000)
    with Wire(broker.address) as admin:
        admin.ok(215, {"topic": place[1]})
    assert wire.receive(opaque).code == 17


CLOSES = {
    "topic closed to the group": (353, {"group": "{group}", "topic": "{topic}", "readable": "false"}, ""),
    "group switched off": (200, {}, '{"groupName": "{group}", "consumeEnable": false}'),
    "group deleted": (207, {"groupName": "{group}"}, ""),
    "topic write only": (
        17, {"topic": "{topic}", "readQueueNums": "1", "writeQueueNums": "1", "perm": "2", "order": "false"}, "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("closed", CLOSES)
def test_what_may_no_longer_be_read_ends_the_waiting_pull(
    broker: BrokerProcess, wire: Wire, place: tuple[str, str], closed: str
) -> None:
    group, topic = place
    code, ext, body = CLOSES[closed]
    opaque = wire.start_pull(group, topic, 3, sysFlag=6, suspendTimeoutMillis=15_000)
    with Wire(broker.address) as admin:
        filled = {name: value.replace("{group}", group).replace("{topic}", topic) for name, value in ext.items()}
        admin.ok(code, filled, body.replace("{group}", group).encode())
        admin.publish(topic, b"too late")
    answer = wire.receive(opaque)
    assert (answer.code, answer.body) == (26 if closed == "group deleted" else 16, b"")
