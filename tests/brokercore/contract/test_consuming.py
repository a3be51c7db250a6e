"""Push consumers of our client: filters, sharing, broadcasting, order, where they begin, what they tell."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from brokercore.client import ConsumeResult, Message, MessageSelector, MessageView
from brokercore.client.errors import SubscriptionInvalid
from tests.brokercore.contract.cluster import Cluster
from tests.support.broker import eventually


def send(cluster: Cluster, topic: str, *bodies: str, tags: str = "", **properties: str) -> None:
    """Send one message of each body."""
    with cluster.producer() as producer:
        for body in bodies:
            producer.send(Message(topic, body.encode(), tags, properties=properties))


def test_a_message_arrives_with_all_that_was_sent(cluster: Cluster) -> None:
    topic, group = cluster.topic("arrives"), cluster.group("arrives")
    body = b"a body that is compressed on its way " * 500
    with cluster.consuming(topic, group) as received, cluster.producer() as producer:
        result = producer.send(Message(topic, body, "TagA", "k1 k2", {"city": "Zürich"}))
        eventually(lambda: received.messages, 30)
    (message,) = received.messages
    assert (message.topic, message.body, message.tags, message.keys) == (topic, body, "TagA", "k1 k2")
    assert (message.message_id, message.offset_message_id) == (result.message_id, result.offset_message_id)
    assert (message.queue, message.queue_offset) == (result.queue, result.queue_offset)
    assert (message.properties["city"], message.reconsume_times) == ("Zürich", 0)


def test_a_waiting_consumer_is_woken_by_the_message(cluster: Cluster) -> None:
    topic, group = cluster.topic("woken", queues=1), cluster.group("woken")
    with cluster.consuming(topic, group) as received:
        send(cluster, topic, "first")
        received.wait_for("first")
        begun = time.monotonic()
        send(cluster, topic, "second")  # the consumer holds a long poll of 15 s now
        received.wait_for("second")
        assert time.monotonic() - begun < 10


def test_a_tag_filter_compares_tags_and_not_only_their_hashes(cluster: Cluster) -> None:
    topic, group = cluster.topic("tags", queues=1), cluster.group("tags")
    for tag in ("Aa", "BB", "other", "", "more", "Aa"):  # "Aa" and "BB" have the same hash
        send(cluster, topic, f"of {tag}", tags=tag)
    with cluster.consuming(topic, group, "Aa || other") as received:
        received.wait_for("of Aa", "of other")
        eventually(lambda: len(received.messages) == 3)
    assert received.bodies == ["of Aa", "of other", "of Aa"]
    assert cluster.admin.groups.stats(cluster.physical(group), cluster.physical(topic)).backlog == 0


def test_a_sql92_filter_looks_at_properties(cluster: Cluster) -> None:
    topic, group = cluster.topic("sql", queues=1), cluster.group("sql")
    selector = MessageSelector.by_sql("city = 'Zürich' AND floor BETWEEN 5 AND 9 AND TAGS IN ('TagA', 'TagB')")
    for floor in ("1", "7", "9"):
        send(cluster, topic, f"floor {floor}", tags="TagA", city="Zürich", floor=floor)
    send(cluster, topic, "elsewhere", tags="TagA", city="Bern", floor="7")
    send(cluster, topic, "other tag", tags="TagC", city="Zürich", floor="7")
    send(cluster, topic, "no property")
    with cluster.consuming(topic, group, selector) as received:
        received.wait_for("floor 7", "floor 9")
        send(cluster, topic, "later", tags="TagB", city="Zürich", floor="5")
        received.wait_for("later")
    assert received.bodies == ["floor 7", "floor 9", "later"]


def test_a_broken_sql92_filter_is_refused_at_the_start(cluster: Cluster) -> None:
    topic, group = cluster.topic("broken-sql"), cluster.group("broken_sql")
    with (
        pytest.raises(SubscriptionInvalid),
        cluster.consuming(topic, group, MessageSelector.by_sql("floor BETWEEN 5")),
    ):
        pytest.fail("it started")


def test_two_clients_of_a_group_share_the_queues_and_one_takes_over(cluster: Cluster) -> None:
    topic, group = cluster.topic("share", queues=4), cluster.group("share")
    with cluster.consuming(topic, group) as first:
        with cluster.consuming(topic, group) as second:
            clients = [received.consumer for received in (first, second) if received.consumer]
            eventually(lambda: shares(clients), 60)
            send(cluster, topic, *(f"shared {n}" for n in range(8)))
            eventually(lambda: len({*first.bodies, *second.bodies}) == 8)
            assert not set(first.bodies) & set(second.bodies)
            assert first.bodies
            assert second.bodies
        send(cluster, topic, *(f"alone {n}" for n in range(8)))
        first.wait_for(*(f"alone {n}" for n in range(8)), seconds=60)


def shares(clients: list[Any]) -> bool:
    """True when each client has two of the topic's four queues; one also has that of the retry topic."""
    owned = [
        [queue for queue in client.running_info().queues if not queue.topic.startswith("%RETRY%")] for client in clients
    ]
    return [len(queues) for queues in owned] == [2, 2]


def test_broadcasting_reaches_every_client_and_goes_on_where_each_stopped(cluster: Cluster, tmp_path: Path) -> None:
    topic, group = cluster.topic("broadcast"), cluster.group("broadcast")
    one: dict[str, Any] = {"model": "BROADCASTING", "offset_file": tmp_path / "one.json"}
    two: dict[str, Any] = {"model": "BROADCASTING", "offset_file": tmp_path / "two.json"}
    news = [f"news {n}" for n in range(6)]
    with cluster.consuming(topic, group, **one) as first, cluster.consuming(topic, group, **two) as second:
        send(cluster, topic, *news)
        first.wait_for(*news)
        second.wait_for(*news)
    send(cluster, topic, "while away")
    with cluster.consuming(topic, group, **one) as again:
        again.wait_for("while away")
    assert again.bodies == ["while away"]


