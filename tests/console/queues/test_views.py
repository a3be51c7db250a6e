"""Pages of queues, at a running service."""

from __future__ import annotations

import re
import socket
from base64 import b64encode
from typing import Any

import pytest
from django.urls import reverse

from brokercore.smq.client import QueueClient
from brokercore.smq.wire.errors import Code, SmqError
from brokercore.smq.wire.subscriptions import Format, Strategy
from console.accounts.models import Policy
from console.audit.models import Entry
from console.queues import queries
from console.queues.topics import services as topics
from tests.support.cast import Cast

DEFAULTS = {
    "VisibilityTimeout": "30",
    "MessageRetentionPeriod": "345600",
    "DelaySeconds": "0",
    "PollingWaitSeconds": "0",
    "MaximumMessageSize": "65536",
}


def page(cast: Cast, url_name: str, *arguments: str, who: str = "alice", **query: str) -> str:
    response = cast.client(who).get(reverse(url_name, args=arguments), query)
    assert response.status_code == 200
    return response.content.decode()


def act(cast: Cast, url_name: str, *arguments: str, **data: str) -> Any:
    return cast.client("alice").post(reverse(url_name, args=arguments), data, headers={"HX-Request": "true"})


def test_a_queue_is_made_with_every_attribute_and_shown(cast: Cast, acmes: QueueClient) -> None:
    form = page(cast, "queues.create")
    for name, value in DEFAULTS.items():
        assert re.search(rf'name="{name}"[^>]*value="{value}"|value="{value}"[^>]*name="{name}"', form), name
    wanted = DEFAULTS | {"name": "orders", "VisibilityTimeout": "77", "LoggingEnabled": "on"}
    response = cast.client("alice").post(reverse("queues.create"), wanted)
    assert response["Location"] == reverse("queues.detail", args=["orders"])
    state = acmes.queue("orders")
    assert (state.attributes["VisibilityTimeout"], state.is_logged) == (77, True)
    shown = page(cast, "queues.detail", "orders")
    assert "77 s" in shown and f"http://{cast.acme.uid}.mns." in shown
    entry = Entry.objects.get(action="queues.queue.create")
    assert entry.resource == f"acs:mns:*:{cast.acme.uid}:/queues/orders"
    assert entry.detail["VisibilityTimeout"] == 77


def test_the_list_is_a_file_too(cast: Cast, acmes: QueueClient) -> None:
    acmes.create_queue("orders", {})
    acmes.create_queue("returns", {})
    acmes.send("orders", b"paid")
    answer: Any = cast.client("alice").get(reverse("queues.list"), {"as": "csv", "sort": "-name"})
    lines = b"".join(answer.streaming_content).decode().splitlines()
    assert lines[:2] == ["queue,active,hidden,delayed,oldest_at", "returns,0,0,0,"]
    assert re.fullmatch(r"orders,1,0,0,\d{4}-\d\d-\d\dT[\d:.]+Z", lines[2])


@pytest.mark.parametrize(
    ("change", "field", "sentence"),
    [
        ({"VisibilityTimeout": "43201"}, "VisibilityTimeout", "less than or equal to 43200"),
        ({"MaximumMessageSize": "1023"}, "MaximumMessageSize", "greater than or equal to 1024"),
        ({"DelaySeconds": ""}, "DelaySeconds", "required"),
        ({"name": "no_underscore"}, "name", "letters, digits and hyphens"),
        ({"name": "there"}, "name", "exists, with other attributes"),
    ],
)
def test_a_mistake_is_said_beside_its_field(
    cast: Cast, acmes: QueueClient, change: dict[str, str], field: str, sentence: str
) -> None:
    acmes.create_queue("there", {"DelaySeconds": 9})
    response = cast.client("alice").post(reverse("queues.create"), DEFAULTS | {"name": "fine"} | change)
    assert response.status_code == 422
    assert sentence in str(response.context["form"].errors[field])
    assert [state.name for state in acmes.queues()[0]] == ["there"]


def test_attributes_are_changed(cast: Cast, acmes: QueueClient) -> None:
    acmes.create_queue("orders", {"LoggingEnabled": 1})
    assert 'value="30"' in page(cast, "queues.update", "orders")
    response = cast.client("alice").post(
        reverse("queues.update", args=["orders"]), DEFAULTS | {"PollingWaitSeconds": "20"}
    )
    assert response.status_code == 302
    state = acmes.queue("orders")
    assert (state.attributes["PollingWaitSeconds"], state.is_logged) == (20, False)
    assert Entry.objects.filter(action="queues.queue.update").exists()


