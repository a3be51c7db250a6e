"""Locks of ordered consumers against a real broker, another client holding some of them."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from brokercore.client import Admin, ConsumeResult, Message, MessageQueue, MessageView, Producer, PushConsumer
from brokercore.client.rebalance import QueueLocks
from brokercore.client.routes import Routes
from brokercore.client.session import Session
from tests.brokercore.client.conftest import ClusterUnderTest, MakeTopic
from tests.brokercore.client.peer import until

pytestmark = pytest.mark.broker


def test_a_queue_is_locked_by_one_client_at_a_time(
    cluster: ClusterUnderTest, make_topic: MakeTopic, make_group: Callable[[], str]
) -> None:
    topic, group = make_topic(queues=2), make_group()
    queues = {MessageQueue(topic, "broker-a", number) for number in range(2)}
    first, second = (Session(cluster.namesrv, cluster.credentials) for _ in range(2))
    mine, theirs = (
        QueueLocks(session, Routes(session), group, name) for session, name in ((first, "one"), (second, "two"))
    )
    try:
        assert mine.lock(queues) == (queues, set())
        assert theirs.lock(queues) == (set(), queues)
        mine.unlock(queues)
        assert theirs.lock(queues) == (queues, set())
    finally:
        first.close()
        second.close()


def test_an_ordered_consumer_waits_until_another_client_gives_up_its_lock(
    cluster: ClusterUnderTest, make_topic: MakeTopic, make_group: Callable[[], str]
) -> None:
    topic, group = make_topic(queues=1), make_group()
    received: list[bytes] = []
    consumer = PushConsumer(
        cluster.namesrv, cluster.credentials, group, ordered=True, consume_from="CONSUME_FROM_FIRST_OFFSET"
    )

    @consumer.on_message
    def handle(message: MessageView) -> ConsumeResult:
        received.append(message.body)
        return ConsumeResult.SUCCESS

    other = Session(cluster.namesrv, cluster.credentials)
    locks = QueueLocks(other, Routes(other), group, "another client")
    queue = MessageQueue(topic, "broker-a", 0)
    with Producer(cluster.namesrv, cluster.credentials, "GID_p") as producer:
        producer.send(Message(topic, b"in order"))
    try:
        assert locks.lock([queue])[0] == {queue}
        with consumer.subscribe(topic).start():
            assert queue not in consumer.running_info().queues
            locks.unlock([queue])
            until(lambda: received == [b"in order"])
            assert consumer.running_info().queues[queue]["locked"] is True
            # A client that took the lock over, as after a long pause of this one, ends the ownership here.
            running = consumer._running
            assert running is not None
            locks_of_this = QueueLocks(other, Routes(other), group, consumer.client_id)
            locks_of_this.unlock([queue])
            assert locks.lock([queue])[0] == {queue}
            assert not running.rebalancer.keep_locks()
            assert queue not in consumer.running_info().queues
    finally:
        other.close()


def test_a_queue_that_is_given_up_passes_on_only_after_its_handler_ended(
    admin: Admin, cluster: ClusterUnderTest, make_topic: MakeTopic, make_group: Callable[[], str]
) -> None:
    topic, group = make_topic(queues=1), make_group()
    entered, may_go = threading.Event(), threading.Event()
    consumer = PushConsumer(
        cluster.namesrv, cluster.credentials, group, ordered=True, consume_from="CONSUME_FROM_FIRST_OFFSET"
    )

    @consumer.on_message
    def handle(_message: MessageView) -> ConsumeResult:
        entered.set()
        may_go.wait(20)
        return ConsumeResult.SUCCESS

    other = Session(cluster.namesrv, cluster.credentials)
    locks = QueueLocks(other, Routes(other), group, "another client")
    queue = MessageQueue(topic, "broker-a", 0)
    with Producer(cluster.namesrv, cluster.credentials, "GID_p") as producer:
        producer.send(Message(topic, b"slow"))
    try:
        with consumer.subscribe(topic).start():
            assert entered.wait(20)
            consumer.unsubscribe(topic)
            until(lambda: queue not in consumer.running_info().queues)
            assert locks.lock([queue])[0] == set()
            assert admin.offsets.committed(group, queue) in {None, 0}
            may_go.set()
            until(lambda: locks.lock([queue])[0] == {queue})
            assert admin.offsets.committed(group, queue) == 1
    finally:
        other.close()
