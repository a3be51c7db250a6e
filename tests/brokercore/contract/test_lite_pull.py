"""The lite pull consumer of our client."""

from __future__ import annotations

import threading
import time

import pytest

from brokercore.client import LitePullConsumer, Message, MessageSelector, MessageView
from brokercore.client.errors import ClientClosed, ClientError
from tests.brokercore.contract.cluster import Cluster
from tests.support.broker import eventually


def send(cluster: Cluster, topic: str, *bodies: str, tags: str = "") -> None:
    """Send one message of each body."""
    with cluster.producer() as producer:
        for body in bodies:
            producer.send(Message(topic, body.encode(), tags))


def poll_until(consumer: LitePullConsumer, count: int, seconds: float = 30.0) -> list[MessageView]:
    """Poll until so many messages came."""
    messages: list[MessageView] = []

    def enough() -> bool:
        messages.extend(consumer.poll(0.2))
        return len(messages) >= count

    eventually(enough, seconds)
    return messages


def bodies(messages: list[MessageView]) -> list[str]:
    return sorted(message.body.decode() for message in messages)


def test_it_polls_what_passes_its_filter_and_commits_what_it_polled(cluster: Cluster) -> None:
    topic, group = cluster.topic("lite"), cluster.group("lite")
    send(cluster, topic, "1", "2", "3", tags="TagA")
    send(cluster, topic, "other", tags="TagB")
    with cluster.pull_consumer(group).subscribe(topic, "TagA").start() as consumer:
        assert bodies(poll_until(consumer, 3)) == ["1", "2", "3"]
        assert consumer.assignment() == cluster.queues(topic)
    send(cluster, topic, "4", tags="TagA")
    with cluster.pull_consumer(group).subscribe(topic, "TagA").start() as consumer:
        assert bodies(poll_until(consumer, 1)) == ["4"]


def test_it_takes_a_sql92_filter(cluster: Cluster) -> None:
    topic, group = cluster.topic("lite-sql"), cluster.group("lite_sql")
    send(cluster, topic, "no")
    send(cluster, topic, "yes", tags="TagA")
    selector = MessageSelector.by_sql("TAGS = 'TagA'")
    with cluster.pull_consumer(group).subscribe(topic, selector).start() as consumer:
        assert bodies(poll_until(consumer, 1)) == ["yes"]


def test_what_a_failed_block_was_working_on_comes_again(cluster: Cluster) -> None:
    topic, group = cluster.topic("lite-fail", queues=1), cluster.group("lite_fail")
    send(cluster, topic, "1", "2", "3")
    consumer = cluster.pull_consumer(group)
    with pytest.raises(ValueError, match="on 2"), consumer.subscribe(topic).start():
        eventually(lambda: consumer.position(consumer.assignment()[0]) == 0 and consumer.poll(1, max_messages=1))
        eventually(lambda: consumer.poll(1, max_messages=1))
        raise ValueError("on 2")
    with cluster.pull_consumer(group).subscribe(topic).start() as again:
        assert bodies(poll_until(again, 2)) == ["2", "3"]


def test_without_auto_commit_only_commit_commits(cluster: Cluster) -> None:
    topic, group = cluster.topic("manual", queues=1), cluster.group("manual")
    (queue,) = cluster.queues(topic)
    send(cluster, topic, "1", "2", "3")
    with cluster.pull_consumer(group, auto_commit=False).subscribe(topic).start() as consumer:
        poll_until(consumer, 3)
        consumer.poll(0)
    with cluster.pull_consumer(group, auto_commit=False).subscribe(topic).start() as consumer:
        assert consumer.committed(queue) is None or consumer.committed(queue) == 0
        assert bodies(poll_until(consumer, 3)) == ["1", "2", "3"]
        consumer.commit()
        assert consumer.committed(queue) == 3
        consumer.commit({queue: 1})
        assert consumer.committed(queue) == 1


