"""The vendor's Python client against the broker, with no proxy between."""

from __future__ import annotations

import time
from typing import Any

import pytest

from brokercore.protocol.message import decode_stored
from tests.brokercore.server.grpc.vendor import Inbox, Vendor, drain, tried_again
from tests.brokercore.server.wire import Wire, fresh, properties
from tests.support.broker import BrokerProcess, broker_process, eventually


def test_what_grpc_sends_reaches_both_kinds_of_clients(vendor: Vendor, wire: Wire) -> None:
    topic, group = wire.topic(), wire.group()
    sent = vendor.producer(topic).send(
        vendor.message(topic, "Grüße".encode(), tag="TagA", keys="k1", properties={"colour": "blue"})
    )
    (by_frames,) = decode_stored(wire.messages(group, topic)[0].encode())
    assert (by_frames.body.decode(), by_frames.tags, by_frames.keys) == ("Grüße", "TagA", "k1")
    assert by_frames.unique_id == sent.message_id
    assert by_frames.properties["colour"] == "blue"
    (by_grpc,) = drain(vendor.simple_consumer(wire.group(), topic), 1)
    assert (by_grpc.body.decode(), by_grpc.tag, by_grpc.keys) == ("Grüße", "TagA", {"k1"})
    assert (by_grpc.message_id, by_grpc.properties, by_grpc.corrupted) == (sent.message_id, {"colour": "blue"}, False)


def test_what_frames_send_reaches_grpc(vendor: Vendor, wire: Wire) -> None:
    topic = wire.topic()
    given = properties(UNIQ_KEY="ID-of-frames", TAGS="TagB", KEYS="k2 k3", colour="red")
    assert wire.publish(topic, b"by frames", given).code == 0
    (received,) = drain(vendor.simple_consumer(wire.group(), topic, "TagA || TagB"), 1)
    assert (received.body, received.tag, received.keys) == (b"by frames", "TagB", {"k2", "k3"})
    assert (received.message_id, received.properties) == ("ID-of-frames", {"colour": "red"})


def test_a_push_consumer_gets_everything_and_is_seen(vendor: Vendor, wire: Wire) -> None:
    topic, group, inbox = wire.topic(4), wire.group(), Inbox()
    consumer = vendor.push_consumer(group, topic, inbox.take)
    producer = vendor.producer(topic)
    wanted = {b"m%d" % number for number in range(40)}
    for body in sorted(wanted):
        producer.send(vendor.message(topic, body))
    assert set(inbox.wait(40)) == wanted
    connections = wire.ok(203, {"consumerGroup": group}).body
    assert consumer.client_id.encode() in connections
    assert b'"PYTHON"' in connections
    consumer.shutdown()
    eventually(lambda: wire.call(203, {"consumerGroup": group}).code == 206)


def test_messages_of_one_group_are_consumed_in_order(vendor: Vendor, wire: Wire) -> None:
    topic, group, inbox = wire.topic(4, "FIFO"), wire.group(consumeMessageOrderly=True), Inbox()
    producer = vendor.producer(topic)
    for number in range(10):
        for key in ("red", "blue"):
            producer.send(vendor.message(topic, f"{key}-{number}".encode(), message_group=key))
    consumer = vendor.push_consumer(group, topic, inbox.take)
    got = [body.decode() for body in inbox.wait(20)]
    assert consumer.fifo
    for key in ("red", "blue"):
        assert [body for body in got if body.startswith(key)] == [f"{key}-{number}" for number in range(10)]


def test_a_delayed_message_comes_at_its_time_and_not_before(vendor: Vendor, wire: Wire) -> None:
    topic = wire.topic(message_type="DELAY")
    consumer = vendor.simple_consumer(wire.group(), topic, wait=10)
    at = int(time.time()) + 3
    vendor.producer(topic).send(vendor.message(topic, b"later", delivery_timestamp=at))
    (received,) = drain(consumer, 1)
    assert time.time() >= at
    assert (received.body, received.delivery_timestamp) == (b"later", at * 1000)


