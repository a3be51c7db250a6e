"""The producer against a real broker."""

from __future__ import annotations

import os
import threading
import time

import pytest

from brokercore.client import (
    Admin,
    Credentials,
    Message,
    MessageQueue,
    MessageView,
    Producer,
    SendResult,
    StoredMessage,
    TransactionState,
)
from brokercore.client.errors import (
    BrokerUnreachable,
    ClientClosed,
    ClientError,
    NoPermission,
    RequestTimeout,
    TopicNotExist,
)
from brokercore.client.sending import queue_of_key
from tests.brokercore.client.conftest import ClusterUnderTest, MakeTopic
from tests.brokercore.client.peer import until

pytestmark = pytest.mark.broker


def stored(admin: Admin, topic: str) -> list[bytes]:
    """Bodies of every queue of a topic, in queue order."""
    bodies: list[bytes] = []
    for queue, stats in sorted(admin.topics.stats(topic).items()):
        offset = stats.min_offset
        while offset < stats.max_offset:
            result = admin.messages.pull(queue, offset)
            bodies += [message.decoded_body() for message in result.messages]
            offset = result.next_offset
    return bodies


def message_at(admin: Admin, result: SendResult) -> StoredMessage:
    """The message a result names; Apache RocketMQ lets it be read a moment after it acknowledged."""
    until(lambda: admin.offsets.max(result.queue) > result.queue_offset)
    return admin.messages.pull(result.queue, result.queue_offset, 1).messages[0]


