"""Offsets: committed, reset by time, cloned, told."""

from __future__ import annotations

import time

from brokercore.client import Message, MessageQueue, StoredMessage
from tests.brokercore.contract.cluster import Cluster
from tests.support.broker import eventually


def sent_in_two_parts(cluster: Cluster, topic: str) -> list[StoredMessage]:
    """Two messages, and two more that were stored at least 5 ms later."""
    with cluster.producer() as producer:
        for body in (b"0", b"1"):
            producer.send(Message(topic, body))
        early = cluster.wait_stored(topic, 2)
        eventually(lambda: time.time() * 1000 > early[1].store_timestamp + 5)
        for body in (b"2", b"3"):
            producer.send(Message(topic, body))
    return cluster.wait_stored(topic, 4)


def test_first_last_and_times_of_a_queue(cluster: Cluster) -> None:
    topic = cluster.topic("range", queues=1)
    (queue,) = cluster.queues(topic)
    stored = sent_in_two_parts(cluster, topic)
    admin = cluster.admin
    assert (admin.offsets.min(queue), admin.offsets.max(queue)) == (0, 4)
    assert admin.offsets.earliest_store_time(queue) == stored[0].store_timestamp
    assert admin.offsets.search(queue, 0) == 0
    assert admin.offsets.search(queue, stored[2].store_timestamp) == 2
    assert admin.offsets.search(queue, stored[2].store_timestamp - 1) == 2
    assert admin.offsets.search(queue, stored[3].store_timestamp + 60_000) == 4


def test_progress_of_a_group(cluster: Cluster) -> None:
    topic, group = cluster.topic("progress", queues=1), cluster.group("progress")
    names = cluster.physical(topic), cluster.physical(group)
    (queue,) = cluster.queues(topic)
    stored = sent_in_two_parts(cluster, topic)
    with cluster.pull_consumer(group, auto_commit=False).assign([queue]).start() as consumer:
        consumer.commit({queue: 3})
    progress = cluster.admin.groups.stats(names[1], names[0])
    assert progress.queues[queue][:2] == (4, 3)
    assert progress.backlog == 1
    assert cluster.admin.offsets.all_committed()[names] == {queue: 3}
    assert cluster.admin.offsets.committed(names[1], queue) == 3
    assert cluster.admin.groups.topics(names[1]) == [names[0]]
    assert names[1] in cluster.admin.topics.groups(names[0])
    span = cluster.admin.offsets.time_span(*names)[queue]
    assert (span.min_ms, span.max_ms) == (stored[0].store_timestamp, stored[3].store_timestamp)


def test_an_offline_group_begins_where_it_was_reset_to(cluster: Cluster) -> None:
    topic, group = cluster.topic("reset-offline", queues=1), cluster.group("reset_offline")
    names = cluster.physical(topic), cluster.physical(group)
    stored = sent_in_two_parts(cluster, topic)
    with cluster.consuming(topic, group) as received:
        received.wait_for("0", "1", "2", "3")
    moved = cluster.admin.offsets.reset(names[1], names[0], stored[2].store_timestamp)
    assert moved == {MessageQueue(names[0], "broker-a", 0): 2}
    with cluster.consuming(topic, group) as again:
        again.wait_for("2", "3")
    assert again.bodies == ["2", "3"]


def test_an_online_consumer_follows_a_reset(cluster: Cluster) -> None:
    topic, group = cluster.topic("reset-online", queues=1), cluster.group("reset_online")
    stored = sent_in_two_parts(cluster, topic)
    with cluster.consuming(topic, group) as received:
        received.wait_for("0", "1", "2", "3")
        cluster.admin.offsets.reset(cluster.physical(group), cluster.physical(topic), stored[2].store_timestamp)
        # Apache RocketMQ says so with the answer to the next pull; a message ends the one that waits.
        with cluster.producer() as producer:
            producer.send(Message(topic, b"4"))
        eventually(lambda: received.bodies[-3:] == ["2", "3", "4"], 60)
    assert received.bodies[:4] == ["0", "1", "2", "3"]


def test_a_group_can_be_skipped_to_the_end(cluster: Cluster) -> None:
    topic, group = cluster.topic("skip", queues=1), cluster.group("skip")
    names = cluster.physical(topic), cluster.physical(group)
    (queue,) = cluster.queues(topic)
    sent_in_two_parts(cluster, topic)
    cluster.admin.offsets.commit(names[1], {queue: 0})
    assert cluster.admin.groups.stats(names[1], names[0]).backlog == 4
    cluster.admin.offsets.reset(names[1], names[0], -1)
    assert cluster.admin.groups.stats(names[1], names[0]).backlog == 0


def test_a_group_can_stand_where_another_stands(cluster: Cluster) -> None:
    topic = cluster.topic("clone", queues=1)
    source, target = cluster.physical(cluster.group("clone")), cluster.physical(cluster.group("cloned"))
    (queue,) = cluster.queues(topic)
    sent_in_two_parts(cluster, topic)
    cluster.admin.offsets.commit(source, {queue: 3})
    cluster.admin.offsets.clone(source, target, queue.topic)
    assert cluster.admin.offsets.committed(target, queue) == 3