def test_it_seeks(cluster: Cluster) -> None:
    topic, group = cluster.topic("seek", queues=1), cluster.group("seek")
    (queue,) = cluster.queues(topic)
    send(cluster, topic, "0", "1")
    stored = cluster.wait_stored(topic, 2)
    eventually(lambda: time.time() * 1000 > stored[1].store_timestamp + 5)
    send(cluster, topic, "2", "3")
    later = cluster.wait_stored(topic, 4)
    with cluster.pull_consumer(group).assign([queue]).start() as consumer:
        assert bodies(poll_until(consumer, 4)) == ["0", "1", "2", "3"]
        consumer.seek(queue, 1)
        assert consumer.position(queue) == 1
        assert bodies(poll_until(consumer, 3)) == ["1", "2", "3"]
        consumer.seek_to_timestamp(queue, later[2].store_timestamp)
        assert bodies(poll_until(consumer, 2)) == ["2", "3"]
        consumer.seek_to_begin(queue)
        assert bodies(poll_until(consumer, 4)) == ["0", "1", "2", "3"]
        consumer.seek_to_end(queue)
        send(cluster, topic, "4")
        assert bodies(poll_until(consumer, 1)) == ["4"]
        assert consumer.offset_for_timestamp(queue, later[2].store_timestamp) == 2


def test_a_paused_queue_gives_nothing_until_it_is_resumed(cluster: Cluster) -> None:
    topic, group = cluster.topic("pause", queues=2), cluster.group("pause")
    first, second = cluster.queues(topic)
    with cluster.pull_consumer(group).assign([first, second]).start() as consumer:
        consumer.pause([first])
        assert consumer.paused() == [first]
        send(cluster, topic, "1", "2", "3", "4")
        messages = poll_until(consumer, 2)
        assert {message.queue for message in messages} == {second}
        assert consumer.poll(0.3) == []
        consumer.resume([first])
        assert {message.queue for message in poll_until(consumer, 2)} == {first}


def test_an_assignment_is_as_it_was_chosen_and_can_change(cluster: Cluster) -> None:
    topic, group = cluster.topic("assign", queues=4), cluster.group("assign")
    queues = cluster.queues(topic)
    send(cluster, topic, "0", "1", "2", "3")
    with cluster.pull_consumer(group).assign(queues[:1]).start() as consumer:
        assert consumer.fetch_queues(topic) == queues
        assert consumer.assignment() == queues[:1]
        assert {message.queue for message in poll_until(consumer, 1)} == {queues[0]}
        consumer.assign(queues[2:])
        assert consumer.assignment() == queues[2:]
        assert {message.queue for message in poll_until(consumer, 2)} == set(queues[2:])
        with pytest.raises(ClientError, match="is not assigned here"):
            consumer.seek(queues[0], 0)
        with pytest.raises(ClientError, match="not both"):
            consumer.subscribe(topic)


def test_two_clients_share_the_queues_and_one_takes_over(cluster: Cluster) -> None:
    topic, group = cluster.topic("lite-share", queues=4), cluster.group("lite_share")
    with cluster.pull_consumer(group).subscribe(topic).start() as first:
        with cluster.pull_consumer(group).subscribe(topic).start() as second:
            eventually(lambda: (len(first.assignment()), len(second.assignment())) == (2, 2), 60)
            send(cluster, topic, *"12345678")
            mine, theirs = bodies(poll_until(first, 4)), bodies(poll_until(second, 4))
            assert sorted(mine + theirs) == list("12345678")
        eventually(lambda: len(first.assignment()) == 4, 60)


def test_it_pulls_no_more_than_its_cache_holds(cluster: Cluster) -> None:
    topic, group = cluster.topic("cache", queues=1), cluster.group("cache")
    with cluster.producer() as producer:
        producer.send_batch([Message(topic, b"%03d" % number) for number in range(200)])
    (queue,) = cluster.queues(topic)
    with cluster.pull_consumer(group, max_cached_messages=40).subscribe(topic).start() as consumer:
        eventually(lambda: consumer.running_info().queues[queue]["cachedMsgCount"] >= 40)
        assert consumer.running_info().queues[queue]["cachedMsgCount"] < 40 + 32
        assert [message.body for message in poll_until(consumer, 200)] == [b"%03d" % number for number in range(200)]


def test_closing_wakes_up_who_polls(cluster: Cluster) -> None:
    topic, group = cluster.topic("lite-close"), cluster.group("lite_close")
    consumer = cluster.pull_consumer(group).subscribe(topic).start()
    raised: list[BaseException] = []

    def poll() -> None:
        try:
            consumer.poll(60)
        except ClientError as error:
            raised.append(error)

    thread = threading.Thread(target=poll)
    thread.start()
    consumer.close()
    consumer.close()
    thread.join(20)
    assert [type(error) for error in raised] == [ClientClosed]
    with pytest.raises(ClientClosed):
        consumer.poll(0)
