"""The admin client against a real broker."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from brokercore.client import Admin, Message, MessageQueue, Producer, PullStatus, PushConsumer
from brokercore.client.errors import BrokerNotExist, BrokerUnreachable, ConsumerNotOnline, QueryNotFound, TopicNotExist
from brokercore.client.messages import ConsumeResult
from brokercore.protocol.errors import MessageFormatError
from tests.brokercore.client.conftest import ClusterUnderTest, MakeTopic, unique_name
from tests.brokercore.client.peer import until

pytestmark = pytest.mark.broker


@pytest.fixture
def producer(cluster: ClusterUnderTest) -> Producer:
    return Producer(cluster.namesrv, cluster.credentials, "GID_admin_tests")


def test_it_names_brokers_and_clusters(admin: Admin) -> None:
    cluster = admin.brokers.cluster()
    assert cluster.clusters == {"DefaultCluster": ["broker-a"]}
    assert admin.brokers.runtime_info()["broker-a"]["brokerVersionDesc"]


def test_a_created_topic_has_its_queues_type_and_route(admin: Admin, make_topic: MakeTopic) -> None:
    topic = make_topic(queues=3, message_type="FIFO")
    assert topic in admin.topics.names()
    config = admin.topics.config(topic)
    assert (config.read_queues, config.write_queues, config.perm, config.message_type) == (3, 3, 6, "FIFO")
    assert admin.topics.configs()[topic] == config
    assert admin.topics.route(topic).queues[0].write_queues == 3


def test_topics_with_fixed_queues_are_made_while_a_name_server_is_away(cluster: ClusterUnderTest) -> None:
    topic = unique_name("fixed")
    with Admin(f"127.0.0.1:1;{cluster.namesrv}", cluster.credentials) as admin:
        admin.topics.create(topic, queues=1, order=True)
        assert admin.topics.config(topic).order
        admin.topics.delete(topic)
        assert topic not in admin.topics.names()
    with Admin("127.0.0.1:1;127.0.0.1:2", cluster.credentials) as admin, pytest.raises(BrokerUnreachable):
        admin.topics.delete(topic)


def test_a_deleted_topic_is_gone(admin: Admin, make_topic: MakeTopic) -> None:
    topic = make_topic()
    admin.topics.delete(topic)
    with pytest.raises(TopicNotExist):
        admin.topics.route(topic)
    assert topic not in admin.topics.configs()


def test_a_group_can_be_created_changed_and_deleted(admin: Admin) -> None:
    group = unique_name("GID")
    admin.groups.create(group, retry_max_times=3)
    assert admin.groups.configs()[group].retry_max_times == 3
    admin.groups.create(group, retry_max_times=5, consume_enable=False)
    assert (admin.groups.configs()[group].retry_max_times, admin.groups.configs()[group].consume_enable) == (5, False)
    admin.groups.delete(group)
    assert group not in admin.groups.configs()


def test_statistics_count_what_was_sent(admin: Admin, make_topic: MakeTopic, producer: Producer) -> None:
    topic, empty = make_topic(), make_topic()
    before = int(time.time() * 1000)
    for number in range(5):
        producer.send(Message(topic, b"%d" % number))
    # Apache RocketMQ counts a moment after it acknowledged.
    until(lambda: sum(queue.max_offset - queue.min_offset for queue in admin.topics.stats(topic).values()) == 5)
    stats = admin.topics.stats(topic)
    assert len(stats) == 2
    assert max(queue.last_update_ms for queue in stats.values()) >= before - 1000
    many = admin.topics.stats_of([topic, empty, "no-such-topic"])
    assert set(many) == {topic, empty}
    assert many[topic] == stats
    with pytest.raises(TopicNotExist):
        admin.topics.stats("no-such-topic")


def test_messages_are_found_by_offset_id_key_and_unique_id(
    admin: Admin, make_topic: MakeTopic, producer: Producer
) -> None:
    topic = make_topic(queues=1)
    first = producer.send(Message(topic, b"first", "tag", "order-1 customer-7", {"user": "property"}))
    second = producer.send(Message(topic, b"second", keys="customer-7"))
    until(lambda: len(admin.messages.query(topic, "customer-7")) == 2)
    assert [message.body for message in admin.messages.query(topic, "customer-7")] == [b"first", b"second"]
    assert [message.unique_id for message in admin.messages.query(topic, "order-1")] == [first.message_id]
    assert admin.messages.query(topic, second.message_id, unique=True)[0].body == b"second"
    assert admin.messages.query(topic, "nobody") == []
    viewed = admin.messages.view(first.offset_message_id, topic)
    assert (viewed.body, viewed.tags, viewed.properties["user"]) == (b"first", "tag", "property")
    assert viewed.offset_message_id == first.offset_message_id


def test_an_id_that_leads_elsewhere_is_not_followed(admin: Admin, make_topic: MakeTopic, producer: Producer) -> None:
    topic, other = make_topic(), make_topic()
    sent = producer.send(Message(topic, b"body"))
    with pytest.raises(QueryNotFound, match=r"10\.9\.9\.9"):
        admin.messages.view("0A09090900002A9F0000000000000000", topic)
    with pytest.raises(QueryNotFound):
        admin.messages.view(sent.offset_message_id, other)
    with pytest.raises(QueryNotFound):
        admin.messages.view(sent.offset_message_id[:16] + "00000FFFFFFFFFFF", topic)
    with pytest.raises(MessageFormatError):
        admin.messages.view("no id", topic)


def test_a_queue_is_read_by_offset_and_time_without_committing(
    admin: Admin, make_topic: MakeTopic, producer: Producer
) -> None:
    topic = make_topic(queues=1)
    queue = MessageQueue(topic, "broker-a", 0)
    assert admin.messages.pull(queue, 0).status is PullStatus.NO_NEW_MSG
    for number in range(40):
        producer.send(Message(topic, b"%d" % number, tags=f"t{number}"))
    assert (admin.offsets.min(queue), admin.offsets.max(queue)) == (0, 40)
    result = admin.messages.pull(queue, 5, max_messages=3)
    assert [message.body for message in result.messages] == [b"5", b"6", b"7"]
    assert (result.next_offset, result.min_offset, result.max_offset) == (8, 0, 40)
    assert admin.messages.pull(queue, 41).status is PullStatus.OFFSET_ILLEGAL
    tenth = admin.messages.pull(queue, 10, 1).messages[0]
    found = admin.offsets.search(queue, tenth.store_timestamp)
    assert admin.messages.pull(queue, found, 1).messages[0].store_timestamp == tenth.store_timestamp
    assert admin.offsets.search(queue, int(time.time() * 1000) + 60_000) == 40
    assert all(reader != "TOOLS_CONSUMER" for at, reader in admin.offsets.all_committed() if at == topic)


def test_offsets_of_a_group_can_be_read_and_moved(
    admin: Admin, make_topic: MakeTopic, make_group: Callable[[], str], producer: Producer
) -> None:
    topic, group = make_topic(queues=1), make_group()
    queue = MessageQueue(topic, "broker-a", 0)
    for _ in range(4):
        producer.send(Message(topic, b"body"))
    admin.offsets.commit(group, {queue: 3})
    assert admin.offsets.all_committed()[topic, group] == {queue: 3}
    progress = admin.groups.stats(group, topic).queues[queue]
    assert (progress.broker_offset, progress.consumer_offset) == (4, 3)
    assert admin.groups.stats(group).backlog == 1
    assert admin.topics.groups(topic) == [group]
    assert topic in admin.groups.topics(group)
    assert admin.offsets.reset(group, topic, 0) == {queue: 0}
    until(lambda: admin.groups.stats(group, topic).backlog == 4)
    assert admin.offsets.reset(group, topic, -1) == {queue: 4}
    span = admin.offsets.time_span(topic, group)[queue]
    assert 0 < span.min_ms <= span.max_ms


def test_an_online_consumer_tells_of_itself(
    admin: Admin, cluster: ClusterUnderTest, make_topic: MakeTopic, make_group: Callable[[], str], producer: Producer
) -> None:
    topic, group = make_topic(), make_group()
    with pytest.raises(ConsumerNotOnline):
        admin.clients.consumers(group)
    seen: list[bytes] = []
    with PushConsumer(cluster.namesrv, cluster.credentials, group) as consumer:

        @consumer.on_message
        def handle(message: object) -> ConsumeResult:
            seen.append(message.body)  # type: ignore[attr-defined]
            return ConsumeResult.SUCCESS

        consumer.subscribe(topic, "tagA || tagB").start()
        connection = admin.clients.consumers(group)
        assert [client.client_id for client in connection.connections] == [consumer.client_id]
        assert connection.connections[0].language == "PYTHON"
        assert connection.subscriptions[topic].expression == "tagA || tagB"
        assert (connection.message_model, connection.consume_type) == ("CLUSTERING", "CONSUME_PASSIVELY")
        info = admin.clients.running_info(group, consumer.client_id, jstack=True)
        assert "test_an_online_consumer_tells_of_itself" in info.jstack
        assert {queue.queue_id for queue in info.queues if queue.topic == topic} == {0, 1}
        assert admin.clients.running_info(group, consumer.client_id).jstack == ""
        sent = producer.send(Message(topic, b"not subscribed", tags="other"))
        result = admin.clients.consume_directly(group, consumer.client_id, sent.offset_message_id, topic)
        assert (result.result, seen) == ("CR_SUCCESS", [b"not subscribed"])
        with pytest.raises(ConsumerNotOnline):
            admin.clients.running_info(group, "nobody")
    until(lambda: _is_offline(admin, group))


def test_an_outage_is_an_error_and_never_an_empty_answer() -> None:
    with Admin("127.0.0.1:1", None, timeout_ms=500) as admin:
        topics = admin.topics
        for ask in (topics.names, topics.configs, admin.offsets.all_committed, lambda: topics.stats_of(["t"])):
            with pytest.raises(BrokerUnreachable):
                ask()


def test_an_unknown_broker_is_named(admin: Admin) -> None:
    with pytest.raises(BrokerNotExist, match="broker-zz"):
        admin.offsets.max(MessageQueue("t", "broker-zz", 0))


def _is_offline(admin: Admin, group: str) -> bool:
    try:
        admin.clients.consumers(group)
    except ConsumerNotOnline:
        return True
    return False
