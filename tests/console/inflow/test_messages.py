"""Inflow tasks whose events are messages: made over the wizard, with rights, a group of their own, recent messages."""

from __future__ import annotations

import time
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied
from django.urls import reverse

from analytics.pipelines.plan import Plan
from analytics.pipelines.reports import Reached
from brokercore.client import Credentials, Message, Producer
from brokercore.smq.client import QueueClient
from console.inflow import journey, queries, services
from console.inflow.providers import topics as topic_provider
from console.pipelines import samples, starts
from console.web.errors import Refused
from tests.console.inflow.conftest import reloaded
from tests.console.inflow.test_services import allow, claimed
from tests.console.inflow.test_views import FORM, page
from tests.support.broker import BrokerProcess
from tests.support.cast import Cast, make_group, make_topic
from tests.support.queue_service import QueueServiceProcess

pytestmark = pytest.mark.process
FROM_TOPIC = {
    "provider": "topic", "source": "", "group": "", "source_topic": "orders", "source_group": "GID_orders",
    "source_tag": "paid || new", "source_format": "json", "pattern": "", "body_method": "data_extraction",
    "body_path": "$.data.body", "properties_method": "not_specified", "key_method": "data_extraction",
    "key_path": "$.data.systemProperties.KEYS", "dead_kind": "", "dead_letters": "",
}  # fmt: skip


@pytest.fixture
def orders(cast: Cast, broker: BrokerProcess) -> None:
    """A topic that is read by a group, and one that is written to."""
    make_topic(cast.alice, cast.instance, "orders")
    make_topic(cast.alice, cast.instance, "order_changes")
    make_group(cast.alice, cast.instance, "GID_orders")


def document(cast: Cast, **source: Any) -> dict[str, Any]:
    place = {"kind": "topic", "topic": "orders", "group": "GID_orders", "instanceID": cast.instance.instance_id}
    sink = {"topic": "order_changes", "instanceID": cast.instance.instance_id}
    return {"name": "orders-to-topic", "source": place | source, "sink": sink}


def of_queue(cast: Cast, **source: Any) -> dict[str, Any]:
    return document(cast) | {"source": {"kind": "queue", "queue": "orders-in", **source}}


@pytest.fixture
def waiting(cast: Cast, queues: QueueServiceProcess) -> None:
    """A queue of acme's with a message."""
    with queues.client(cast.acme.uid, QueueClient) as client:
        client.create_queue("orders-in")
        client.send("orders-in", b'{"n": 7}')


def send(cast: Cast, broker: BrokerProcess, *bodies: bytes) -> None:
    key = Credentials(broker.access_key_id, broker.access_key_secret)
    with Producer(broker.namesrv, key, "GID_t", namespace=cast.instance.instance_id) as producer:
        for number, body in enumerate(bodies):
            producer.send(Message("orders", body, "paid", f"k{number}"))


# The wizard


def sent(cast: Cast, **changes: str) -> Any:
    place = {"instance": cast.instance.instance_id, "source_instance": cast.instance.instance_id}
    return cast.client("alice").post(reverse("inflow.create"), FORM | place | FROM_TOPIC | changes)


def test_the_wizard_makes_a_task_that_reads_a_topic_and_shows_it_again(cast: Cast, orders: None) -> None:
    response = sent(cast)
    assert response.status_code == 302, response.context["form"].errors
    task = reloaded(cast)
    assert services.document_of(task)["source"] == {
        "kind": "topic", "topic": "orders", "group": "GID_orders", "tag": "paid || new", "format": "json",
        "instanceID": cast.instance.instance_id, "messages": 200, "interval": 0,
    }  # fmt: skip
    form = cast.client("alice").get(reverse("inflow.update", args=[task.name])).context["form"]
    data = {name: "" if value is None else str(value) for name, value in form.initial.items()}
    assert data["provider"] == "topic"
    assert cast.client("alice").post(reverse("inflow.update", args=[task.name]), data).status_code == 302
    assert len({version.text for version in reloaded(cast).versions.all()}) == 1
    shown = page(cast, "inflow.detail", task.name)
    assert "ApsaraMQ for RocketMQ" in shown and "GID_orders" in shown


