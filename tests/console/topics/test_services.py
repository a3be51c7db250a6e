"""Topics and groups: rules of names, types on the broker, and nothing left behind by a failed broker call."""

from __future__ import annotations

import re
from typing import Any

import pytest
import redis as redis_client
from django.urls import reverse

from brokercore.client import ConsumeResult, Credentials, MessageQueue, MessageView, PushConsumer
from brokercore.client.errors import BrokerUnreachable
from brokercore.policy.table import KEYS, OWNERS
from console.accounts import services as accounts
from console.audit.models import Entry
from console.instances import broker as clients
from console.instances.models import Cluster, Instance
from console.rights import access_table
from console.topics import grants, services
from console.topics.models import Grant, Group, OrderType, Topic
from console.web.errors import Refused
from tests.support.broker import BrokerProcess
from tests.support.cast import Cast, make_group, make_instance, make_topic, on_broker


@pytest.mark.parametrize("name", ["ab", "x" * 94, "GIDdata", "CID_old", "with space", "a/b", "ünïcode", "", "a%b"])
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
    config = clients.admin(cast.cluster).topics.config(topic.physical_name)
    assert topic.physical_name == f"{cast.instance.instance_id}%typed"
    assert (config.message_type, config.write_queues, config.read_queues) == (message_type, queues, queues)
    fixed = clients.admin(cast.cluster).topics.route(topic.physical_name).order_conf
    assert fixed == (f"broker-a:{queues}" if message_type == "FIFO" else "")


@pytest.mark.parametrize(("independent_naming", "most"), [(True, 93), (False, 127)])
def test_a_topic_is_called_by_as_much_as_the_broker_takes(cast: Cast, independent_naming: bool, most: int) -> None:
    instance = make_instance(cast.alice, cast.cluster, name="long", independent_naming=independent_naming)
    name = f"{cast.acme.uid}-".ljust(most, "x")
    made = make_topic(cast.alice, instance, name)
    assert len(made.physical_name) == 127
    assert made.physical_name in on_broker(cast.cluster)
    page = cast.client("alice").get(reverse("topics.create", args=[instance.instance_id])).content.decode()
    assert f"3 to {most} letters, digits, - or _" in page
    with pytest.raises(Refused, match=f"3 to {most} letters"):
        make_topic(cast.alice, instance, f"{name}x")


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


@pytest.mark.parametrize("undo_works", [True, False])
def test_what_some_brokers_took_before_another_failed_is_taken_back(cast: Cast, undo_works: bool) -> None:
    topic = Topic(
        instance=cast.instance, name="half", physical_name=cast.instance.physical_name("half"), queues=1, order_type=0
    )

    def on_the_first_broker_only() -> None:
        services.apply_topic(topic)
        raise BrokerUnreachable("127.0.0.1:1", "the second one is away")

    def undo() -> None:
        services.remove_topic(topic)
        if not undo_works:
            raise BrokerUnreachable("127.0.0.1:2", "now all of them are")

    with pytest.raises(BrokerUnreachable, match="the second one is away"):
        services._applied(on_the_first_broker_only, undo)
    assert topic.physical_name not in on_broker(cast.cluster)


def test_it_sets_the_mode_on_the_broker(cast: Cast) -> None:
    topic = make_topic(cast.alice, cast.instance)
    services.set_topic_permission(actor=cast.actor("alice"), topic=topic, perm=4)
    assert clients.admin(cast.cluster).topics.config(topic.physical_name).perm == 4
    with pytest.raises(Refused):
        services.set_topic_permission(actor=cast.actor("alice"), topic=topic, perm=5)