def test_a_scheduled_message_is_taken_back(vendor: Vendor, wire: Wire) -> None:
    topic = wire.topic(message_type="DELAY")
    producer = vendor.producer(topic)
    sent = producer.send(vendor.message(topic, b"never", delivery_timestamp=int(time.time()) + 3600))
    assert producer.recall_message(topic, sent.recall_handle) == sent.message_id
    with pytest.raises(Exception, match="recall"):
        producer.recall_message(topic, sent.recall_handle)


def test_a_transaction_is_delivered_when_it_is_committed_and_never_when_it_is_rolled_back(
    vendor: Vendor, wire: Wire
) -> None:
    topic = wire.topic(message_type="TRANSACTION")
    producer = vendor.producer(topic, check=lambda _: vendor.module.TransactionResolution.ROLLBACK)
    for how in ("rollback", "commit"):
        transaction = producer.begin_transaction()
        producer.send(vendor.message(topic, how.encode()), transaction)
        getattr(transaction, how)()
    consumer = vendor.simple_consumer(wire.group(), topic, wait=1)
    assert [item.body for item in drain(consumer, 1)] == [b"commit"]
    assert consumer.receive(16, 30) == []


def test_a_producer_that_says_nothing_is_asked_what_became_of_its_transaction(vendor: Vendor, wire: Wire) -> None:
    topic, asked = wire.topic(message_type="TRANSACTION"), []

    def check(half: Any) -> Any:
        asked.append(half.body)
        return vendor.module.TransactionResolution.COMMIT

    producer = vendor.producer(topic, check=check)
    sent = producer.send(vendor.message(topic, b"unsaid"), producer.begin_transaction())
    (received,) = drain(vendor.simple_consumer(wire.group(), topic, wait=10), 1)
    assert received.message_id == sent.message_id
    assert asked[0] == b"unsaid"


def test_a_producer_that_names_no_topics_beforehand_is_asked_too(vendor: Vendor, wire: Wire) -> None:
    topic = wire.topic(message_type="TRANSACTION")
    named = wire.topic(message_type="TRANSACTION")
    producer = vendor.producer(named, check=lambda _: vendor.module.TransactionResolution.COMMIT)
    producer.send(vendor.message(topic, b"unsaid"), producer.begin_transaction())
    assert drain(vendor.simple_consumer(wire.group(), topic, wait=10), 1)


def test_another_producer_of_the_topic_is_asked_when_the_first_has_died(vendor: Vendor, wire: Wire) -> None:
    topic = wire.topic(message_type="TRANSACTION")
    commit = vendor.module.TransactionResolution.COMMIT
    first = vendor.producer(topic, check=lambda _: commit)
    first.send(vendor.message(topic, b"orphan"), first.begin_transaction())
    first.shutdown()
    vendor.producer(topic, check=lambda _: commit)
    assert [item.body for item in drain(vendor.simple_consumer(wire.group(), topic, wait=10), 1)] == [b"orphan"]


def test_what_is_not_acknowledged_comes_again_and_becomes_a_dead_letter(vendor: Vendor, wire: Wire) -> None:
    topic, group = wire.topic(), wire.group(retryMaxTimes=1)
    vendor.producer(topic).send(vendor.message(topic, b"bad"))
    consumer = vendor.simple_consumer(group, topic, wait=5)
    (first,) = consumer.receive(16, 30)
    consumer.change_invisible_duration(first, 1)
    (second,) = consumer.receive(16, 60)
    assert (first.delivery_attempt, second.delivery_attempt) == (1, 2)
    consumer.change_invisible_duration(second, 1)
    with pytest.raises(Exception, match="INVALID_RECEIPT_HANDLE"):
        consumer.ack(first)
    assert consumer.receive(16, 30) == []
    (dead,) = drain(vendor.simple_consumer(wire.group(), f"%DLQ%{group}"), 1)
    assert (dead.body, dead.message_id) == (b"bad", first.message_id)