def test_the_list_searches_sorts_and_pages(cast: Cast, acmes: QueueClient) -> None:
    for number in range(25):
        acmes.create_queue(f"queue-{number:02d}")
    acmes.send("queue-07", b"one")
    acmes.send("queue-07", b"two", delay_s=600)
    found = page(cast, "queues.list", q="UE-1")
    assert found.count("/queues/queue-") == 10
    busiest = page(cast, "queues.list", sort="-active")
    assert busiest.index("queue-07") < busiest.index("queue-00")
    assert "queue-24" not in page(cast, "queues.list") and "queue-24" in page(cast, "queues.list", page="2")
    assert "No queue matches" in page(cast, "queues.list", q="nothing")


def test_a_long_list_is_in_order_of_names_and_asks_for_the_shown_page_only(
    cast: Cast, acmes: QueueClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "MOST_COUNTED", 3)
    for number in range(8):
        acmes.create_queue(f"queue-{number}")
    acmes.send("queue-5", b"one")
    shown = page(cast, "queues.list", sort="-active")
    assert shown.index("queue-0") < shown.index("queue-5") < shown.index("queue-7")
    assert "sort=active" not in shown and "sorted by name" in shown
    assert queries.listing(cast.acme, "7").rows[0].name == "queue-7"


def test_an_account_without_queues_is_told_what_they_are(cast: Cast, acmes: QueueClient) -> None:
    assert acmes.queues() == ([], "")
    assert "No queue yet" in page(cast, "queues.list")
    assert "Create queue" in page(cast, "queues.list")
    assert "Create queue" not in page(cast, "queues.list", who="rita")


def test_nobody_sees_the_queues_of_another_account(cast: Cast, acmes: QueueClient) -> None:
    acmes.create_queue("orders")
    assert "orders" not in page(cast, "queues.list", who="charlie").partition('id="results"')[2]
    charlie = cast.client("charlie")
    assert charlie.get(reverse("queues.detail", args=["orders"])).status_code == 404
    assert charlie.post(reverse("queues.delete", args=["orders"]), {"name": "orders"}).status_code == 404
    assert acmes.queue("orders").name == "orders"


def test_a_message_is_sent_looked_at_received_and_deleted(cast: Cast, acmes: QueueClient) -> None:
    acmes.create_queue("orders")
    sent = act(cast, "queues.send", "orders", body="<b>first</b>\n", delay_s="", priority="2")
    message_id = sent.context["sent"].id
    assert sent.status_code == 200 and message_id in sent.content.decode()
    looked_at = page(cast, "queues.messages", "orders")
    assert "&lt;b&gt;first&lt;/b&gt;" in looked_at and "<b>first" not in looked_at and message_id in looked_at
    received = act(cast, "queues.receive", "orders", most="1", wait_s="0")
    assert message_id in received.content.decode()
    assert "queueReceived" in received["HX-Trigger"]
    (message,) = received.context["received"]
    handle = message.delivery.handle
    assert re.findall(rf"[^<>]*{handle}[^<>]*", received.content.decode()) == [
        f'input type="hidden" name="handle" value="{handle}"'
    ]
    hidden = act(cast, "queues.message_hide", "orders", handle=handle, seconds="600")
    assert "Hidden until" in hidden.content.decode()
    ended = act(cast, "queues.message_delete", "orders", handle=handle)
    assert ended.status_code == 422 and "the receipt handle has ended" in ended.content.decode()
    renewed = hidden.context["form"].initial["handle"]
    assert "Deleted." in act(cast, "queues.message_delete", "orders", handle=renewed).content.decode()
    assert acmes.queue("orders").inactive == 0
    actions = set(Entry.objects.filter(tenant=cast.acme).values_list("action", flat=True))
    assert {f"queues.message.{verb}" for verb in ("send", "receive", "hide", "delete")} <= actions
    assert not Entry.objects.filter(detail__icontains=handle).exists()


def test_an_empty_receive_says_so(cast: Cast, acmes: QueueClient) -> None:
    acmes.create_queue("orders")
    assert (
        "No message can be received now"
        in act(cast, "queues.receive", "orders", most="16", wait_s="0").content.decode()
    )
    too_long = act(cast, "queues.receive", "orders", most="1", wait_s="30")
    assert too_long.status_code == 422


def test_a_body_in_base64_is_sent_and_decoded_on_wish(cast: Cast, acmes: QueueClient) -> None:
    acmes.create_queue("orders")
    act(cast, "queues.send", "orders", body="für dich", as_base64="on")
    encoded = b64encode("für dich".encode())
    assert acmes.peek("orders")[0].body == encoded
    assert encoded.decode() in page(cast, "queues.messages", "orders")
    assert "für dich" in page(cast, "queues.messages", "orders", base64="1")
    acmes.send("orders", b"plain!", priority=1)
    assert "The body is not Base64" in page(cast, "queues.messages", "orders", base64="1")


