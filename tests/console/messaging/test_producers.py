"""Who sends to a topic, on a real broker: clients, gone ones, what is hidden, and what a cluster does not tell."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.urls import reverse

from brokercore.client import Admin, Message, Producer
from brokercore.client.admin.clients import Clients
from brokercore.client.errors import RequestNotSupported
from brokercore.protocol.codes import ResponseCode
from console.messaging import producers
from console.messaging.producers import Sender, Senders, senders
from console.topics.models import Group, Topic
from tests.console.live import Live
from tests.console.messaging.test_trace import told
from tests.console.openapi.caller import Caller
from tests.support.broker import eventually
from tests.support.cast import Cast


@contextmanager
def producer(live: Live, group: str, *, wrapped: bool = True) -> Iterator[Producer]:
    """A client that has said with a heartbeat that it produces, as the vendor's do once they have sent."""
    space = live.instance.instance_id if wrapped else ""
    with Producer(live.instance.cluster.namesrv, live.credentials, group, namespace=space) as client:
        client._members().join(live.admin.brokers.addresses().values())
        yield client


def online(topic: Topic) -> list[Sender]:
    return [one for one in senders(topic).found if one.online]


def test_a_client_is_told_with_its_group_library_times_and_rate(live: Live) -> None:
    topic = live.topic(queues=2)
    with producer(live, "GID_shop") as client:
        for _ in range(6):
            client.send(Message(topic.name, b"1"))
        (one,) = eventually(lambda: online(topic))
        assert (one.language, one.groups, one.messages) == ("PYTHON", ("GID_shop",), 6)
        assert one.message_ms and one.heartbeat_ms and one.addresses[0].startswith("127.0.0.1:")
        assert one.rate == pytest.approx(6 / producers.RATE_SECONDS)
        assert senders(topic).looked_at == 6


def test_addresses_without_a_client_are_told_and_several_of_one_host_are_one_row(live: Live) -> None:
    topic = live.topic(queues=1)
    for _ in range(2):
        with producer(live, "GID_shop") as client:
            client.send(Message(topic.name, b"1"))
    found = eventually(lambda: (known := senders(topic)) and not any(one.online for one in known.found) and known)
    assert [(one.client_id, one.addresses, one.messages) for one in found.found] == [("", ("127.0.0.1",), 2)]


def test_who_sends_to_another_topic_is_not_told(live: Live) -> None:
    topic, other = live.topic(queues=1), live.topic(queues=1)
    with producer(live, "GID_shop") as client:
        client.send(Message(other.name, b"1"))
        assert eventually(lambda: online(other))
        assert senders(topic) == Senders([], 0, True)


def test_the_newest_messages_alone_are_looked_at(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producers, "NEWEST", 5)
    topic = live.topic(queues=1)
    for _ in range(12):
        live.send(topic)
    found = senders(topic)
    assert found.looked_at == 5
    # They cover less than the minutes that rates are of, so the rate is higher than five in those.
    assert (found.found[0].rate or 0) > 5 / producers.RATE_SECONDS


def test_the_console_is_named_and_its_group_is_not(live: Live) -> None:
    topic = live.topic(queues=1)
    with producer(live, "GANTRY_CONSOLE", wrapped=False) as client:
        client.send(Message(topic.physical_name, b"1"))
        (one,) = eventually(lambda: online(topic))
    assert (one.is_console, one.groups) == (True, ())


def test_groups_of_other_accounts_and_namespaces_are_not_named(live: Live, cast: Cast) -> None:
    topic = live.topic(queues=1)
    instance = live.instance
    name = instance.physical_name("GID_of_charlie")
    Group.objects.create(
        instance=instance, group_id="GID_of_charlie", physical_name=name, owner=cast.charlies.tenant, shared=True
    )
    for group in (name, "MQ_INST_1_Other%GID_x", "bare"):
        with producer(live, group, wrapped=False) as client:
            client.send(Message(topic.physical_name, b"1"))
            (one,) = eventually(lambda: online(topic))
            assert one.groups == (), group
        eventually(lambda: not online(topic))


def test_a_trace_says_the_group_and_how_long_a_send_took(live: Live) -> None:
    topic = live.topic(queues=1)
    identity = live.send(topic).message_id
    told(live, identity, ("Pub", 1, "eu", "PG_orders", topic.name, identity, "", "", "h", 6, 23, 0, "o", "true"))
    one = senders(topic).found[0]
    assert (one.is_traced, one.groups, one.sent_ms) == (True, ("PG_orders",), 23)


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers that are too old to tell of all producers."""

    def refuse(_: Clients) -> None:
        raise RequestNotSupported(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "request type 328 not supported", "broker")

    monkeypatch.setattr(Clients, "all_producers", refuse)


@pytest.mark.usefixtures("silent")
def test_what_a_cluster_does_not_tell_is_said(live: Live, cast: Cast) -> None:
    topic = live.topic(queues=1)
    live.send(topic)
    found = senders(topic)
    assert (found.told, [one.online for one in found.found], found.found[0].messages) == (False, [False], 1)
    page = cast.client("alice").get(reverse("messaging.producers", args=[live.instance.instance_id, topic.name]))
    assert "do not tell which clients are connected" in page.content.decode()


def test_what_a_client_calls_itself_is_escaped_and_made_visible(live: Live, cast: Cast) -> None:
    topic = live.topic(queues=1)
    with producer(live, "GID_shop") as client:
        client.send(Message(topic.name, b"1"))
        eventually(lambda: online(topic))
        (one,) = online(topic)
        url = reverse("messaging.producers", args=[live.instance.instance_id, topic.name])
        hostile = f"<script>alert(1)</script>\x00\u202e{one.client_id}"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Clients, "all_producers", _renamed(live.admin, one.client_id, hostile))
            page = cast.client("alice").get(url).content.decode()
    assert "<script>alert" not in page
    assert "&lt;script&gt;" in page
    assert "\x00" not in page
    assert "\u202e" not in page


def _renamed(admin: Admin, client_id: str, name: str):  # type: ignore[no-untyped-def]
    known = admin.clients.all_producers()
    renamed = {
        group: [one._replace(client_id=name) if one.client_id == client_id else one for one in clients]
        for group, clients in known.items()
    }
    return lambda _: renamed


def test_only_the_owner_asks_and_by_the_right_to_see_the_topic(live: Live, cast: Cast) -> None:
    topic = live.topic(queues=1)
    url = reverse("messaging.producers", args=[topic.instance.instance_id, topic.name])
    for who, status in (("alice", 200), ("rita", 200), ("nora", 403), ("charlie", 404)):
        assert cast.client(who).get(url).status_code == status, who
    assert url in cast.client("rita").get(url.replace("/producers/", "/")).content.decode()


def test_machines_ask_with_topic_producers(live: Live, cast: Cast) -> None:
    topic = live.topic(queues=1)
    with producer(live, "GID_shop") as client:
        client.send(Message(topic.name, b"1"))
        eventually(lambda: online(topic))
        told_of = Caller.of(cast.alice).data("topic/producers", instanceId=live.instance.instance_id, topic=topic.name)
    assert (told_of["topic"], told_of["lookedAt"], told_of["clientsTold"]) == (topic.name, 1, True)
    (one,) = told_of["ProducerList"]
    assert (one["online"], one["groups"], one["messages"]) == (True, ["GID_shop"], 1)
    assert one["clientId"]
    assert one["lastMessage"] > 10**12
