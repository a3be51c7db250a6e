"""The push consumer against a real broker."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from brokercore.client import Admin, ConsumeResult, Message, MessageQueue, MessageView, Producer, PushConsumer
from brokercore.client.errors import ClientError, TopicNotExist
from tests.brokercore.client.conftest import ClusterUnderTest, MakeTopic
from tests.brokercore.client.peer import until

pytestmark = pytest.mark.broker

MakeGroup = Callable[[], str]
Decide = Callable[[MessageView], ConsumeResult]


def succeed(_message: MessageView) -> ConsumeResult:
    return ConsumeResult.SUCCESS


@contextmanager
def consuming(
    cluster: ClusterUnderTest,
    group: str,
    topic: str,
    expression: str = "*",
    decide: Decide = succeed,
    **options: Any,
) -> Iterator[list[MessageView]]:
    """A started consumer; yields what it received."""
    received: list[MessageView] = []
    with PushConsumer(cluster.namesrv, cluster.credentials, group, **options) as consumer:

        @consumer.on_message
        def handle(message: MessageView) -> ConsumeResult:
            received.append(message)
            return decide(message)

        consumer.subscribe(topic, expression).start()
        yield received


@pytest.fixture
def producer(cluster: ClusterUnderTest) -> Iterator[Producer]:
    with Producer(cluster.namesrv, cluster.credentials, "GID_sender") as producer:
        yield producer


def bodies(messages: list[MessageView]) -> list[bytes]:
    return sorted(message.body for message in messages)


def test_a_message_arrives_with_all_that_was_sent(
    cluster: ClusterUnderTest, make_topic: MakeTopic, make_group: MakeGroup, producer: Producer
) -> None:
    topic = make_topic()
    body = b"a body that is compressed on the way " * 1000
    with consuming(cluster, make_group(), topic) as received:
        result = producer.send(Message(topic, body, "tag", "key", {"a": "b"}))
        until(lambda: received)
    (message,) = received
    assert (message.topic, message.body, message.tags, message.keys) == (topic, body, "tag", "key")
    assert (message.message_id, message.offset_message_id) == (result.message_id, result.offset_message_id)
    assert (message.queue, message.queue_offset) == (result.queue, result.queue_offset)
    assert (message.properties["a"], message.reconsume_times) == ("b", 0)
    assert abs(message.store_timestamp_ms - time.time() * 1000) < 60_000


def test_a_waiting_consumer_is_woken_by_the_message(
    cluster: ClusterUnderTest, make_topic: MakeTopic, make_group: MakeGroup, producer: Producer
) -> None:
    topic = make_topic(queues=1)
    with consuming(cluster, make_group(), topic) as received:
        producer.send(Message(topic, b"the consumer holds a long poll after this one"))
        until(lambda: len(received) == 1)
        begun = time.monotonic()
        producer.send(Message(topic, b"second"))
        until(lambda: len(received) == 2)
        assert time.monotonic() - begun < 10, "and not when its long poll of 15 s ends"


def test_only_subscribed_tags_arrive_and_the_rest_is_committed_over(
    admin: Admin, cluster: ClusterUnderTest, make_topic: MakeTopic, make_group: MakeGroup, producer: Producer
) -> None:
    topic, group = make_topic(queues=1), make_group()
    # "Aa" and "BB" have the same hash: the broker lets both through.
    for tag in ("Aa", "BB", "other", "more", "", "Aa"):
        producer.send(Message(topic, tag.encode() or b"none", tag))
    with consuming(cluster, group, topic, "Aa || other", consume_from="CONSUME_FROM_FIRST_OFFSET") as received:
        until(lambda: len(received) == 3)
    assert bodies(received) == [b"Aa", b"Aa", b"other"]
    assert admin.groups.stats(group, topic).backlog == 0


def test_offsets_are_kept_over_a_restart(
    admin: Admin, cluster: ClusterUnderTest, make_topic: MakeTopic, make_group: MakeGroup, producer: Producer
) -> None:
    topic, group = make_topic(), make_group()
    with consuming(cluster, group, topic) as first:
        for number in range(10):
            producer.send(Message(topic, b"first %d" % number))
        until(lambda: len(first) == 10)
    assert admin.groups.stats(group, topic).backlog == 0
    for number in range(5):
        producer.send(Message(topic, b"second %d" % number))
    with consuming(cluster, group, topic) as second:
        until(lambda: len(second) >= 5)
    assert bodies(second) == [b"second %d" % number for number in range(5)]


@pytest.mark.timeout(120)
def test_two_clients_of_a_group_share_the_queues_and_one_takes_over(
    cluster: ClusterUnderTest, make_topic: MakeTopic, make_group: MakeGroup, producer: Producer
) -> None:
    topic, group = make_topic(queues=4), make_group()
    with consuming(cluster, group, topic) as first:
        with consuming(cluster, group, topic) as second:

            def both_receive() -> bool:
                producer.send(Message(topic, b"to either"))
                return bool(first) and bool(second)

            until(both_receive, 60)
            assert not {message.message_id for message in first} & {message.message_id for message in second}
        seen = len(first)
        for number in range(4):
            producer.send(Message(topic, b"alone %d" % number))
        until(lambda: len({m.body for m in first[seen:] if m.body.startswith(b"alone")}) == 4, 60)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("failure", ["later", "raise"])
def test_a_failed_message_comes_again_and_ends_as_a_dead_letter(  # noqa: PLR0917
    failure: str,
    admin: Admin,
    cluster: ClusterUnderTest,
    make_topic: MakeTopic,
    make_group: MakeGroup,
    producer: Producer,
) -> None:
    topic, group = make_topic(), make_group()

    def fail(_message: MessageView) -> ConsumeResult:
        if failure == "raise":
            raise ValueError("the handler does not like it")
        return ConsumeResult.RECONSUME_LATER

    with consuming(cluster, group, topic, decide=fail, max_reconsume_times=1) as received:
        sent = producer.send(Message(topic, b"poison", "tag", "key"))
        until(lambda: len(received) == 2, 60)
        dead = MessageQueue(f"%DLQ%{group}", "broker-a", 0)
        until(lambda: _messages(admin, dead), 30)
    assert [message.reconsume_times for message in received] == [0, 1]
    assert {message.topic for message in received} == {topic}
    assert {message.message_id for message in received} == {sent.message_id}
    (letter,) = _messages(admin, dead)
    assert (letter.body, letter.keys, letter.properties["RETRY_TOPIC"]) == (b"poison", "key", topic)
    assert letter.properties["ORIGIN_MESSAGE_ID"] == sent.offset_message_id


def test_a_retry_that_came_before_any_consumer_is_not_passed_over(
    cluster: ClusterUnderTest, make_topic: MakeTopic, make_group: Callable[[], str]
) -> None:
    """Of other topics a new group takes what comes from now on; what was handed back was the group's before."""
    topic, group = make_topic(queues=1), make_group()
    with Producer(cluster.namesrv, cluster.credentials, "GID_p") as producer:
        producer.send(Message(f"%RETRY%{group}", b"again"))
    received: list[bytes] = []
    consumer = PushConsumer(cluster.namesrv, cluster.credentials, group)

    @consumer.on_message
    def handle(message: MessageView) -> ConsumeResult:
        received.append(message.body)
        return ConsumeResult.SUCCESS

    with consumer.subscribe(topic).start():
        until(lambda: received == [b"again"])