def test_a_sent_message_lies_where_the_result_says(
    admin: Admin, cluster: ClusterUnderTest, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    with Producer(cluster.namesrv, cluster.credentials, "GID_p") as producer:
        result = producer.send(Message(topic, b"hello", "tag", "key", {"a": "b"}))
    message = message_at(admin, result)
    assert (message.body, message.tags, message.keys, message.properties["a"]) == (b"hello", "tag", "key", "b")
    assert (message.unique_id, message.offset_message_id) == (result.message_id, result.offset_message_id)


def test_it_takes_the_queues_in_turn(admin: Admin, cluster: ClusterUnderTest, make_topic: MakeTopic) -> None:
    topic = make_topic(queues=4)
    with Producer(cluster.namesrv, cluster.credentials, "GID_p") as producer:
        used = [producer.send(Message(topic, b"b")).queue.queue_id for _ in range(8)]
    assert sorted(used) == [0, 0, 1, 1, 2, 2, 3, 3]


def test_asynchronous_sends_call_back_each_once_and_close_waits_for_them(
    admin: Admin, cluster: ClusterUnderTest, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    outcomes: list[tuple[SendResult | None, ClientError | None]] = []
    with Producer(cluster.namesrv, cluster.credentials, "GID_p", timeout_ms=10_000) as producer:
        ids = [
            producer.send_async(Message(topic, b"%d" % number), lambda *outcome: outcomes.append(outcome))
            for number in range(300)
        ]
    assert [error for _, error in outcomes if error] == []
    assert sorted(result.message_id for result, _ in outcomes if result) == sorted(ids)
    assert sorted(stored(admin, topic)) == sorted(b"%d" % number for number in range(300))


def test_asynchronous_sends_under_way_are_bounded_but_callbacks_may_send(
    cluster: ClusterUnderTest, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("brokercore.client.producer._MOST_UNFINISHED", 1)
    topic = make_topic()
    entered, may_go, second = threading.Event(), threading.Event(), threading.Event()
    with Producer(cluster.namesrv, cluster.credentials, "GID_p", timeout_ms=1000) as producer:

        def hold(_result: SendResult | None, _error: ClientError | None) -> None:
            producer.send_async(Message(topic, b"from a callback"), lambda *_: second.set())
            entered.set()
            may_go.wait(20)

        producer.send_async(Message(topic, b"first"), hold)
        assert entered.wait(10)
        assert second.wait(10)
        with pytest.raises(RequestTimeout, match="asynchronous sends"):
            producer.send_async(Message(topic, b"one too many"), lambda *_: None)
        may_go.set()
        until(lambda: sends_async(producer, topic))


def sends_async(producer: Producer, topic: str) -> bool:
    try:
        producer.send_async(Message(topic, b"room again"), lambda *_: None)
    except RequestTimeout:
        return False
    return True


def test_one_way_sends_arrive(admin: Admin, cluster: ClusterUnderTest, make_topic: MakeTopic) -> None:
    topic = make_topic()
    with Producer(cluster.namesrv, cluster.credentials, "GID_p") as producer:
        for number in range(10):
            producer.send_oneway(Message(topic, b"%d" % number))
        until(lambda: len(stored(admin, topic)) == 10)


def test_messages_of_a_key_stay_in_order_in_the_queue_of_the_key(
    admin: Admin, cluster: ClusterUnderTest, make_topic: MakeTopic
) -> None:
    topic = make_topic(queues=8, message_type="FIFO")
    with Producer(cluster.namesrv, cluster.credentials, "GID_p") as producer:
        for number in range(20):
            result = producer.send_ordered(Message(topic, b"%d" % number), "N14228")
            assert result.queue == MessageQueue(topic, "broker-a", queue_of_key("N14228", 8))
    assert stored(admin, topic) == [b"%d" % number for number in range(20)]


def test_a_large_body_travels_compressed_and_is_read_whole(
    admin: Admin, cluster: ClusterUnderTest, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    body = b"a long body " * 50_000
    with Producer(cluster.namesrv, cluster.credentials, "GID_p") as producer:
        result = producer.send(Message(topic, body))
    message = message_at(admin, result)
    assert message.decoded_body() == body
    assert len(message.body) < len(body) / 10


def test_threads_share_a_producer(admin: Admin, cluster: ClusterUnderTest, make_topic: MakeTopic) -> None:
    topic = make_topic()
    with Producer(cluster.namesrv, cluster.credentials, "GID_p", timeout_ms=10_000) as producer:

        def send_some(name: str) -> None:
            for number in range(25):
                producer.send(Message(topic, f"{name}-{number}".encode()))

        threads = [threading.Thread(target=send_some, args=(str(number),)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(set(stored(admin, topic))) == 100


def test_a_forked_child_sends_with_the_producer_of_its_parent(
    admin: Admin, cluster: ClusterUnderTest, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    with Producer(cluster.namesrv, cluster.credentials, "GID_p") as producer:
        producer.send(Message(topic, b"before"))
        child = os.fork()
        if child == 0:
            code = 1
            try:
                producer.send(Message(topic, b"child"))
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        producer.send(Message(topic, b"after"))
    assert sorted(stored(admin, topic)) == [b"after", b"before", b"child"]


def test_a_delayed_message_is_delivered_in_time(admin: Admin, cluster: ClusterUnderTest, make_topic: MakeTopic) -> None:
    topic = make_topic(message_type="DELAY")
    with Producer(cluster.namesrv, cluster.credentials, "GID_p") as producer:
        begun = time.time()
        producer.send(Message(topic, b"level 1", delay_level=1))
        producer.send(Message(topic, b"timed", deliver_at_ms=int((begun + 2) * 1000)))
        early = stored(admin, topic)
        assert early == [] or time.time() - begun > 1.0
        until(lambda: len(stored(admin, topic)) == 2)
    assert time.time() - begun > 1.0


def test_only_committed_transactions_are_delivered(
    admin: Admin, cluster: ClusterUnderTest, make_topic: MakeTopic
) -> None:
    topic = make_topic(message_type="TRANSACTION")
    checked: list[MessageView] = []

    def check(message: MessageView) -> TransactionState:
        checked.append(message)
        return TransactionState.COMMIT

    with Producer(cluster.namesrv, cluster.credentials, "GID_tx", transaction_check=check) as producer:
        seen: list[str] = []

        def commit(message: Message, message_id: str) -> TransactionState:
            seen.append(message_id)
            assert stored(admin, topic) == []
            return TransactionState.COMMIT

        result = producer.send_transaction(Message(topic, b"commit"), commit)
        assert seen == [result.message_id]
        producer.send_transaction(Message(topic, b"rollback"), lambda *_: TransactionState.ROLLBACK)
        with pytest.raises(ValueError, match="local"):
            producer.send_transaction(Message(topic, b"failed"), _fail)
        until(lambda: stored(admin, topic) == [b"commit"])
        assert [client.language for client in admin.clients.producers("GID_tx")] == ["PYTHON"]
    assert checked == []


@pytest.mark.timeout(180)
def test_a_transaction_left_open_is_checked_back(
    admin: Admin, cluster: ClusterUnderTest, make_topic: MakeTopic
) -> None:
    topic = make_topic(message_type="TRANSACTION")
    checked: list[MessageView] = []

    def check(message: MessageView) -> TransactionState:
        checked.append(message)
        return TransactionState.COMMIT

    with Producer(cluster.namesrv, cluster.credentials, "GID_tx_open", transaction_check=check) as producer:
        message = Message(topic, b"open", properties={"CHECK_IMMUNITY_TIME_IN_SECONDS": "1"})
        result = producer.send_transaction(message, lambda *_: TransactionState.UNKNOWN)
        until(lambda: stored(admin, topic) == [b"open"], seconds=120)
    assert (checked[0].topic, checked[0].message_id, checked[0].body) == (topic, result.message_id, b"open")


def test_a_topic_that_does_not_exist_is_said(cluster: ClusterUnderTest) -> None:
    with (
        Producer(cluster.namesrv, cluster.credentials, "GID_p") as producer,
        pytest.raises(TopicNotExist, match="no-such-topic"),
    ):
        producer.send(Message("no-such-topic", b"b"))


def test_a_topic_without_write_permission_is_refused(cluster: ClusterUnderTest, make_topic: MakeTopic) -> None:
    topic = make_topic(perm=4)
    with Producer(cluster.namesrv, cluster.credentials, "GID_p") as producer, pytest.raises(NoPermission, match=topic):
        producer.send(Message(topic, b"b"))


def test_a_wrong_secret_is_refused_at_once(cluster: ClusterUnderTest, make_topic: MakeTopic) -> None:
    if cluster.credentials is None:
        pytest.skip("this cluster checks no signatures")
    topic = make_topic()
    wrong = Credentials(cluster.credentials.access_key_id, "wrong")
    for credentials in (wrong, None):
        with Producer(cluster.namesrv, credentials, "GID_p") as producer, pytest.raises(NoPermission):
            producer.send(Message(topic, b"b"))


def test_an_unreachable_cluster_is_said_by_send_and_callback(cluster: ClusterUnderTest) -> None:
    with Producer("127.0.0.1:1", cluster.credentials, "GID_p", timeout_ms=500) as producer:
        with pytest.raises(BrokerUnreachable):
            producer.send(Message("t", b"b"))
        with pytest.raises(BrokerUnreachable):
            producer.send_async(Message("t", b"b"), lambda *_: None)


def test_a_closed_producer_says_so(cluster: ClusterUnderTest, make_topic: MakeTopic) -> None:
    producer = Producer(cluster.namesrv, cluster.credentials, "GID_p")
    producer.close()
    producer.close()
    with pytest.raises(ClientClosed):
        producer.send(Message(make_topic(), b"b"))


def _fail(_message: Message, _message_id: str) -> TransactionState:
    raise ValueError("the local transaction failed")
