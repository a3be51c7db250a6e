"""Topics and groups: rules of names, types on the broker, and nothing left behind by a failed broker call."""

from __future__ import annotations

import pytest

from brokercore.client import ConsumeResult, Credentials, MessageView, PushConsumer
from brokercore.client.errors import BrokerUnreachable
from console.audit.models import Entry
from console.instances import broker as clients
from console.instances.models import Cluster, Instance
from console.topics import services
from console.topics.models import Group, OrderType, Topic
from console.web.errors import Refused
from tests.support.cast import Cast, make_group, make_instance, make_topic, on_broker


@pytest.mark.parametrize("name", ["ab", "x" * 65, "GIDdata", "CID_old", "with space", "a/b", "ünïcode", "", "a%b"])
def test_it_refuses_a_topic_name_that_breaks_the_rule(cast: Cast, name: str) -> None:
    with pytest.raises(Refused) as refused:
        make_topic(cast.alice, cast.instance, name)
    assert (refused.value.symbol, refused.value.field) == ("BIZ_FIELD_CHECK_INVALID", "name")
    assert not Topic.objects.exists()


@pytest.mark.parametrize("group_id", ["GID_", "GID", "orders", "gid_orders", "GID_" + "x" * 61, "GID_a b", "CID_old"])
def test_it_refuses_a_group_id_that_breaks_the_rule(cast: Cast, group_id: str) -> None:
    with pytest.raises(Refused) as refused:
        make_group(cast.alice, cast.instance, group_id)
    assert (refused.value.symbol, refused.value.field) == ("BIZ_FIELD_CHECK_INVALID", "group_id")


@pytest.mark.parametrize(
    ("order_type", "message_type", "queues"),
    [
        (OrderType.NORMAL, "NORMAL", 8),
        (OrderType.PARTITIONALLY_ORDERED, "FIFO", 8),
        (OrderType.GLOBALLY_ORDERED, "FIFO", 1),
        (OrderType.TRANSACTIONAL, "TRANSACTION", 8),
        (OrderType.DELAYED, "DELAY", 8),
    ],
)
def test_it_creates_each_type_on_the_broker(cast: Cast, order_type: int, message_type: str, queues: int) -> None:
    topic = make_topic(cast.alice, cast.instance, "typed", order_type)
    config = clients.admin(cast.cluster).topic_config(topic.physical_name)
    assert topic.physical_name == f"{cast.instance.instance_id}%typed"
    assert (config.message_type, config.write_queues, config.read_queues) == (message_type, queues, queues)
    fixed = clients.admin(cast.cluster).route(topic.physical_name).order_conf
    assert fixed == (f"broker-a:{queues}" if message_type == "FIFO" else "")


def test_it_refuses_an_order_type_that_is_not_used(cast: Cast) -> None:
    with pytest.raises(Refused) as refused:
        make_topic(cast.alice, cast.instance, "three", 3)
    assert refused.value.field == "order_type"


def test_it_refuses_a_taken_name_in_the_same_instance_only(cast: Cast) -> None:
    make_topic(cast.alice, cast.instance, "orders")
    with pytest.raises(Refused) as refused:
        make_topic(cast.alice, cast.instance, "orders")
    assert refused.value.symbol == "BIZ_TOPIC_EXISTED"
    make_topic(cast.charlie, cast.charlies, "orders")


def test_names_of_default_instances_are_unique_across_accounts(cast: Cast) -> None:
    ours = make_instance(cast.alice, cast.cluster, name="bare", independent_naming=False)
    theirs = make_instance(cast.charlie, cast.cluster, name="bare", independent_naming=False)
    make_topic(cast.alice, ours, "shared-name")
    make_group(cast.alice, ours, "GID_shared")
    with pytest.raises(Refused) as topic:
        make_topic(cast.charlie, theirs, "shared-name")
    with pytest.raises(Refused) as group:
        make_group(cast.charlie, theirs, "GID_shared")
    assert topic.value.symbol == "BIZ_TOPIC_EXISTED"
    assert group.value.symbol == "BIZ_CONSUMER_ID_BELONG_TO_OTHER_USER"


def test_it_refuses_more_topics_than_the_instance_may_have(cast: Cast) -> None:
    small = make_instance(cast.alice, cast.cluster, name="small", topic_capacity=1)
    make_topic(cast.alice, small, "first")
    with pytest.raises(Refused) as refused:
        make_topic(cast.alice, small, "second")
    assert refused.value.symbol == "BIZ_TOPIC_QUOTA_EXCEEDED"


def test_a_failed_broker_call_leaves_no_row_and_no_audit_entry(cast: Cast) -> None:
    away = Cluster.objects.create(name="away", region=cast.cluster.region, namesrv="127.0.0.1:1")
    Instance.objects.filter(pk=cast.instance.pk).update(cluster=away)
    instance = Instance.objects.get(pk=cast.instance.pk)
    before = Entry.objects.count()
    with pytest.raises(BrokerUnreachable):
        make_topic(cast.alice, instance, "never")
    with pytest.raises(BrokerUnreachable):
        make_group(cast.alice, instance, "GID_never")
    assert not Topic.objects.exists()
    assert not Group.objects.exists()
    assert Entry.objects.count() == before


def test_it_sets_the_mode_on_the_broker(cast: Cast) -> None:
    topic = make_topic(cast.alice, cast.instance)
    services.set_topic_permission(actor=cast.actor("alice"), topic=topic, perm=4)
    assert clients.admin(cast.cluster).topic_config(topic.physical_name).perm == 4
    with pytest.raises(Refused):
        services.set_topic_permission(actor=cast.actor("alice"), topic=topic, perm=5)


def test_it_deletes_a_topic_and_a_group_on_the_broker(cast: Cast) -> None:
    topic, group = make_topic(cast.alice, cast.instance), make_group(cast.alice, cast.instance)
    names = {topic.physical_name, group.physical_name}
    assert names <= on_broker(cast.cluster)
    services.delete_topic(actor=cast.actor("alice"), topic=topic)
    services.delete_group(actor=cast.actor("alice"), group=group)
    assert not names & on_broker(cast.cluster)
    assert not Topic.objects.exists()
    assert not Group.objects.exists()


def test_it_refuses_to_delete_a_group_that_is_online(cast: Cast) -> None:
    topic, group = make_topic(cast.alice, cast.instance), make_group(cast.alice, cast.instance)
    credentials: Credentials = clients.system_credentials()
    consumer = PushConsumer(cast.cluster.namesrv, credentials, group.physical_name)
    consumer.subscribe(topic.physical_name)
    consumer.on_message(_consumed)
    consumer.start()
    try:
        with pytest.raises(Refused) as refused:
            services.delete_group(actor=cast.actor("alice"), group=group)
    finally:
        consumer.shutdown()
    assert "online" in refused.value.message
    assert Group.objects.filter(pk=group.pk).exists()


def test_it_audits_each_change(cast: Cast) -> None:
    topic = make_topic(cast.alice, cast.instance)
    services.set_topic_permission(actor=cast.actor("bob"), topic=topic, perm=2)
    services.delete_topic(actor=cast.actor("bob"), topic=topic)
    entries = Entry.objects.filter(resource=f"{cast.instance.instance_id}%orders").order_by("pk")
    assert [(e.actor, e.action) for e in entries] == [
        ("admin@acme", "topics.topic.create"),
        ("bob@acme", "topics.topic.update"),
        ("bob@acme", "topics.topic.delete"),
    ]


def _consumed(_message: MessageView) -> ConsumeResult:
    return ConsumeResult.SUCCESS