def test_the_wizard_makes_a_task_that_reads_a_queue(cast: Cast, orders: None, waiting: None) -> None:
    response = sent(cast, provider="queue", source_queue="orders-in", source_base64="on")
    assert response.status_code == 302, response.context["form"].errors
    assert services.document_of(reloaded(cast))["source"] == {
        "kind": "queue", "queue": "orders-in", "format": "json", "base64": True, "messages": 200, "interval": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"source_topic": ""}, "source_topic"),
        ({"source_topic": "nowhere"}, "source_topic"),
        ({"source_topic": "a b"}, "source_topic"),
        ({"source_group": ""}, "source_group"),
        ({"source_group": "GID_nobody"}, "source_group"),
        ({"source_format": "xml"}, "source_format"),
        ({"topic": "orders"}, "topic"),
        ({"provider": "tape"}, "provider"),
        ({"provider": "queue", "source_queue": ""}, "source_queue"),
        ({"provider": "queue", "source_queue": "a_b"}, "source_queue"),
        ({"provider": "queue", "source_queue": "nowhere"}, "source_queue"),
    ],
)
def test_what_is_wrong_stands_at_its_field(
    cast: Cast, orders: None, queues: QueueServiceProcess, changes: dict[str, str], field: str
) -> None:
    response = sent(cast, **changes)
    assert response.status_code == 422
    form = response.context["form"]
    assert list(form.errors) == [field]
    assert response.context["step"] == ("sink" if field == "topic" else "source")


def test_the_wizard_offers_the_topics_and_groups_that_one_may_read(cast: Cast, orders: None) -> None:
    shown = page(cast, "inflow.create")
    assert f'<option value="GID_orders">{cast.instance.name}</option>' in shown
    allow(cast, "nora", "dts:*")
    assert "GID_orders" not in page(cast, "inflow.create", who="nora")


# Rights


def test_the_engine_is_given_the_brokers_and_the_service(
    cast: Cast, orders: None, waiting: None, broker: BrokerProcess
) -> None:
    services.create(actor=cast.actor("alice"), document=document(cast))
    task = reloaded(cast)
    given = starts.spec_of(claimed(task)).given
    assert given["events"] == {
        "endpoint": broker.namesrv, "accessId": broker.access_key_id, "accessKey": broker.access_key_secret,
    }  # fmt: skip
    services.create(actor=cast.actor("alice"), document=of_queue(cast) | {"name": "of-queue"})
    given = starts.spec_of(claimed(reloaded(cast, "of-queue"))).given
    assert given["events"]["account"] == cast.acme.uid


def test_reading_takes_the_rights_of_whoever_reads_by_hand(cast: Cast, orders: None, waiting: None) -> None:
    allow(cast, "nora", "dts:*", "mq:PUB")
    with pytest.raises(PermissionDenied, match="mq:SUB"):
        services.create(actor=cast.actor("nora"), document=document(cast))
    with pytest.raises(PermissionDenied, match="mns:ReceiveMessage"):
        services.create(actor=cast.actor("nora"), document=of_queue(cast))
    allow(cast, "nora", "mns:ReceiveMessage")
    with pytest.raises(PermissionDenied, match="mns:DeleteMessage"):
        services.create(actor=cast.actor("nora"), document=of_queue(cast))
    allow(cast, "nora", "mq:SUB", "mns:DeleteMessage")
    services.create(actor=cast.actor("nora"), document=document(cast))
    services.create(actor=cast.actor("nora"), document=of_queue(cast) | {"name": "of-queue"})


def test_what_another_account_has_is_not_there(cast: Cast, orders: None, waiting: None) -> None:
    with pytest.raises(Refused) as refused:
        services.create(actor=cast.actor("charlie"), document=document(cast))
    assert (refused.value.symbol, refused.value.field) == ("TOPIC_NOT_FOUND", "source.topic")
    with pytest.raises(Refused) as refused:
        services.create(actor=cast.actor("charlie"), document=of_queue(cast))
    assert (refused.value.symbol, refused.value.field) == ("QUEUE_NOT_FOUND", "source.queue")


def test_a_cluster_elsewhere_is_read_with_secrets_that_the_starter_may_use(cast: Cast, orders: None) -> None:
    elsewhere = {"endpoint": "mq.example.com:9876", "accessId": "id", "accessKey": "${secret_values.far}"}
    told = document(cast, **elsewhere)
    services.create(actor=cast.actor("alice"), document=told, start=False)
    plan = Plan.from_json(reloaded(cast).version.plan)  # type: ignore[union-attr]
    assert plan.secrets == ("far",)
    with pytest.raises(Refused) as refused:
        services.begin(actor=cast.actor("alice"), pipeline=reloaded(cast))
    assert refused.value.symbol == "SECRET_NOT_FOUND"
    form = cast.client("alice").get(reverse("inflow.update", args=["orders-to-topic"])).context["form"]
    data = {name: "" if value is None else str(value) for name, value in form.initial.items()}
    cast.client("alice").post(reverse("inflow.update", args=["orders-to-topic"]), data)
    assert services.document_of(reloaded(cast))["source"] | elsewhere == services.document_of(reloaded(cast))["source"]


