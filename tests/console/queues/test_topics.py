"""Pages of the queue service's topics, at a running service."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.urls import reverse

from brokercore.smq.topic_client import TopicClient
from brokercore.smq.wire.errors import Code, SmqError
from brokercore.smq.wire.subscriptions import Format, Strategy
from console.accounts.models import Policy
from console.audit.models import Entry
from tests.support.broker import eventually
from tests.support.cast import Cast
from tests.support.queue_service import PATIENCE_SECONDS, QueueServiceProcess
from tests.support.receivers import receiver

SUBSCRIPTION = {"name": "s", "receiver": "orders", "strategy": "BACKOFF_RETRY", "form": "SIMPLIFIED", "tag": ""}


@pytest.fixture
def acmes(cast: Cast, queues: QueueServiceProcess) -> Iterator[TopicClient]:
    """A client of acme's topics, as any program has one."""
    with queues.client(cast.acme.uid, TopicClient) as client:
        yield client


def page(cast: Cast, url_name: str, *arguments: str, who: str = "alice", **query: str) -> str:
    response = cast.client(who).get(reverse(url_name, args=arguments), query)
    assert response.status_code == 200
    return response.content.decode()


def post(cast: Cast, url_name: str, *arguments: str, who: str = "alice", **data: str) -> Any:
    return cast.client(who).post(reverse(url_name, args=arguments), data)


def test_a_topic_is_made_listed_and_deleted(cast: Cast, acmes: TopicClient) -> None:
    assert "No topic yet" in page(cast, "queue_topics.list")
    made = post(cast, "queue_topics.create", name="news", most_bytes="2048")
    assert made["Location"] == reverse("queue_topics.detail", args=["news"])
    assert acmes.topic("news").attributes == {"MaximumMessageSize": 2048}
    assert "news" in page(cast, "queue_topics.list", q="EW")
    assert "No topic matches" in page(cast, "queue_topics.list", q="old")
    assert post(cast, "queue_topics.delete", "news", name="new").status_code == 422
    assert post(cast, "queue_topics.delete", "news", name="news").status_code == 302
    with pytest.raises(SmqError) as gone:
        acmes.topic("news")
    assert gone.value.code is Code.TOPIC_NOT_EXIST
    actions = list(Entry.objects.filter(action__startswith="queues.topic.").values_list("action", flat=True))
    assert sorted(actions) == ["queues.topic.create", "queues.topic.delete"]
    resource = Entry.objects.get(action="queues.topic.create").resource
    assert resource == f"acs:mns:*:{cast.acme.uid}:/topics/news"


@pytest.mark.parametrize(
    ("change", "field", "sentence"),
    [
        ({"name": "no_underscore"}, "name", "letters, digits and hyphens"),
        ({"name": "there"}, "name", "exists, with other attributes"),
        ({"most_bytes": "1023"}, "most_bytes", "greater than or equal to 1024"),
    ],
)
def test_a_mistake_is_said_beside_its_field(
    cast: Cast, acmes: TopicClient, change: dict[str, str], field: str, sentence: str
) -> None:
    acmes.create_topic("there", {"MaximumMessageSize": 1024})
    response = post(cast, "queue_topics.create", **({"name": "fine", "most_bytes": "65536"} | change))
    assert response.status_code == 422
    assert sentence in str(response.context["form"].errors[field])
    assert [state.name for state in acmes.topics()[0]] == ["there"]


def test_subscribers_are_shown_with_what_became_of_their_messages(cast: Cast, acmes: TopicClient) -> None:
    acmes.create_topic("news")
    acmes.create_queue("orders")
    assert "No subscription yet" in page(cast, "queue_topics.detail", "news")
    with receiver(lambda _: 503) as taker:
        assert post(cast, "queue_topics.subscribe", "news", **SUBSCRIPTION).status_code == 302
        url = SUBSCRIPTION | {"name": "url", "receiver": taker.url}
        assert post(cast, "queue_topics.subscribe", "news", **url).status_code == 302
        published = post(cast, "queue_topics.publish", "news", body="hello", tag="red")
        assert published["Location"] == reverse("queue_topics.detail", args=["news"])
        eventually(lambda: acmes.subscription("news", "url").result.failures, PATIENCE_SECONDS)
        shown = page(cast, "queue_topics.detail", "news")
    assert reverse("queues.detail", args=["orders"]) in shown and taker.url in shown
    assert "The receiver answered 503 Service Unavailable." in shown
    assert [one.body for one in acmes.receive("orders")] == [b"hello"]
    one = acmes.subscription("news", "s").subscription
    assert (one.strategy, one.format) == (Strategy.BACKOFF, Format.SIMPLIFIED)
    detail = Entry.objects.filter(action="queues.topic.subscribe").earliest("pk").detail
    assert detail["endpoint"].endswith(f":{cast.acme.uid}:queues/orders")
    assert post(cast, "queue_topics.unsubscribe", "news", "url", name="url").status_code == 302
    assert [state.name for state in acmes.subscriptions("news")[0]] == ["s"]


