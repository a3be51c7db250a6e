"""Messages of inflow tasks at a real broker: what they bear, their order, and what is told when they are not taken."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from analytics.inflow.delivery import REASON, Misset, Outgoing, Undelivered
from analytics.inflow.fields import MAX_BODY, Message
from analytics.inflow.topics import UNIQUE_ID, TopicTarget
from analytics.pipelines.producers import Address
from brokercore.client import Producer
from brokercore.client.errors import BrokerUnreachable
from tests.pipelines.jobs import Ground
from tests.pipelines.test_engine_sink import closed_port
from tests.support.broker import eventually


def outgoing(body: bytes, *, topic: str | None = None, order: str = "", **fields: Any) -> Outgoing:
    given: dict[str, Any] = {"properties": {}, "key": None, "tag": None}
    return Outgoing(Message(body, **(given | fields)), topic, order)


@pytest.fixture
def target(ground: Ground, topic: str) -> TopicTarget:
    key = ground.credentials
    return TopicTarget(Address(ground.namesrv, key.access_key_id, key.access_key_secret, "GID_INFLOW"), topic)


@pytest.fixture
def fifo(ground: Ground, target: TopicTarget) -> TopicTarget:
    """Of a topic whose messages have an order."""
    topic = f"{target.topic}-fifo"
    ground.admin.topics.create(topic, queues=2, message_type="FIFO")
    eventually(lambda: topic in ground.admin.topics.names())
    return replace(target, topic=topic)


def test_a_message_bears_its_key_tag_and_properties(ground: Ground, target: TopicTarget) -> None:
    target.send([outgoing(b"a", key="k1", tag="t1", properties={"a": "1", "b": "ü"}, unique_id="7F00"), outgoing(b"b")])
    first, second = sorted(ground.messages(target.topic), key=lambda message: message.decoded_body())
    assert (first.decoded_body(), first.keys, first.tags) == (b"a", "k1", "t1")
    own = {name: first.properties[name] for name in ("a", "b", UNIQUE_ID)}
    assert own == {"a": "1", "b": "ü", UNIQUE_ID: "7F00"}
    assert (second.decoded_body(), second.keys, second.tags) == (b"b", "", "")


def test_messages_go_to_the_topics_that_they_name_in_one_request_each(
    ground: Ground, target: TopicTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests: list[int] = []
    send_batch = Producer.send_batch

    def counted(producer: Producer, messages: Any, **options: Any) -> Any:
        requests.append(len(messages))
        return send_batch(producer, messages, **options)

    monkeypatch.setattr(Producer, "send_batch", counted)
    other = ground.new_topic()
    target.send([outgoing(b"%d" % number, topic=None if number % 2 else other) for number in range(100)])
    assert requests == [50, 50]
    for name, found in ((target.topic, range(1, 100, 2)), (other, range(0, 100, 2))):
        assert sorted(int(message.decoded_body()) for message in ground.messages(name)) == list(found)


def test_messages_of_one_key_lie_in_one_queue_in_their_order(ground: Ground, fifo: TopicTarget) -> None:
    target = fifo
    target.send([outgoing(b"%d" % number, order=f"key {number % 20}") for number in range(200)])
    found: dict[int, list[tuple[int, int]]] = {}
    for message in ground.messages(target.topic):
        number = int(message.decoded_body())
        found.setdefault(number % 20, []).append((message.queue_id, number))
    for key, places in found.items():
        assert len({queue for queue, _ in places}) == 1
        assert [number for _, number in places] == list(range(key, 200, 20))
    assert {queue for places in found.values() for queue, _ in places} == {0, 1}


def test_a_dead_letter_bears_its_reason(ground: Ground, target: TopicTarget) -> None:
    dead = ground.new_topic()
    replace(target, dead_letters=dead).send_dead(b"{}", {REASON: "It has no total."})
    (message,) = ground.messages(dead)
    assert message.decoded_body() == b"{}" and message.properties[REASON] == "It has no total."


@pytest.mark.parametrize("order", ["", "a"])
def test_a_topic_of_the_task_that_is_not_there_is_its_own_fault_and_another_one_the_events(
    target: TopicTarget, fifo: TopicTarget, order: str
) -> None:
    target = fifo if order else target
    with pytest.raises(Misset, match=r"The topic nowhere cannot be written to: .*nowhere"):
        replace(target, topic="nowhere").send([outgoing(b"a", order=order)])
    with pytest.raises(Misset, match="The topic nowhere cannot be written to"):
        replace(target, dead_letters="nowhere").send_dead(b"a", {})
    with pytest.raises(Undelivered, match="The topic nowhere cannot be written to") as refused:
        target.send([outgoing(b"a", order=order), outgoing(b"b", topic="nowhere", order="b" and order)])
    assert not refused.value.may_pass
    with pytest.raises(Misset, match="The topic nowhere cannot be written to"):
        replace(target, routes=("nowhere",)).send([outgoing(b"b", topic="nowhere", order="b" and order)])
    with pytest.raises(Misset, match="The topic nowhere cannot be written to"):
        replace(target, routes=("nowhere",)).require()
    target.require()


def test_a_topic_that_takes_no_messages_with_an_order_is_the_tasks_fault(target: TopicTarget) -> None:
    with pytest.raises(Misset, match=r"a FIFO message was sent to topic .* which takes NORMAL messages"):
        target.send([outgoing(b"a", order="a")])


def test_a_key_that_may_not_write_is_the_tasks_fault(target: TopicTarget) -> None:
    wrong = replace(target, address=replace(target.address, secret="wrong"))
    with pytest.raises(Misset, match=r"cannot be written to: [^.]+"):
        wrong.send([outgoing(b"a")])
    assert "wrong" not in repr(wrong)


def test_what_was_taken_is_told_with_what_was_not(ground: Ground, target: TopicTarget) -> None:
    with pytest.raises(Undelivered) as refused:
        target.send([outgoing(b"a"), outgoing(b"x", topic="nowhere"), outgoing(b"b")])
    assert refused.value.done == {0, 2}
    assert sorted(message.decoded_body() for message in ground.messages(target.topic)) == [b"a", b"b"]


def test_of_one_key_nothing_is_sent_behind_a_message_that_was_not_taken(
    ground: Ground, fifo: TopicTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = fifo
    send_ordered = Producer.send_ordered

    def failing(producer: Producer, message: Any, key: str, **options: Any) -> Any:
        if message.body == b"1":
            raise BrokerUnreachable("a:1", "it broke")
        return send_ordered(producer, message, key, **options)

    monkeypatch.setattr(Producer, "send_ordered", failing)
    with pytest.raises(Undelivered, match="No connection to a:1: it broke") as refused:
        target.send([outgoing(b"%d" % number, order="one") for number in range(4)])
    assert refused.value.may_pass and refused.value.done == {0}
    assert [message.decoded_body() for message in ground.messages(target.topic)] == [b"0"]


def test_a_broker_that_is_away_may_come_back_and_a_message_that_none_takes_may_not(target: TopicTarget) -> None:
    gone = replace(target, address=replace(target.address, namesrv=f"127.0.0.1:{closed_port()}"))
    for order in ("", "a"):
        with pytest.raises(Undelivered) as away:
            gone.send([outgoing(b"a", order=order)])
        assert away.value.may_pass
    with pytest.raises(Undelivered, match="bytes") as refused:
        target.send([outgoing(b"x" * (MAX_BODY + 1))])
    assert not refused.value.may_pass