def test_a_body_that_the_service_refuses_is_said_beside_the_field(cast: Cast, acmes: QueueClient) -> None:
    acmes.create_queue("orders", {"MaximumMessageSize": 1024})
    control = act(cast, "queues.send", "orders", body="\x01")
    assert control.status_code == 422 and "characters that XML cannot carry" in control.content.decode()
    large = act(cast, "queues.send", "orders", body="x" * 1025)
    assert large.status_code == 422 and "more than the queue" in large.content.decode()


def test_a_queue_is_deleted_once_its_name_was_typed(cast: Cast, acmes: QueueClient) -> None:
    acmes.create_queue("orders")
    acmes.send("orders", b"one")
    assert "It holds 1 message, deleted with it." in page(cast, "queues.delete", "orders")
    client, url = cast.client("alice"), reverse("queues.delete", args=["orders"])
    assert client.post(url, {"name": "order"}).status_code == 422
    assert client.post(url, {"name": "orders"}).status_code == 302
    with pytest.raises(SmqError) as missing:
        acmes.queue("orders")
    assert missing.value.code is Code.QUEUE_NOT_EXIST
    assert Entry.objects.filter(action="queues.queue.delete").exists()
    assert client.get(reverse("queues.detail", args=["orders"])).status_code == 404


def test_an_outage_is_no_empty_list(cast: Cast, settings: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        settings.SMQ_ADDRESS = f"http://127.0.0.1:{listening.getsockname()[1]}"
    for url in (reverse("queues.list"), reverse("queues.detail", args=["orders"])):
        response = cast.client("alice").get(url)
        assert response.status_code == 503
        shown = response.content.decode()
        assert "The queue service does not answer" in shown and "it is not empty" in shown
        assert "No queue yet" not in shown


def test_a_policy_for_one_queue_opens_that_one(cast: Cast, acmes: QueueClient) -> None:
    acmes.create_queue("orders")
    acmes.create_queue("private")
    statement = {
        "Effect": "Allow",
        "Action": ["mns:GetQueueAttributes", "mns:SendMessage"],
        "Resource": ["acs:mns:*:*:/queues/orders", "acs:mns:*:*:/queues/orders/messages"],
    }
    policy = Policy.objects.create(
        tenant=cast.acme, name="one-queue", document={"Version": "1", "Statement": [statement]}
    )
    cast.nora.policies.add(policy)
    shown = page(cast, "queues.detail", "orders", who="nora")
    assert reverse("queues.send", args=["orders"]) in shown
    for name in ("queues.messages", "queues.update", "queues.delete"):
        assert reverse(name, args=["orders"]) not in shown
    client = cast.client("nora")
    assert client.post(reverse("queues.send", args=["orders"]), {"body": "one"}).status_code == 200
    assert client.get(reverse("queues.messages", args=["orders"])).status_code == 403
    assert client.get(reverse("queues.detail", args=["private"])).status_code == 403
    assert client.get(reverse("queues.list")).status_code == 403
    assert "Queues</span>" not in client.get(reverse("instances.overview")).content.decode()


def test_a_queue_names_the_topics_that_write_to_it_and_that_the_visitor_may_see(cast: Cast, acmes: QueueClient) -> None:
    acmes.create_queue("orders")
    assert "No topic writes to this queue" in page(cast, "queues.subscriptions", "orders")
    for name, receiver in (("news", "orders"), ("alarms", "orders"), ("elsewhere", "other")):
        topics.create_topic(actor=cast.actor("alice"), name=name, attributes={})
        topics.subscribe(
            actor=cast.actor("alice"),
            topic=name,
            name="s",
            receiver=receiver,
            strategy=Strategy.BACKOFF,
            form=Format.XML,
        )
    shown = page(cast, "queues.subscriptions", "orders")
    assert all(reverse("queue_topics.detail", args=[name]) in shown for name in ("news", "alarms"))
    assert "elsewhere" not in shown
    statements = [
        {"Effect": "Allow", "Action": ["mns:GetQueueAttributes", "mns:ListTopic"], "Resource": "*"},
        {
            "Effect": "Allow",
            "Action": "mns:ListSubscriptionByTopic",
            "Resource": "acs:mns:*:*:/topics/news/subscriptions/*",
        },
    ]
    document = {"Version": "1", "Statement": statements}
    cast.nora.policies.add(Policy.objects.create(tenant=cast.acme, name="one-topic", document=document))
    shown = page(cast, "queues.subscriptions", "orders", who="nora")
    assert "news" in shown and "alarms" not in shown
