"""Messages found by id, key, unique key, time and place."""

from __future__ import annotations

import time

import pytest

from brokercore.client import Message, PullStatus, SendResult
from brokercore.client.errors import QueryNotFound, TopicNotExist
from tests.brokercore.contract.cluster import Cluster
from tests.support.broker import eventually


def sent(cluster: Cluster, topic: str) -> list[SendResult]:
    """Three messages with the key `order-1`, the second also with `order-2`."""
    with cluster.producer() as producer:
        results = [
            producer.send(Message(topic, b"%d" % number, keys=keys))
            for number, keys in enumerate(("order-1", "order-1 order-2", "order-1"))
        ]
    cluster.wait_stored(topic, 3)
    return results


def test_by_key_and_by_unique_id(cluster: Cluster) -> None:
    topic = cluster.topic("keys")
    results, name, admin = sent(cluster, topic), cluster.physical(topic), cluster.admin

    def bodies(key: str, *, unique: bool = False) -> list[bytes]:
        # Those of two queues that were stored in one millisecond come in any order.
        return sorted(message.body for message in admin.messages.query(name, key, unique=unique))

    # The index of Apache RocketMQ follows a moment later.
    eventually(lambda: bodies("order-1") == [b"0", b"1", b"2"])
    assert bodies("order-2") == [b"1"]
    assert bodies("order") == []
    assert bodies(results[2].message_id, unique=True) == [b"2"]
    assert bodies("F" * 32, unique=True) == []


def test_by_key_and_time(cluster: Cluster) -> None:
    topic = cluster.topic("key-times")
    name, admin = cluster.physical(topic), cluster.admin
    sent(cluster, topic)
    eventually(lambda: len(admin.messages.query(name, "order-1")) == 3)
    now = int(time.time() * 1000)
    assert len(admin.messages.query(name, "order-1", begin_ms=now - 60_000, end_ms=now + 60_000)) == 3
    assert admin.messages.query(name, "order-1", begin_ms=now + 60_000, end_ms=now + 120_000) == []
    assert len(admin.messages.query(name, "order-1", max_messages=2)) == 2


def test_by_time(cluster: Cluster) -> None:
    topic = cluster.topic("times", queues=1)
    name, admin = cluster.physical(topic), cluster.admin
    sent(cluster, topic)
    stored = cluster.stored(topic)
    first, last = stored[0].store_timestamp, stored[-1].store_timestamp
    assert [m.body for m in admin.messages.between(name, first, last + 1)] == [b"0", b"1", b"2"]
    assert [m.body for m in admin.messages.between(name, first, last + 1, max_messages=1)] == [b"0"]
    assert admin.messages.between(name, last + 1, last + 60_000) == []
    assert admin.messages.between(name, first - 60_000, first) == []


def test_by_offset_id(cluster: Cluster) -> None:
    topic, other = cluster.topic("ids"), cluster.topic("other")
    results, name, admin = sent(cluster, topic), cluster.physical(topic), cluster.admin
    message = admin.messages.view(results[1].offset_message_id, name)
    assert (message.body, message.unique_id) == (b"1", results[1].message_id)
    with pytest.raises(QueryNotFound):
        admin.messages.view(results[1].offset_message_id, cluster.physical(other))
    elsewhere = "7F000002" + results[1].offset_message_id[8:]
    with pytest.raises(QueryNotFound, match="no broker of topic"):
        admin.messages.view(elsewhere, name)


def test_by_queue_and_offset(cluster: Cluster) -> None:
    topic = cluster.topic("places", queues=1)
    sent(cluster, topic)
    (queue,) = cluster.queues(topic)
    found = cluster.admin.messages.pull(queue, 1)
    assert (found.status, [m.body for m in found.messages], found.next_offset) == (PullStatus.FOUND, [b"1", b"2"], 3)
    assert (found.min_offset, found.max_offset) == (0, 3)
    assert [m.body for m in cluster.admin.messages.pull(queue, 0, 1).messages] == [b"0"]
    behind = cluster.admin.messages.pull(queue, 3)
    assert (behind.status, behind.messages) == (PullStatus.NO_NEW_MSG, [])
    beyond = cluster.admin.messages.pull(queue, 99)
    assert (beyond.status, beyond.next_offset) == (PullStatus.OFFSET_ILLEGAL, 3)


def test_what_does_not_exist_is_said(cluster: Cluster) -> None:
    name = cluster.physical("no-such-topic")
    with pytest.raises(TopicNotExist):
        cluster.admin.messages.query(name, "key")
    with pytest.raises(TopicNotExist):
        cluster.admin.messages.between(name, 0, 1)
