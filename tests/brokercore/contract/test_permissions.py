"""Who may not: unsigned, wrongly signed, only reading, of another tenant."""

from __future__ import annotations

import pytest

from brokercore.client import Admin, Message, Producer
from brokercore.client.errors import ClientError, NoPermission
from tests.brokercore.contract.cluster import TIMEOUT_MS, Cluster
from tests.brokercore.contract.differences import Differs
from tests.compat.programs import Keys
from tests.compat.world import INSTANCE
from tests.support.broker import eventually


@pytest.fixture(scope="module")
def topic(cluster: Cluster) -> str:
    return cluster.topic("guarded", queues=1)


def test_a_wrong_secret_and_an_unknown_key_are_refused(cluster: Cluster, topic: str) -> None:
    for keys in (Keys(cluster.world.tenant.access_key_id, "not-the-secret"), Keys("LTAInobody", "whatever")):
        with cluster.producer(keys=keys) as producer, pytest.raises(NoPermission):
            producer.send(Message(topic, b"refused"))
    assert cluster.stored(topic) == []


def test_an_unsigned_request_is_refused(cluster: Cluster, topic: str) -> None:
    producer = Producer(cluster.namesrv, None, "GID_nobody", namespace=INSTANCE, timeout_ms=TIMEOUT_MS)
    with producer, pytest.raises(ClientError) as refusal:
        producer.send(Message(topic, b"refused"))
    assert isinstance(refusal.value, NoPermission)
    assert cluster.stored(topic) == []


def test_who_may_only_read_reads_and_does_not_write(cluster: Cluster) -> None:
    topic, group = cluster.topic("read-only", queues=1), cluster.group("read_only")
    keys = cluster.world.read_only
    with cluster.producer() as producer:
        producer.send(Message(topic, b"allowed"))
    with cluster.pull_consumer(group, keys).subscribe(topic).start() as consumer:
        eventually(lambda: [message.body for message in consumer.poll(1)] == [b"allowed"], 30)
    with cluster.producer(keys=keys) as producer, pytest.raises(NoPermission):
        producer.send(Message(topic, b"refused"))
    with cluster.producer(keys=keys) as producer, pytest.raises(NoPermission):
        producer.send_batch([Message(topic, b"refused")])
    assert cluster.stored_bodies(topic) == ["allowed"]


def test_another_tenant_neither_writes_nor_reads_nor_commits(cluster: Cluster, differs: Differs) -> None:
    topic, group = cluster.topic("private", queues=1), cluster.group("private")
    stranger = cluster.world.stranger
    hidden = differs("another account's topic")
    with cluster.producer() as producer:
        producer.send(Message(topic, b"secret"))
    (queue,) = cluster.queues(topic)
    with cluster.producer(keys=stranger) as producer, pytest.raises(hidden):
        producer.send(Message(topic, b"refused"))
    with Admin(cluster.namesrv, cluster.credentials(stranger), timeout_ms=TIMEOUT_MS) as admin:
        with pytest.raises(NoPermission):
            admin.messages.pull(queue, 0)
        with pytest.raises(NoPermission):
            admin.offsets.commit(cluster.physical(group), {queue: 1})
        with pytest.raises(hidden):
            admin.topics.stats(queue.topic)
        with pytest.raises(NoPermission):
            admin.topics.create(cluster.physical("stolen"))
        with pytest.raises(NoPermission):
            admin.topics.delete(queue.topic)
    with differs("a consumer of another account's topic"):
        cluster.pull_consumer(group, stranger).subscribe(topic).start().close()
    assert cluster.stored_bodies(topic) == ["secret"]


def test_who_may_only_read_creates_and_deletes_no_topic(cluster: Cluster, topic: str) -> None:
    with Admin(cluster.namesrv, cluster.credentials(cluster.world.read_only), timeout_ms=TIMEOUT_MS) as admin:
        with pytest.raises(NoPermission):
            admin.topics.create(cluster.physical("not-mine"))
        with pytest.raises(NoPermission):
            admin.topics.delete(cluster.physical(topic))
    assert cluster.queues(topic)


@pytest.mark.parametrize("what", ["group", "setting", "name server's value"])
def test_who_may_only_read_changes_nothing_else(cluster: Cluster, differs: Differs, what: str) -> None:
    """Apache RocketMQ 5.3.3 authorizes only what stands in the header of a request, and nothing at its name server."""
    credentials = cluster.credentials(cluster.world.read_only)
    refusal = differs(f"change of a {what} by any user")
    with Admin(cluster.namesrv, credentials, timeout_ms=TIMEOUT_MS) as admin, refusal:
        if what == "group":
            admin.groups.create(cluster.physical("GID_not_mine"))
        elif what == "setting":
            admin.brokers.update_config("broker-a", {"fileReservedTime": "72"})
        else:
            admin.name_servers.put_key_value("CONTRACT", "by-anybody", "value")