def test_an_ordered_consumer_goes_past_no_message_that_failed(cluster: Cluster) -> None:
    topic, group = cluster.topic("ordered", queues=4, message_type="FIFO"), cluster.group("ordered")
    with cluster.producer() as producer:
        for number in range(6):
            for key in ("a", "b", "c"):
                producer.send_ordered(Message(topic, f"{key}{number}".encode()), key)
    running: set[str] = set()
    together: list[str] = []
    lock = threading.Lock()

    def decide(message: MessageView) -> ConsumeResult:
        key = message.sharding_key
        with lock:
            together.extend(key for _ in running & {key})
            running.add(key)
        time.sleep(0.002)
        with lock:
            running.discard(key)
        failed = message.body in {b"a2", b"b0"} and message.reconsume_times < 2
        return ConsumeResult.RECONSUME_LATER if failed else ConsumeResult.SUCCESS

    options: dict[str, Any] = {"ordered": True, "suspend_s": 0.1}
    with cluster.consuming(topic, group, decide=decide, **options) as received:
        received.wait_for(*(f"{key}{number}" for key in "abc" for number in range(6)))
    assert together == []
    for key, failing in (("a", "a2"), ("b", "b0"), ("c", "")):
        expected = [f"{key}{n}" for n in range(6) for _ in range(3 if f"{key}{n}" == failing else 1)]
        assert [body for body in received.bodies if body[0] == key] == expected
    assert [message.reconsume_times for message in received.of("a2")] == [0, 1, 2]
    assert cluster.admin.groups.stats(cluster.physical(group), cluster.physical(topic)).backlog == 0


def test_an_ordered_message_is_a_dead_letter_after_its_last_attempt(cluster: Cluster) -> None:
    topic, group = cluster.topic("ordered-dead", queues=1, message_type="FIFO"), cluster.group("ordered_dead")
    send(cluster, topic, "before", "poison", "after")
    options: dict[str, Any] = {"ordered": True, "suspend_s": 0.05, "max_reconsume_times": 2}

    def decide(message: MessageView) -> ConsumeResult:
        return ConsumeResult.RECONSUME_LATER if message.body == b"poison" else ConsumeResult.SUCCESS

    with cluster.consuming(topic, group, decide=decide, **options) as received:
        received.wait_for("after")
    assert received.bodies == ["before", "poison", "poison", "poison", "after"]
    dead = f"%DLQ%{cluster.physical(group)}"
    assert [message.body for message in cluster.wait_stored(dead, 1)] == [b"poison"]


def test_the_locks_of_a_group_pass_to_the_next_client(cluster: Cluster) -> None:
    topic, group = cluster.topic("locks", queues=2, message_type="FIFO"), cluster.group("locks")
    with cluster.consuming(topic, group, ordered=True) as first:
        send(cluster, topic, "1", "2")
        first.wait_for("1", "2")
    names = cluster.physical(topic), cluster.physical(group)
    # The last commit of a client has no answer: the next one may ask before it has come.
    eventually(lambda: sum(cluster.admin.offsets.all_committed().get(names, {}).values()) == 2)
    with cluster.consuming(topic, group, ordered=True) as second:
        send(cluster, topic, "3", "4")
        second.wait_for("3", "4")
    assert sorted(second.bodies) == ["3", "4"]


@pytest.mark.parametrize("begin", ["CONSUME_FROM_FIRST_OFFSET", "CONSUME_FROM_TIMESTAMP"])
def test_a_new_group_begins_where_it_says(cluster: Cluster, begin: str) -> None:
    topic, group = cluster.topic("begin", queues=1), cluster.group("begin")
    send(cluster, topic, "old")
    (old,) = cluster.wait_stored(topic, 1)
    eventually(lambda: time.time() * 1000 > old.store_timestamp + 5)
    send(cluster, topic, "new")
    options: dict[str, Any] = {"consume_from": begin, "consume_timestamp_ms": old.store_timestamp + 2}
    with cluster.consuming(topic, group, **options) as received:
        received.wait_for("new")
    assert received.bodies == (["old", "new"] if begin == "CONSUME_FROM_FIRST_OFFSET" else ["new"])


def test_a_consumer_tells_of_itself_and_is_seen_by_the_broker(cluster: Cluster) -> None:
    topic, group = cluster.topic("seen"), cluster.group("seen")
    names = cluster.physical(topic), cluster.physical(group)
    with cluster.consuming(topic, group, "TagA || TagB") as received:
        send(cluster, topic, "counted", tags="TagA")
        received.wait_for("counted")
        connection = cluster.admin.clients.consumers(names[1])
        (client,) = connection.connections
        assert (client.language, connection.message_model) == ("PYTHON", "CLUSTERING")
        assert connection.subscriptions[names[0]].expression == "TagA || TagB"
        info = cluster.admin.clients.running_info(names[1], client.client_id, jstack=True)
        assert {queue.topic for queue in info.queues} >= {names[0]}
        assert "read_pull" in info.jstack or "threading.py" in info.jstack
        offset_id = received.messages[0].offset_message_id
        result = cluster.admin.clients.consume_directly(names[1], client.client_id, offset_id, names[0])
        assert result.result == "CR_SUCCESS"
    assert received.bodies == ["counted", "counted"]