def test_attributes_of_a_topic_are_changed(cast: Cast, acmes: TopicClient) -> None:
    acmes.create_topic("news", {"MaximumMessageSize": 2048})
    edit = page(cast, "queue_topics.update", "news")
    assert 'value="2048"' in edit and "checked" not in edit
    assert post(cast, "queue_topics.update", "news", most_bytes="1024", is_logged="on").status_code == 302
    assert (acmes.topic("news").attributes, acmes.topic("news").is_logged) == ({"MaximumMessageSize": 1024}, True)
    assert post(cast, "queue_topics.update", "news", most_bytes="1024").status_code == 302
    assert not acmes.topic("news").is_logged
    refused = post(cast, "queue_topics.update", "news", most_bytes="65537")
    assert refused.status_code == 422 and refused.context["form"].errors["most_bytes"]
    entry = Entry.objects.filter(action="queues.topic.update").earliest("pk")
    assert entry.detail == {"MaximumMessageSize": 1024, "LoggingEnabled": 1}
    assert reverse("queue_topics.update", args=["news"]) not in page(cast, "queue_topics.detail", "news", who="rita")


def test_a_subscription_is_changed_where_it_can_be(cast: Cast, acmes: TopicClient) -> None:
    acmes.create_topic("news")
    acmes.create_queue("orders")
    acmes.subscribe("news", "s", acmes.endpoint_of("orders", "mq-private"), tag="red")
    shown = page(cast, "queue_topics.update_subscription", "news", "s")
    assert 'value="red"' in shown
    assert reverse("queue_topics.update_subscription", args=["news", "s"]) in page(cast, "queue_topics.detail", "news")
    changed = {"strategy": "EXPONENTIAL_DECAY_RETRY", "tag": ""}
    assert post(cast, "queue_topics.update_subscription", "news", "s", **changed).status_code == 302
    one = acmes.subscription("news", "s").subscription
    assert (one.strategy, one.tag, one.format) == (Strategy.DECAY, "", Format.XML)
    for wrong, field in (({"strategy": "NEVER"}, "strategy"), ({"tag": "x" * 17}, "tag")):
        refused = post(cast, "queue_topics.update_subscription", "news", "s", **(changed | wrong))
        assert refused.status_code == 422 and refused.context["form"].errors[field]
    for gone in (("news", "none"), ("old", "s")):
        assert post(cast, "queue_topics.update_subscription", *gone, **changed).status_code == 404
    assert Entry.objects.get(action="queues.subscription.update").detail == changed


@pytest.mark.parametrize("target", ["http://10.0.0.1/", "ftp://example.com", "no_queue", "https://a@example.com/"])
def test_a_receiver_that_cannot_be_is_said_beside_its_field(cast: Cast, acmes: TopicClient, target: str) -> None:
    acmes.create_topic("news")
    response = post(cast, "queue_topics.subscribe", "news", **(SUBSCRIPTION | {"receiver": target}))
    assert response.status_code == 422
    assert response.context["form"].errors["receiver"]
    assert acmes.subscriptions("news")[0] == []


def test_a_subscription_gives_nobody_a_right_on_a_queue(cast: Cast, acmes: TopicClient) -> None:
    acmes.create_topic("news")
    acmes.create_queue("orders")
    document = {
        "Version": "1",
        "Statement": [{"Effect": "Allow", "Action": "mns:*", "Resource": f"acs:mns:*:{cast.acme.uid}:/topics/*"}],
    }
    policy = Policy.objects.create(tenant=cast.acme, name="topics-only", document=document)
    cast.nora.policies.add(policy)
    response = post(cast, "queue_topics.subscribe", "news", who="nora", **SUBSCRIPTION)
    assert response.status_code == 422
    assert "mns:SendMessage" in str(response.context["form"].errors["receiver"])
    assert acmes.subscriptions("news")[0] == []


def test_another_accounts_topic_is_not_there(cast: Cast, acmes: TopicClient) -> None:
    acmes.create_topic("news")
    assert cast.client("charlie").get(reverse("queue_topics.detail", args=["news"])).status_code == 404
    assert "No topic yet" in page(cast, "queue_topics.list", who="charlie")
