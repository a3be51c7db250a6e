"""Clients on a cluster of two masters, one of which is killed and comes back."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from brokercore.client import (
    Admin,
    ConsumeResult,
    LitePullConsumer,
    Message,
    MessageView,
    Producer,
    PushConsumer,
    SendResult,
)
from brokercore.client.errors import ClientError
from tests.brokercore.client.peer import until
from tests.support.brokers import CREDENTIALS, Pair, two_brokers

pytestmark = pytest.mark.broker

BOTH = {"broker-a", "broker-b"}
_numbers = itertools.count()


@pytest.fixture(scope="module")
def running() -> Iterator[Pair]:
    with two_brokers() as pair:
        yield pair


@pytest.fixture
def pair(running: Pair) -> Pair:
    """Both brokers serve, whatever the test before did."""
    for broker in (running.a, running.b):
        if not broker.running:
            broker.start()
    running.whole()
    return running


@pytest.fixture
def topic(pair: Pair) -> str:
    name = f"topic-{next(_numbers)}"
    pair.admin.topics.create(name, queues=2, message_type="FIFO")
    return name


@pytest.fixture
def group(pair: Pair) -> str:
    name = f"GID-{next(_numbers)}"
    pair.admin.groups.create(name)
    return name


def brokers(results: list[SendResult]) -> list[str]:
    return [result.queue.broker_name for result in results]


def test_every_way_of_sending_goes_on_with_the_other_broker(pair: Pair, topic: str) -> None:
    with Producer(pair.namesrv, CREDENTIALS, "PID", timeout_ms=5000) as producer:
        assert set(brokers([producer.send(Message(topic, b"both")) for _ in range(4)])) == BOTH
        pair.b.kill()
        assert set(brokers([producer.send(Message(topic, b"sync")) for _ in range(8)])) == {"broker-a"}
        assert set(brokers(producer.send_batch([Message(topic, b"batch")] * 4))) == {"broker-a"}
        outcomes: list[tuple[SendResult | None, ClientError | None]] = []
        for _ in range(8):
            producer.send_async(Message(topic, b"async"), lambda *outcome: outcomes.append(outcome))
        until(lambda: len(outcomes) == 8)
        assert [error for _, error in outcomes if error] == []
        pair.b.start()
        # It is not avoided for ever: half a minute at most, and less once the others fail too.
        pair.a.kill()
        until(lambda: sends(producer, topic) == "broker-b", 30)


def sends(producer: Producer, topic: str) -> str:
    try:
        return producer.send(Message(topic, b"back")).queue.broker_name
    except ClientError:
        return ""


def test_a_lite_pull_consumer_reads_from_both_and_commits_to_both(pair: Pair, topic: str, group: str) -> None:
    polled: list[MessageView] = []
    with (
        Producer(pair.namesrv, CREDENTIALS, "PID") as producer,
        LitePullConsumer(pair.namesrv, CREDENTIALS, group).subscribe(topic).start() as consumer,
    ):
        assert {queue.broker_name for queue in consumer.assignment()} == BOTH
        for number in range(8):
            producer.send(Message(topic, b"%d" % number))

        def all_polled(count: int) -> bool:
            polled.extend(consumer.poll(0.2))
            return len(polled) >= count

        until(lambda: all_polled(8))
        assert {message.queue.broker_name for message in polled} == BOTH
        consumer.commit()
        assert sum(consumer.committed(queue) or 0 for queue in consumer.assignment()) == 8
        pair.b.kill()
        producer.send(Message(topic, b"while one is away"))
        until(lambda: all_polled(9), 20)
        pair.b.start()
        (queue,) = [queue for queue in consumer.assignment() if queue.broker_name == "broker-b"][:1]
        consumer.seek_to_begin(queue)
        until(lambda: all_polled(11), 30)
        assert {message.queue for message in polled[9:]} == {queue}


def test_an_ordered_consumer_locks_at_both_and_survives_one(pair: Pair, topic: str, group: str) -> None:
    received: dict[str, list[int]] = {}
    consumer = PushConsumer(pair.namesrv, CREDENTIALS, group, ordered=True, consume_from="CONSUME_FROM_FIRST_OFFSET")

    @consumer.on_message
    def handle(message: MessageView) -> ConsumeResult:
        received.setdefault(message.sharding_key, []).append(int(message.body))
        return ConsumeResult.SUCCESS

    keys = [f"key{number}" for number in range(6)]
    with Producer(pair.namesrv, CREDENTIALS, "PID") as producer, consumer.subscribe(topic).start():
        queues = {producer.send_ordered(Message(topic, b"0"), key).queue.broker_name for key in keys}
        assert queues == BOTH
        until(lambda: received == {key: [0] for key in keys})
        pair.b.kill()
        pair.b.start()
        for key in keys:
            producer.send_ordered(Message(topic, b"1"), key, timeout_ms=5000)
        until(lambda: all(1 in received[key] for key in keys), 40)
    for key in keys:
        assert list(dict.fromkeys(received[key])) == [0, 1]


def test_a_question_is_answered_whichever_broker_it_takes(pair: Pair, topic: str, group: str) -> None:
    with (
        Producer(pair.namesrv, CREDENTIALS, "PID") as producer,
        PushConsumer(pair.namesrv, CREDENTIALS, group, consume_from="CONSUME_FROM_FIRST_OFFSET") as consumer,
    ):
        asked: set[str] = set()

        @consumer.on_message
        def handle(question: MessageView) -> ConsumeResult:
            asked.add(question.queue.broker_name)
            producer.reply(question, b"re: " + question.body)
            return ConsumeResult.SUCCESS

        consumer.subscribe(topic).start()
        replies = [producer.request(Message(topic, b"%d" % n), timeout_ms=10_000).body for n in range(4)]
    assert replies == [b"re: %d" % n for n in range(4)]
    assert asked == BOTH


def test_the_admin_client_adds_up_what_both_say(pair: Pair, topic: str, group: str) -> None:
    with Admin(pair.namesrv, CREDENTIALS) as admin, Producer(pair.namesrv, CREDENTIALS, "PID") as producer:
        results = [producer.send(Message(topic, b"x", keys="k")) for _ in range(4)]
        for result in results:
            admin.offsets.commit(group, {result.queue: 0})
        assert admin.groups.stats(group, topic).backlog == 4
        assert admin.brokers.rates("TOPIC_PUT_NUMS", topic)["Hour"].total >= 0
        assert len(admin.messages.between(topic, 0, 2**62)) == 4
        assert {name for name in BOTH if admin.brokers.config(name)["brokerName"] == name} == BOTH
