"""The vendor's Java clients, rocketmq-client 5.3.3 and ons-client 1.8.8.5, on both clusters and together with ours."""

from __future__ import annotations

from typing import TypeVar

import pytest

from brokercore.client import MessageView
from tests.brokercore.contract.cluster import Cluster
from tests.brokercore.contract.differences import Differs
from tests.brokercore.contract.java_runs import JAVA_SECONDS, ORDERED_COUNT, SHARDING_KEYS, JavaRuns, ended
from tests.compat.world import failures, sent
from tests.support.broker import eventually

#: The timers of Apache RocketMQ are exact to a second; a busy machine may add some.
EARLY_MS, LATE_MS = 1000, 6000

T = TypeVar("T")


def two(items: list[T]) -> list[T] | None:
    """The items when there are two of them."""
    return items if len(items) >= 2 else None


def test_every_way_of_sending_arrives_at_our_consumer_as_it_was_sent(java: JavaRuns) -> None:
    events = ended(java.program("apache producer")) + ended(java.program("ons producer"))
    assert failures(events) == []
    messages = java.ours.wait_for(*java.ways_bodies, seconds=JAVA_SECONDS)
    assert set(java.ours.bodies) == set(java.ways_bodies)  # a client that got no answer in time sends again
    for message in messages:
        assert (message.topic, message.tags, message.keys) == (java.ways_topic, "TagA", "order-1")
        assert (message.properties["colour"], message.properties["city"]) == ("blue", "Zürich")
    ids = {event["body"]: event["id"] for event in sent(events) if event.get("id") and event["mode"] != "batch"}
    assert {message.body.decode(): message.message_id for message in messages if message.body.decode() in ids} == ids


@pytest.mark.parametrize("consumer", ["push", "lite", "ons"])
def test_every_way_of_sending_arrives_at_java_s_consumers(java: JavaRuns, consumer: str) -> None:
    running = java.program(f"{consumer} consumer")
    received = running.wait_received(java.ways_bodies, JAVA_SECONDS)
    assert set(running.bodies()) == set(java.ways_bodies)
    assert {(event["topic"], event["tag"], event["key"]) for event in received} == {
        (java.ways_topic, "TagA", "order-1")
    }


def test_messages_of_a_batch_have_ids_of_their_own(java: JavaRuns, differs: Differs) -> None:
    java.ours.wait_for(*java.ways_bodies, seconds=JAVA_SECONDS)
    batch = [message for message in java.ours.messages if message.body.startswith(b"apache-batch")]
    assert len({message.message_id for message in batch}) == differs("ids in a batch of two of rocketmq-client")


def test_our_messages_pass_java_s_sql92_filter(java: JavaRuns) -> None:
    consumer = java.program("sql consumer")
    consumer.wait_received(["Zürich 7", "Zürich 9"], JAVA_SECONDS)
    assert sorted(consumer.bodies()) == ["Zürich 7", "Zürich 9"]


def test_order_of_ons_client_is_kept_by_its_consumer_and_by_ours(cluster: Cluster, java: JavaRuns) -> None:
    assert failures(ended(java.program("order producer"))) == []
    expected = {key: [f"{key}-{n}" for n in range(ORDERED_COUNT)] for key in SHARDING_KEYS}
    everything = [body for bodies in expected.values() for body in bodies]
    with cluster.consuming(java.ordered_topic, cluster.group("java_ordered_ours"), ordered=True) as ours:
        ours.wait_for(*everything)
    theirs = java.program("order consumer")
    theirs.wait_received(everything, JAVA_SECONDS)
    for key, bodies in expected.items():
        assert [body for body in ours.bodies if body.startswith(f"{key}-")] == bodies
        assert [body for body in theirs.bodies() if body.startswith(f"{key}-")] == bodies


def test_a_java_client_and_ours_share_a_group(cluster: Cluster, java: JavaRuns) -> None:
    topic, group = java.ways_topic, java.ways_groups["push"]
    java.program("push consumer").wait_received(java.ways_bodies, JAVA_SECONDS)
    with cluster.consuming(topic, group, "TagA || TagZ") as ours:
        client = ours.consumer
        assert client is not None

        def shared() -> bool:
            owned = [queue for queue in client.running_info().queues if not queue.topic.startswith("%RETRY%")]
            return len(owned) == 1

        eventually(shared, 60)
        members = cluster.admin.clients.consumers(cluster.physical(group)).connections
        assert sorted(member.language for member in members) == ["JAVA", "PYTHON"]