@pytest.mark.parametrize(
    ("order", "on_broker", "by_itself"),
    [("Auto", False, True), ("Orderly", True, True), ("Concurrently", False, False)],
)
def test_a_groups_order_is_on_the_broker_and_stays_when_something_else_changes(
    cast: Cast, order: str, on_broker: bool, by_itself: bool
) -> None:
    actor = cast.actor("alice")
    group = services.create_group(actor=actor, instance=cast.instance, group_id="GID_new", delivery_order=order)
    changed = make_group(cast.alice, cast.instance, "GID_changed")
    services.set_group_order(actor=actor, group=changed, delivery_order=order)
    services.set_group_reading(actor=actor, group=changed, enabled=False)
    for name in (group.physical_name, changed.physical_name):
        config = clients.admin(cast.cluster).groups.config(name)
        assert (config.consume_message_orderly, config.orderly_by_subscriptions) == (on_broker, by_itself)
    with pytest.raises(Refused, match="one of Auto, Orderly, Concurrently"):
        services.set_group_order(actor=actor, group=group, delivery_order="sorted")


def test_a_group_of_an_ordered_topic_is_told_whether_it_gets_it_in_order(cast: Cast) -> None:
    group = make_group(cast.alice, cast.instance)
    make_topic(cast.alice, cast.instance, "trades", OrderType.PARTITIONALLY_ORDERED)
    make_topic(cast.alice, cast.instance, "clicks")
    page = reverse("groups.order", args=[cast.instance.instance_id, group.group_id])

    def told(*topics: str, order: str = "Auto") -> str:
        services.set_group_order(actor=cast.actor("alice"), group=group, delivery_order=order)
        admin = clients.admin(cast.cluster)
        for name in topics:
            queue = MessageQueue(cast.instance.physical_name(name), "broker-a", 0)
            admin.offsets.commit(group.physical_name, {queue: 0})
        text = cast.client("alice").get(page).content.decode()
        return " ".join(re.sub("<[^>]*>", " ", text).split())

    assert told() == "It consumes nothing yet."
    assert told("trades") == "In order now: it consumes ordered topics only."
    assert "without order. The group is set to that. Choose In order" in told(order="Concurrently")
    assert told(order="Orderly") == ""
    assert "consumes the ordered topic trades" in told("clicks")
    assert "It consumes clicks as well, which is not ordered" in told()
    cast.bring_cluster()
    assert "Brokers of Apache RocketMQ do not find out by themselves" in told()


def test_it_deletes_a_topic_and_a_group_on_the_broker(cast: Cast) -> None:
    topic, group = make_topic(cast.alice, cast.instance), make_group(cast.alice, cast.instance)
    names = {topic.physical_name, group.physical_name}
    assert names <= on_broker(cast.cluster)
    services.delete_topic(actor=cast.actor("alice"), topic=topic)
    services.delete_group(actor=cast.actor("alice"), group=group)
    assert not names & on_broker(cast.cluster)
    assert not Topic.objects.exists()
    assert not Group.objects.exists()


def test_a_deleted_topic_is_gone_with_its_grants_from_the_rows_and_from_the_brokers_table(
    cast: Cast, broker: BrokerProcess, django_capture_on_commit_callbacks: Any
) -> None:
    bare = make_instance(cast.alice, cast.cluster, name="bare", independent_naming=False)
    topic = make_topic(cast.alice, bare, "lent-out")
    grants.create_grant(actor=cast.actor("alice"), topic=topic, relation=6, tenant=cast.charlie.tenant)
    accounts.create_access_key(actor=cast.actor("charlie"), user=cast.charlie)
    access_table.publish()
    table = redis_client.Redis.from_url(f"{broker.redis_url}?db=0", decode_responses=True)
    assert "lent-out" in str(table.hgetall(KEYS))
    assert table.hexists(OWNERS, "lent-out")
    with django_capture_on_commit_callbacks(execute=True):
        services.delete_topic(actor=cast.actor("alice"), topic=topic)
    assert not Topic.objects.filter(name="lent-out").exists()
    assert not Grant.objects.exists()
    assert "lent-out" not in str(table.hgetall(KEYS))
    assert not table.hexists(OWNERS, "lent-out")
    assert make_topic(cast.charlie, make_instance(cast.charlie, cast.cluster, independent_naming=False), "lent-out")


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
