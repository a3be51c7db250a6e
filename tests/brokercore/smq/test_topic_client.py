"""The client of topics for Gantry's own code, against a real service process."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from brokercore.smq.topic_client import TopicClient
from brokercore.smq.wire.errors import Code, SmqError
from brokercore.smq.wire.subscriptions import Format, PushResult, Strategy
from tests.support.broker import eventually
from tests.support.queue_service import PATIENCE_SECONDS, QueueServiceProcess, queue_service
from tests.support.receivers import receiver
from tests.support.redis_server import RedisServer


@pytest.fixture(scope="module")
def service(redis: RedisServer) -> Iterator[QueueServiceProcess]:
    with queue_service(redis) as process:
        yield process


@pytest.fixture
def client(service: QueueServiceProcess) -> Iterator[TopicClient]:
    account = secrets.token_hex(8)
    client = TopicClient(service.address, service.access_key_id, service.access_key_secret, account=account)
    yield client
    client.close()


def test_a_topic_is_made_changed_told_and_removed(client: TopicClient) -> None:
    assert client.create_topic("news", {"MaximumMessageSize": 2048})
    assert not client.create_topic("news", {"MaximumMessageSize": 2048})
    client.set_topic_attributes("news", {"LoggingEnabled": 1})
    state = client.topic("news")
    assert (state.name, state.is_logged, state.attributes) == ("news", True, {"MaximumMessageSize": 2048})
    client.delete_topic("news")
    client.delete_topic("news")
    with pytest.raises(SmqError) as missing:
        client.topic("news")
    assert missing.value.code is Code.TOPIC_NOT_EXIST


def test_topics_are_listed_in_pages(client: TopicClient) -> None:
    for name in ("b2", "a", "b1"):
        client.create_topic(name)
    first, marker = client.topics("b", most=1)
    second, end = client.topics("b", marker, most=1)
    assert ([state.name for state in (*first, *second)], end) == (["b1", "b2"], "")


def test_subscriptions_come_back_as_they_were_made_and_changed(client: TopicClient) -> None:
    client.create_topic("news")
    endpoint = client.endpoint_of("orders", "mq-private")
    assert client.subscribe("news", "s", endpoint, strategy=Strategy.DECAY, form=Format.JSON, tag="red")
    assert not client.subscribe("news", "s", endpoint, strategy=Strategy.DECAY, form=Format.JSON, tag="red")
    client.set_subscription_attributes("news", "s", tag="")
    state = client.subscription("news", "s")
    one = state.subscription
    assert (state.account, state.topic, state.name, one.queue) == (client.account, "news", "s", "orders")
    assert (one.strategy, one.format, one.tag) == (Strategy.DECAY, Format.JSON, "")
    assert client.subscriptions("news") == ([state], "")
    client.unsubscribe("news", "s")
    client.unsubscribe("news", "s")
    assert client.subscriptions("news") == ([], "")


def test_what_is_published_arrives_and_results_are_told(client: TopicClient) -> None:
    client.create_topic("news")
    client.create_queue("orders")
    with receiver() as taker:
        client.subscribe("news", "queue", client.endpoint_of("orders", "x"), form=Format.SIMPLIFIED, tag="red")
        client.subscribe("news", "url", taker.url, form=Format.SIMPLIFIED)
        message = client.publish("news", b"a <b> & c", tag="red")
        eventually(lambda: client.subscription("news", "url").result.delivered, PATIENCE_SECONDS)
        assert taker.bodies == ["a <b> & c"]
        assert taker.pushed[0].headers["x-mns-message-id"] == message
    assert [one.body for one in client.receive("orders")] == [b"a <b> & c"]
    results = {state.name: state.result for state in client.subscriptions("news")[0]}
    assert (results["queue"].status, results["queue"].delivered) == (201, 1)
    assert results["url"] == PushResult(results["url"].last_ms, 204, delivered=1)


def test_names_that_are_missing_are_refused_before_they_are_sent(client: TopicClient) -> None:
    for work, code in (
        (lambda: client.topic(""), Code.TOPIC_NAME_INVALID),
        (lambda: client.subscription("news", ""), Code.SUBSCRIPTION_NAME_INVALID),
        (lambda: client.topics("é"), Code.INVALID_ARGUMENT),
        (lambda: client.publish("news", b"\xff"), Code.INVALID_ARGUMENT),
    ):
        with pytest.raises(SmqError) as refused:
            work()
        assert refused.value.code is code