def test_a_message_that_java_fails_on_is_a_dead_letter_after_its_retry(cluster: Cluster, java: JavaRuns) -> None:
    consumer = java.program("failing consumer")
    consumer.wait_until(lambda: len(consumer.bodies()) == 2, "the retry", JAVA_SECONDS)
    first, second = consumer.named("received")
    assert (first["reconsumeTimes"], second["reconsumeTimes"]) == (0, 1)
    assert 9_500 <= second["at"] - first["at"] <= 18_000
    (letter,) = cluster.wait_stored(f"%DLQ%{cluster.physical(java.retry_group)}", 1, JAVA_SECONDS)
    assert (letter.unique_id, letter.body) == (java.poison.message_id, b"poison")


def test_transactions_of_java_end_as_they_say(cluster: Cluster, java: JavaRuns, differs: Differs) -> None:
    deliveries = differs("deliveries of transactions that were asked about")
    bodies = eventually(lambda: two(deliveries(cluster.stored_bodies(java.tx_topic))), JAVA_SECONDS)
    assert bodies == ["commit", "unknown"]
    assert "unknown" in {event["body"] for event in java.program("transactions").named("checked")}


def test_a_delay_level_of_java_is_kept(java: JavaRuns) -> None:
    assert failures(ended(java.program("level"))) == []
    message, came_ms = delivery(java, "level-sync-0")
    assert -EARLY_MS <= came_ms - message.born_timestamp_ms - 5000 <= LATE_MS


def test_a_delivery_time_of_java_is_kept(java: JavaRuns) -> None:
    assert failures(ended(java.program("timer"))) == []
    message, came_ms = delivery(java, "timer-sync-0")
    assert -EARLY_MS <= came_ms - int(message.properties["TIMER_DELIVER_MS"]) <= LATE_MS


def test_the_delivery_time_of_ons_client(java: JavaRuns, differs: Differs) -> None:
    assert failures(ended(java.program("ons timer"))) == []
    message, came_ms = delivery(java, "ons-sync-0")
    in_time = -EARLY_MS <= came_ms - int(message.properties["__STARTDELIVERTIME"]) <= LATE_MS
    assert in_time == differs("delivery time of ons-client is kept")


def delivery(java: JavaRuns, body: str) -> tuple[MessageView, int]:
    """A delayed message, and when it came (epoch ms)."""
    java.delayed.wait_for(body, seconds=JAVA_SECONDS)
    (message,), (came_ms,) = java.delayed.of(body), java.delayed.times_of(body)
    return message, came_ms


def test_java_s_questions_are_answered_by_our_client(cluster: Cluster, java: JavaRuns) -> None:
    requester = cluster.world.start("ApacheRequester", java.questions_topic, "GID_java_asks", count=2)
    with (
        cluster.consuming(java.questions_topic, cluster.group("java_answers")) as questions,
        cluster.producer() as producer,
    ):
        asked: list[MessageView] = eventually(lambda: two(questions.messages), JAVA_SECONDS)
        for question in asked:
            producer.reply(question, b"re: " + question.body)
        replies = sorted(event["body"] for event in ended(requester) if event["event"] == "replied")
    assert replies == ["re: question-0", "re: question-1"]


def test_java_is_refused_what_its_keys_do_not_allow(cluster: Cluster, java: JavaRuns) -> None:
    for program in (java.program("reader"), java.program("stranger")):
        events = ended(program)
        assert sent(events) == []
        assert failures(events)
    assert cluster.stored(java.guarded_topic) == []


def test_our_admin_client_sees_java_s_consumer(cluster: Cluster, java: JavaRuns) -> None:
    group = cluster.physical(java.retry_group)
    java.program("failing consumer")
    (client,) = eventually(lambda: cluster.admin.clients.consumers(group).connections)
    assert client.language == "JAVA"
    info = cluster.admin.clients.running_info(group, client.client_id, jstack=True)
    assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
    assert "RebalanceService" in info.jstack


def test_the_trace_of_a_message_tells_who_sent_it(cluster: Cluster, java: JavaRuns) -> None:
    events = ended(java.program("apache producer"))
    message = next(event for event in sent(events) if event["mode"] == "sync")
    (record,) = eventually(lambda: cluster.admin.traces.of_message(message["id"]), 30)
    assert (record.kind, record.succeeded) == ("Pub", True)
    assert record.group.endswith("GID_java")
    assert record.fields["topic"].endswith(java.ways_topic)
    assert record.fields["keys"] == "order-1"