def test_broadcasting_gives_every_client_every_message_and_keeps_offsets_in_a_file(
    cluster: ClusterUnderTest, make_topic: MakeTopic, make_group: MakeGroup, producer: Producer, tmp_path: Path
) -> None:
    topic, group = make_topic(), make_group()
    one: dict[str, Any] = {"model": "BROADCASTING", "offset_file": tmp_path / "one.json"}
    two: dict[str, Any] = {"model": "BROADCASTING", "offset_file": tmp_path / "two.json"}
    with consuming(cluster, group, topic, **one) as first, consuming(cluster, group, topic, **two) as second:
        for number in range(6):
            producer.send(Message(topic, b"%d" % number))
        until(lambda: len(first) == 6 and len(second) == 6)
    producer.send(Message(topic, b"while away"))
    with consuming(cluster, group, topic, **one) as again:
        until(lambda: again)
    assert bodies(again) == [b"while away"]


@pytest.mark.timeout(120)
def test_an_online_consumer_follows_a_reset_of_its_offsets(
    admin: Admin, cluster: ClusterUnderTest, make_topic: MakeTopic, make_group: MakeGroup, producer: Producer
) -> None:
    topic, group = make_topic(), make_group()
    with consuming(cluster, group, topic) as received:
        for number in range(6):
            producer.send(Message(topic, b"%d" % number))
        until(lambda: len(received) == 6)
        admin.offsets.reset(group, topic, 0)
        until(lambda: len(received) == 12, 60)
    assert bodies(received) == sorted([b"%d" % number for number in range(6)] * 2)


def test_names_without_namespace_are_what_the_handler_sees(
    admin: Admin, cluster: ClusterUnderTest, make_topic: MakeTopic, make_group: MakeGroup
) -> None:
    physical = make_topic("MQ_INST_1_abc%orders")
    namespace, _, topic = physical.partition("%")
    group = f"GID_{topic}"
    admin.groups.create(f"{namespace}%{group}")
    with (
        consuming(cluster, group, topic, namespace=namespace) as received,
        Producer(cluster.namesrv, cluster.credentials, group, namespace=namespace) as producer,
    ):
        assert producer.send(Message(topic, b"b")).queue.topic == physical
        until(lambda: received)
    assert (received[0].topic, received[0].queue.topic) == (topic, physical)
    assert (physical, f"{namespace}%{group}") in admin.offsets.all_committed()


def test_shutdown_waits_for_the_handler_and_commits_what_it_did(
    admin: Admin, cluster: ClusterUnderTest, make_topic: MakeTopic, make_group: MakeGroup, producer: Producer
) -> None:
    topic, group = make_topic(), make_group()
    entered, may_go = threading.Event(), threading.Event()

    def slow(_message: MessageView) -> ConsumeResult:
        entered.set()
        may_go.wait(10)
        return ConsumeResult.SUCCESS

    with consuming(cluster, group, topic, decide=slow) as received:
        producer.send(Message(topic, b"slow"))
        assert entered.wait(10)
        threading.Timer(0.3, may_go.set).start()
    assert len(received) == 1
    assert admin.groups.stats(group, topic).backlog == 0


def test_it_does_not_start_without_subscription_handler_or_broker(cluster: ClusterUnderTest) -> None:
    with pytest.raises(ClientError, match="subscription and a handler"):
        PushConsumer(cluster.namesrv, cluster.credentials, "GID_x").start()
    lost = PushConsumer("127.0.0.1:1", cluster.credentials, "GID_x", timeout_ms=500).subscribe("t")
    lost.on_message(succeed)
    with pytest.raises(ClientError, match="No connection to"):
        lost.start()


def _messages(admin: Admin, queue: MessageQueue) -> list[Any]:
    try:
        admin.topics.stats(queue.topic)
    except TopicNotExist:
        return []
    return admin.messages.pull(queue, 0).messages
