"""What the console says and does while a broker is away. The tests end brokers, and bring them back."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from brokercore.client import Admin, Message, Producer
from brokercore.client.errors import BrokerUnreachable, ClientError, TopicNotExist
from brokercore.client.session import Call
from console.drift import sweep
from console.instances.models import Cluster
from console.messaging import queries, services
from console.messaging.queries import Source
from console.topics import services as topics
from console.topics.models import OrderType
from tests.clusters.test_walk import has_route
from tests.support.apache import ApacheRocketMQ
from tests.support.broker import eventually
from tests.support.cast import Cast, make_group, make_topic

pytestmark = [pytest.mark.broker, pytest.mark.java, pytest.mark.database]


@pytest.fixture
def told(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """The addresses that the console sends requests to."""
    found: set[str] = set()
    submit = admin.session.submit

    def noting(call: Call, timeout_ms: int | None = None) -> object:
        found.add(call.address)
        return submit(call, timeout_ms)

    monkeypatch.setattr(admin.session, "submit", noting)
    yield found


@pytest.mark.of_kind(layout="slave")
def test_a_slave_is_never_written_to_and_a_master_that_is_away_is_an_outage(
    cast: Cast, cluster: Cluster, admin: Admin, apache: ApacheRocketMQ, told: set[str]
) -> None:
    addresses = admin.brokers.addresses()
    assert set(addresses) == {"broker-a", "broker-a/1"}
    topic, group = make_topic(cast.alice, cast.instance), make_group(cast.alice, cast.instance)
    eventually(lambda: has_route(admin, topic), 30)
    sent = services.publish_test_message(cast.actor("alice"), topic, body=b"kept", key="kept")
    eventually(lambda: queries.find_by_id(Source.of_topic(topic), sent.message_id), 20)
    services.reset_offset(cast.actor("alice"), group, topic, "end")
    gone = make_topic(cast.alice, cast.instance, "gone")
    topics.delete_topic(actor=cast.actor("alice"), topic=gone)
    assert addresses["broker-a/1"] not in told

    apache.stop_broker("broker-a")
    try:
        eventually(lambda: set(admin.routes.cluster().brokers["broker-a"].addresses) == {"1"}, 30)
        for ask in (admin.topics.configs, admin.groups.configs, lambda: admin.groups.stats(group.physical_name)):
            with pytest.raises(BrokerUnreachable, match="its master is away"):
                ask()
        page = cast.client("alice").get(f"/i/{cast.instance.instance_id}/groups/GID_orders/")
        assert "its master is away" in page.content.decode()
        with pytest.raises(ClientError):
            make_topic(cast.alice, cast.instance, "while-away")
    finally:
        apache.start_broker("broker-a")
    eventually(lambda: _masters(admin) == {"broker-a"}, 60)
    assert topic.physical_name in admin.topics.configs()


@pytest.mark.of_kind(layout="two-masters")
def test_two_masters_have_each_topic_and_a_globally_ordered_one_is_on_one(
    cast: Cast, cluster: Cluster, admin: Admin, apache: ApacheRocketMQ
) -> None:
    topic = make_topic(cast.alice, cast.instance)
    ordered = make_topic(cast.alice, cast.instance, "one", OrderType.GLOBALLY_ORDERED)
    eventually(lambda: has_route(admin, topic), 30)
    by_broker = admin.topics.configs_by_broker()
    assert all(topic.physical_name in there for there in by_broker.values())
    assert [ordered.physical_name in there for there in by_broker.values()].count(True) == 1
    with Producer(apache.namesrv, apache.credentials(), "GID_sender") as producer:
        sent = [producer.send(Message(topic.physical_name, f"{n}".encode(), keys="both")) for n in range(32)]
    assert {one.queue.broker_name for one in sent} == {"broker-a", "broker-b"}
    source = Source.of_topic(topic)
    eventually(lambda: len(queries.find_by_key(source, "both")) == 32, 20)
    assert sum(one.max_offset for one in admin.topics.stats(topic.physical_name).values()) == 32
    sweep.sweep(cluster)
    assert sweep.last(cluster, cast.acme).differences == []  # type: ignore[union-attr]


@pytest.mark.of_kind(layout="controller")
def test_the_console_goes_on_with_the_master_that_the_controller_elects(
    cast: Cast, cluster: Cluster, admin: Admin, apache: ApacheRocketMQ
) -> None:
    topic = make_topic(cast.alice, cast.instance)
    eventually(lambda: has_route(admin, topic), 30)
    sent = services.publish_test_message(cast.actor("alice"), topic, body=b"before")
    source = Source.of_topic(topic)
    eventually(lambda: queries.find_by_id(source, sent.message_id), 20)
    before = admin.brokers.masters()["broker-a"]
    time.sleep(1)  # the slave follows within its next request
    (process,) = (name for name, address in apache.brokers().items() if address == before)
    apache.stop_broker(process)
    try:
        eventually(lambda: _address(admin) not in ("", before), 90)
        (found,) = eventually(lambda: queries.find_by_id(source, sent.message_id), 30)
        assert found.body == b"before"
        make_topic(cast.alice, cast.instance, "afterwards")
    finally:
        apache.start_broker(process)


def _masters(admin: Admin) -> set[str]:
    try:
        return set(admin.brokers.masters())
    except ClientError:
        return set()


def _address(admin: Admin) -> str:
    try:
        return admin.brokers.masters().get("broker-a", "")
    except (ClientError, TopicNotExist):
        return ""