def test_a_group_is_for_one_task_only(cast: Cast, orders: None) -> None:
    services.create(actor=cast.actor("alice"), document=document(cast), start=False)
    with pytest.raises(Refused) as refused:
        services.create(actor=cast.actor("alice"), document=document(cast) | {"name": "other"}, start=False)
    assert (refused.value.symbol, refused.value.field) == ("GROUP_HELD", "source.group")
    assert "The inflow task orders-to-topic reads by the group GID_orders" in refused.value.message
    first = reloaded(cast)
    services.change(actor=cast.actor("alice"), pipeline=first, document=document(cast, tag="paid"))
    services.delete(actor=cast.actor("alice"), pipeline=reloaded(cast))
    services.create(actor=cast.actor("alice"), document=document(cast) | {"name": "other"}, start=False)


# Recent events


def test_recent_messages_of_a_topic_are_for_who_may_search_them(
    cast: Cast, orders: None, broker: BrokerProcess
) -> None:
    send(cast, broker, b'{"n": 1}', b"{")
    told = document(cast, format="json") | {"pattern": {"data": {"body": {"n": [1]}}}}
    found = journey.travel(actor=cast.actor("alice"), document=told)
    assert {one.title.partition(" ")[2]: one.passes for one in found.recent} == {"paid k1": False, "paid k0": True}
    assert found.origin == "recent"
    send(cast, broker, b"{", b"{")  # the newest of each queue
    found = journey.travel(actor=cast.actor("alice"), document=told)
    assert found.errors["source.format"].startswith("The body of the message is no JSON: ")
    allow(cast, "nora", "dts:*", "mq:SUB")
    found = journey.travel(actor=cast.actor("nora"), document=told)
    assert (found.origin, found.recent) == ("example", [])
    allow(cast, "nora", topic_provider.SEARCH)
    assert journey.travel(actor=cast.actor("nora"), document=told).origin == "recent"
    assert journey.travel(actor=cast.actor("charlie"), document=told).origin == "example"


def test_recent_messages_of_a_queue_are_peeked_at_by_who_may(cast: Cast, orders: None, waiting: None) -> None:
    told = of_queue(cast, format="json") | {"pattern": {"data": {"body": {"n": [7]}}}}
    found = journey.travel(actor=cast.actor("alice"), document=told)
    assert (found.origin, found.passes, [one.passes for one in found.recent]) == ("recent", True, [True])
    again = journey.travel(actor=cast.actor("alice"), document=told)
    assert '"dequeueCount": 0' in again.sample
    allow(cast, "nora", "dts:*", "mns:ReceiveMessage")
    assert journey.travel(actor=cast.actor("nora"), document=told).origin == "example"
    assert journey.travel(actor=cast.actor("charlie"), document=told).origin == "example"


@pytest.mark.parametrize(
    "source", [{"kind": "topic"}, {"kind": "queue"}, {"kind": "topic", "format": 7, "topic": "a%b"}]
)
def test_where_there_are_no_messages_an_example_travels(cast: Cast, source: dict[str, Any]) -> None:
    told = {"source": source, "sink": {"topic": "t", "body": {"method": "data_extraction", "path": "$.data.body"}}}
    found = journey.travel(actor=cast.actor("alice"), document=told)
    assert found.origin == "example" and found.messages[0].body


# Where it stands


def test_how_far_it_is_behind_is_how_long_the_first_message_has_waited(cast: Cast, orders: None) -> None:
    now = round(time.time() * 1000)
    assert samples.behind_ms(Reached(3, "broker-a:0:3", now - 9_000, 3, now - 9_000)) == 0
    behind = samples.behind_ms(Reached(3, "broker-a:0:3", now - 9_000, 5, now - 1_000, since_ms=now - 9_000))
    assert behind is not None and 9_000 <= behind < 60_000


def test_a_document_is_summed_up_by_what_it_reads(cast: Cast) -> None:
    assert queries.summary(services.text_of(document(cast))).source == "orders"
    assert queries.summary(services.text_of(of_queue(cast))).source == "orders-in"