def test_a_fifo_message_that_always_fails_is_forwarded_to_the_dead_letters(vendor: Vendor, wire: Wire) -> None:
    topic, group = wire.topic(message_type="FIFO"), wire.group(consumeMessageOrderly=True, retryMaxTimes=0)
    producer, seen = vendor.producer(topic), Inbox()
    for body in (b"bad", b"good"):
        producer.send(vendor.message(topic, body, message_group="g"))
    vendor.push_consumer(group, topic, lambda item: seen.take(item) and item.body == b"good")
    assert seen.wait(2) == [b"bad", b"good"]
    (dead,) = drain(vendor.simple_consumer(wire.group(), f"%DLQ%{group}"), 1)
    assert dead.body == b"bad"


def test_tags_and_properties_choose_messages(vendor: Vendor, wire: Wire, rocketmq: Any) -> None:
    topic = wire.topic()
    producer = vendor.producer(topic)
    for number, tag in enumerate(("a", "b", "c")):
        producer.send(vendor.message(topic, tag.encode(), tag=tag, properties={"n": str(number)}))
    by_tag = drain(vendor.simple_consumer(wire.group(), topic, "a || c"), 2)
    assert {item.body for item in by_tag} == {b"a", b"c"}
    consumer = vendor.simple_consumer(wire.group(), topic, wait=1)
    sql = rocketmq.FilterExpression("n > 0 AND TAGS <> 'c'", rocketmq.v5.model.filter_expression.FilterType.SQL)
    consumer.subscribe(topic, sql)
    assert [item.body for item in drain(consumer, 1)] == [b"b"]


def test_names_in_a_namespace_are_those_of_the_instance(vendor: Vendor, wire: Wire) -> None:
    space = "MQ_INST_1234567890123456_GRPC0001"
    topic, group = fresh(), fresh("GID")
    wire.topic(name=f"{space}%{topic}")
    wire.group(f"{space}%{group}")
    vendor.producer(topic, space=space).send(vendor.message(topic, b"inside"))
    (received,) = drain(vendor.simple_consumer(group, topic, space=space), 1)
    assert (received.topic, received.namespace) == (topic, space)
    wire.topic(name=f"{space}%{topic}-2")
    vendor.producer(f"{space}%{topic}-2").send(vendor.message(f"{space}%{topic}-2", b"by its whole name"))
    assert drain(vendor.simple_consumer(f"{space}%{group}", f"{space}%{topic}-2"), 1)


def test_clients_go_on_after_a_broker_that_was_killed(rocketmq: Any) -> None:
    with broker_process(gantry_grpc_port="0") as broker, Wire(broker.address) as wire:
        topic, group, inbox = wire.topic(4), wire.group(), Inbox()
        with Vendor(rocketmq, broker.grpc) as vendor, tried_again() as attempt:
            producer = vendor.producer(topic)
            vendor.push_consumer(group, topic, inbox.take)
            producer.send(vendor.message(topic, b"before"))
            inbox.wait(1)
            broker.kill()
            broker.start()
            attempt(lambda: producer.send(vendor.message(topic, b"after")))
            eventually(lambda: b"after" in inbox.bodies, 30)


def test_it_closes_in_order_while_clients_wait(rocketmq: Any) -> None:
    with broker_process(gantry_grpc_port="0") as broker, Wire(broker.address) as wire:
        topic, group = wire.topic(), wire.group()
        with Vendor(rocketmq, broker.grpc) as vendor:
            consumer = vendor.simple_consumer(group, topic, wait=20)
            future = consumer.receive_async(1, 30)
            eventually(lambda: wire.ok(200055, {"consumerGroup": group, "topic": topic}).ext["pollingNum"] == "1")
            assert _stopped(broker) == 0
            assert future.result(10) == []
            assert "Traceback" not in broker.log


def _stopped(broker: BrokerProcess) -> int:
    code = broker.stop()
    broker.start()
    return code
