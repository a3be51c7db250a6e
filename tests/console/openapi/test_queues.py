"""Queues by the management API, at a running service."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from console.audit.models import Entry
from tests.console.openapi.caller import Caller
from tests.support.broker import eventually
from tests.support.cast import Cast
from tests.support.queue_service import QueueServiceProcess

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def service(queues: QueueServiceProcess) -> QueueServiceProcess:
    return queues


def test_a_queue_is_made_told_changed_listed_and_deleted(alice: Caller) -> None:
    assert alice.symbol("queue/create", queue="orders", delaySeconds="5", loggingEnabled="true") == "SUCCESS"
    assert alice.symbol("queue/create", queue="orders", delaySeconds="5", loggingEnabled="true") == "SUCCESS"
    assert alice.symbol("queue/create", queue="orders") == "BIZ_QUEUE_EXISTED"
    assert alice.symbol("queue/set", queue="orders", visibilityTimeout="99", delaySeconds="") == "SUCCESS"
    told = alice.data("queue/get", queue="orders")
    assert (told["delaySeconds"], told["visibilityTimeout"], told["loggingEnabled"]) == (5, 99, True)
    assert alice.symbol("queue/set", queue="orders") == "BIZ_FIELD_CHECK_INVALID"
    for name in ("a1", "b1", "b2"):
        alice.data("queue/create", queue=name)
    page = alice("queue/list", queue="B", pageSize="1", currentPage="2")
    assert ([row["queue"] for row in page["data"]], page["total"]) == (["b2"], 2)
    assert alice.symbol("queue/delete", queue="orders") == "SUCCESS"
    assert alice.symbol("queue/delete", queue="orders") == "BIZ_QUEUE_NOT_FOUND"
    actions = Entry.objects.filter(action__startswith="queues.").values_list("action", "channel")
    assert set(actions) == {(f"queues.queue.{verb}", "api") for verb in ("create", "update", "delete")}


def test_a_message_is_sent_looked_at_received_hidden_and_deleted(alice: Caller) -> None:
    alice.data("queue/create", queue="orders")
    sent = alice.data("queue/send", queue="orders", body="  kept as it is \n", priority="3")
    (peeked,) = alice.data("queue/peek", queue="orders")
    assert (peeked["messageId"], peeked["body"], peeked["priority"]) == (sent["messageId"], "  kept as it is \n", 3)
    (received,) = alice.data("queue/receive", queue="orders", numOfMessages="16")
    assert received["dequeueCount"] == 1
    assert alice.data("queue/receive", queue="orders") == []
    hidden = alice.data("queue/hide", queue="orders", receiptHandle=received["receiptHandle"], visibilityTimeout="600")
    assert hidden["nextVisibleTime"] > received["nextVisibleTime"]
    ended = {"queue": "orders", "receiptHandle": received["receiptHandle"]}
    assert alice.symbol("queue/deleteMessage", **ended) == "BIZ_NO_MESSAGE"
    assert alice.symbol("queue/deleteMessage", queue="orders", receiptHandle=hidden["receiptHandle"]) == "SUCCESS"
    told = alice.data("queue/get", queue="orders")
    assert [told[name] for name in ("activeMessages", "inactiveMessages", "sentMessages", "receivedMessages")] == [
        0,
        0,
        1,
        1,
    ]


@pytest.mark.parametrize(
    ("path", "given"),
    [
        ("queue/create", {"queue": "under_score"}),
        ("queue/create", {"queue": "x" * 121}),
        ("queue/create", {"visibilityTimeout": "0"}),
        ("queue/create", {"messageRetentionPeriod": "604801"}),
        ("queue/create", {"maximumMessageSize": "1023"}),
        ("queue/create", {"loggingEnabled": "yes"}),
        ("queue/send", {"body": ""}),
        ("queue/send", {"body": "\x01"}),
        ("queue/send", {"body": "x", "delaySeconds": "604801"}),
        ("queue/send", {"body": "x", "priority": "17"}),
        ("queue/receive", {"numOfMessages": "17"}),
        ("queue/receive", {"waitSeconds": "11"}),
        ("queue/hide", {"receiptHandle": "none", "visibilityTimeout": "1"}),
        ("queue/deleteMessage", {"receiptHandle": "none"}),
    ],
)
def test_what_is_out_of_bounds_is_refused_in_a_sentence(alice: Caller, path: str, given: dict[str, str]) -> None:
    alice.data("queue/create", queue="there")
    answer = alice(path, **{"queue": "there"} | given)
    assert answer["status"] == "BIZ_FIELD_CHECK_INVALID"
    assert answer["dynamicMessage"].endswith(".")


def test_another_accounts_queue_does_not_exist(alice: Caller, cast: Cast) -> None:
    alice.data("queue/create", queue="orders")
    charlie = Caller.of(cast.charlie)
    assert charlie.symbol("queue/get", queue="orders") == "BIZ_QUEUE_NOT_FOUND"
    assert charlie("queue/list")["total"] == 0


def test_a_topic_brings_what_is_published_to_its_subscribers(alice: Caller) -> None:
    alice.data("queue/create", queue="orders")
    assert alice.symbol("queueTopic/create", topic="news") == "SUCCESS"
    assert alice.symbol("queueTopic/create", topic="news", maximumMessageSize="1024") == "BIZ_QUEUE_TOPIC_EXISTED"
    assert alice.symbol("queueTopic/set", topic="news", maximumMessageSize="1024") == "SUCCESS"
    assert alice.symbol("queueTopic/set", topic="news", loggingEnabled="true", maximumMessageSize="") == "SUCCESS"
    assert alice.symbol("queueTopic/set", topic="news") == "BIZ_FIELD_CHECK_INVALID"
    assert alice.symbol("queueTopic/set", topic="old", loggingEnabled="true") == "BIZ_QUEUE_TOPIC_NOT_FOUND"
    (listed,) = alice.data("queueTopic/list", topic="EW")
    assert (listed["topic"], listed["maximumMessageSize"], listed["loggingEnabled"]) == ("news", 1024, True)
    one = {"topic": "news", "subscription": "to-orders", "receiver": "orders", "format": "SIMPLIFIED", "tag": "red"}
    assert alice.symbol("queueTopic/subscribe", **one) == "SUCCESS"
    assert alice.symbol("queueTopic/subscribe", **one | {"tag": ""}) == "BIZ_QUEUE_SUBSCRIPTION_EXISTED"
    assert alice.symbol("queueTopic/subscribe", **one | {"receiver": "ftp://host"}) == "BIZ_FIELD_CHECK_INVALID"
    for tag in ("red", "blue"):
        assert alice.data("queueTopic/publish", topic="news", body=tag, tag=tag)["messageId"]
    assert [row["body"] for row in alice.data("queue/peek", queue="orders")] == ["red"]
    (told,) = alice.data("queueTopic/subscriptions", topic="news")
    assert [told[name] for name in ("subscription", "receiver", "tag")] == ["to-orders", "orders", "red"]
    assert alice.symbol("queueTopic/unsubscribe", topic="news", subscription="to-orders") == "SUCCESS"
    ended = alice.symbol("queueTopic/unsubscribe", topic="news", subscription="to-orders")
    assert ended == "BIZ_QUEUE_SUBSCRIPTION_NOT_FOUND"
    assert alice.symbol("queueTopic/delete", topic="news") == "SUCCESS"
    assert alice.symbol("queueTopic/delete", topic="news") == "BIZ_QUEUE_TOPIC_NOT_FOUND"


def test_a_subscription_is_changed_where_it_can_be(alice: Caller) -> None:
    alice.data("queue/create", queue="orders")
    alice.data("queueTopic/create", topic="news")
    one = {"topic": "news", "subscription": "to-orders"}
    alice.data("queueTopic/subscribe", **one, receiver="orders", tag="red")
    decay = "EXPONENTIAL_DECAY_RETRY"
    assert alice.symbol("queueTopic/setSubscription", **one, strategy=decay) == "SUCCESS"
    assert _told(alice) == (decay, "red")
    assert alice.symbol("queueTopic/setSubscription", **one, tag="") == "SUCCESS"
    assert _told(alice) == (decay, "")
    missing = {
        "BIZ_FIELD_CHECK_INVALID": [one, one | {"strategy": "NEVER"}, one | {"tag": "x" * 17}],
        "BIZ_QUEUE_TOPIC_NOT_FOUND": [one | {"topic": "old", "tag": ""}],
        "BIZ_QUEUE_SUBSCRIPTION_NOT_FOUND": [one | {"subscription": "none", "tag": ""}],
    }
    for symbol, calls in missing.items():
        assert [alice.symbol("queueTopic/setSubscription", **given) for given in calls] == [symbol] * len(calls)
    assert _told(alice) == (decay, "")
    details = Entry.objects.filter(action="queues.subscription.update").order_by("pk").values_list("detail", flat=True)
    assert list(details) == [{"strategy": decay}, {"tag": ""}]


def _told(alice: Caller) -> tuple[str, str]:
    (told,) = alice.data("queueTopic/subscriptions", topic="news")
    return told["strategy"], told["tag"]


def test_an_account_has_as_many_queues_as_it_may(alice: Caller, cast: Cast, service: QueueServiceProcess) -> None:
    alice.data("queue/create", queue="first")
    service.limit(cast.acme.uid, smq_queues=1)
    # The service reads limits a moment later; until then a queue more is made, and taken away again.
    eventually(lambda: _is_refused(alice), seconds=40)


def _is_refused(alice: Caller) -> bool:
    if alice.symbol("queue/create", queue="second") == "BIZ_QUEUE_QUOTA_EXCEEDED":
        return True
    alice.data("queue/delete", queue="second")
    return False


def test_an_outage_is_a_failure_with_its_reason(alice: Caller, settings: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        settings.SMQ_ADDRESS = f"http://127.0.0.1:{listening.getsockname()[1]}"
    answer = alice("queue/list")
    assert answer["status"] == "ONS_INVOKE_ERROR"
    assert "does not answer" in answer["dynamicMessage"]
