"""Rights of AccessKeys on brokers with ACL 1.0, and what is said where brokers ask nobody."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from brokercore.client import Admin, ConsumeResult, Credentials, Message, MessageView, Producer, PushConsumer
from brokercore.client.admin import Capability
from brokercore.client.admin.plain_acl import PlainAccount
from brokercore.client.errors import NoPermission
from console.accounts import services as accounts
from console.accounts.models import AccessKey, User
from console.cluster import services
from console.cluster.models import ClusterUser, State, Synchronisation
from console.instances.models import Cluster
from console.topics import services as topics
from tests.clusters.test_walk import has_route
from tests.support.apache import ApacheRocketMQ
from tests.support.broker import eventually
from tests.support.cast import Cast, make_group, make_topic

pytestmark = [pytest.mark.broker, pytest.mark.java, pytest.mark.database]


@pytest.fixture
def carried(cluster: Cluster) -> Iterator[Cluster]:
    """The accounts that a test made on the brokers end with it."""
    yield cluster
    AccessKey.objects.all().delete()
    services.synchronise(cluster, thorough=True)


def key_of(cast: Cast, user: User) -> tuple[AccessKey, Credentials]:
    issued = accounts.create_access_key(actor=cast.actor("alice"), user=user)
    key = AccessKey.objects.get(access_key_id=issued.access_key_id)
    return key, Credentials(issued.access_key_id, issued.access_key_secret)


def row_of(key: AccessKey) -> ClusterUser:
    return ClusterUser.objects.get(access_key_id=key.access_key_id)


@pytest.mark.of_kind(access="acl1")
def test_a_key_becomes_an_account_of_the_file_and_ends_there(
    cast: Cast, carried: Cluster, admin: Admin, apache: ApacheRocketMQ
) -> None:
    orders, foreign = make_topic(cast.alice, cast.instance), make_topic(cast.charlie, cast.charlies)
    group = make_group(cast.alice, cast.instance)
    key, bobs = key_of(cast, cast.bob)
    _, ritas = key_of(cast, cast.rita)
    assert services.synchronise(carried, thorough=True)
    assert row_of(key).state == State.SYNCED
    eventually(lambda: has_route(admin, orders) and has_route(admin, foreign), 30)
    for address in admin.brokers.addresses().values():
        there = admin.plain_acl.accounts(address)[bobs.access_key_id]
        assert there.topics[orders.physical_name] == {"PUB", "SUB"}
        assert there.groups == {group.physical_name: frozenset({"SUB"})}
        assert not there.is_admin
        assert foreign.physical_name not in there.topics

    received: list[bytes] = []
    with (
        Producer(apache.namesrv, bobs, "GID_bob") as producer,
        PushConsumer(apache.namesrv, bobs, group.physical_name, consume_from="CONSUME_FROM_FIRST_OFFSET") as consumer,
        Producer(apache.namesrv, ritas, "GID_rita") as reader,
    ):

        @consumer.on_message
        def take(message: MessageView) -> ConsumeResult:
            received.append(message.body)
            return ConsumeResult.SUCCESS

        consumer.subscribe(orders.physical_name).start()
        producer.send(Message(orders.physical_name, b"hello"))
        eventually(lambda: received, 30)
        for refused in (producer, reader):
            with pytest.raises(NoPermission):
                refused.send(Message(foreign.physical_name, b"not mine"))
        with pytest.raises(NoPermission):
            reader.send(Message(orders.physical_name, b"may only look"))

        topics.delete_topic(actor=cast.actor("charlie"), topic=foreign)
        accounts.set_access_key_enabled(actor=cast.actor("alice"), key=key, enabled=False)
        assert services.synchronise(carried)
        with pytest.raises(NoPermission):
            producer.send(Message(orders.physical_name, b"after"))
    assert row_of(key).state == State.ENDED


@pytest.mark.of_kind(access="acl1")
def test_rights_that_are_taken_leave_the_file_and_what_was_changed_there_is_mended(
    cast: Cast, carried: Cluster, admin: Admin
) -> None:
    orders = make_topic(cast.alice, cast.instance)
    make_group(cast.alice, cast.instance)
    key, bobs = key_of(cast, cast.bob)
    assert services.synchronise(carried, thorough=True)
    topics.delete_topic(actor=cast.actor("alice"), topic=orders)
    assert services.synchronise(carried)
    addresses = list(admin.brokers.addresses().values())
    assert all(orders.physical_name not in admin.plain_acl.accounts(at)[key.access_key_id].topics for at in addresses)
    by_hand = PlainAccount(key.access_key_id, bobs.access_key_secret, {"everything": frozenset({"PUB"})}, is_admin=True)
    admin.plain_acl.set_account(addresses[0], by_hand)
    assert services.synchronise(carried, thorough=True)
    mended = admin.plain_acl.accounts(addresses[0])[key.access_key_id]
    assert not mended.is_admin and "everything" not in mended.topics


@pytest.mark.of_kind(access="acl1")
def test_an_account_that_somebody_else_made_is_left_alone(cast: Cast, carried: Cluster, admin: Admin) -> None:
    key, _ = key_of(cast, cast.bob)
    address = next(iter(admin.brokers.addresses().values()))
    admin.plain_acl.set_account(address, PlainAccount(key.access_key_id, "somebody-elses-secret"))
    services.synchronise(carried, thorough=True)
    assert row_of(key).state == State.REFUSED
    assert admin.plain_acl.accounts(address)[key.access_key_id].secret == "somebody-elses-secret"
    admin.plain_acl.delete_account(address, key.access_key_id)
    admin.plain_acl.delete_account(address, key.access_key_id)


@pytest.mark.of_kind(access="open")
def test_brokers_that_ask_nobody_get_no_copies_and_the_page_says_so(cast: Cast, carried: Cluster) -> None:
    make_topic(cast.alice, cast.instance)
    key_of(cast, cast.bob)
    assert not services.synchronise(carried, thorough=True)
    error = Synchronisation.objects.get().error
    assert error == (
        "These brokers ask nobody who they are, so nothing is copied to them: everyone may do everything there."
    )


def test_the_kind_of_access_control_is_found_out(admin: Admin, apache: ApacheRocketMQ) -> None:
    wanted = {"acl1": {Capability.ACL_1}, "acl2": {Capability.ACL_2}, "open": set[Capability]()}[apache.access]
    assert admin.capabilities.of_cluster() & {Capability.ACL_1, Capability.ACL_2} == wanted
