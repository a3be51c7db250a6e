"""Two clusters at once: each is reached with its own account, has names of its own, and none is changed unasked."""

from __future__ import annotations

import secrets
from typing import Any

import pytest
from redis import Redis

from brokercore.client import Message
from brokercore.client.errors import ClientError
from brokercore.names import DEFAULT_CLUSTER
from brokercore.policy import mq_resource
from brokercore.policy.table import HOLDERS, KEYS, OWNERS
from console.accounts import services as accounts
from console.accounts.crypto import encrypt
from console.cluster.translation import wanted
from console.demo import services as demo
from console.instances import broker as clients
from console.instances.models import Cluster, Origin
from console.instances.services import ensure_cluster
from console.metrics import queries as metrics
from console.metrics import sampler
from console.rights import access_table
from console.topics import grants, services
from console.topics.models import Group, Relation, Topic
from console.web.errors import Refused
from tests.console.beside import OTHER_SECRET, other, other_broker
from tests.support.broker import BrokerProcess
from tests.support.cast import Cast, make_group, make_instance, make_topic, on_broker

pytestmark = pytest.mark.django_db(transaction=True)

__all__ = ["other", "other_broker"]


@pytest.fixture
def name() -> str:
    """Brokers outlive the tests."""
    return f"bare-{secrets.token_hex(4)}"


def test_each_cluster_is_reached_with_its_own_account(cast: Cast, other: Cluster) -> None:
    assert clients.admin(other).brokers.masters() != clients.admin(cast.cluster).brokers.masters()
    other.secret_encrypted = encrypt("wrong")
    with pytest.raises(ClientError):
        clients.admin(other).topics.configs()
    other.secret_encrypted = encrypt(OTHER_SECRET)
    clients.admin(other).topics.configs()


def test_the_same_name_is_one_accounts_on_one_cluster_and_anothers_on_the_next(
    cast: Cast, other: Cluster, name: str
) -> None:
    here = make_instance(cast.alice, cast.cluster, name="bare", independent_naming=False)
    there = make_instance(cast.charlie, other, name="bare", independent_naming=False)
    assert make_instance(cast.alice, other, name="bare there", independent_naming=False)
    mine, theirs = make_topic(cast.alice, here, name), make_topic(cast.charlie, there, name)
    make_group(cast.alice, here, f"GID_{name}")
    make_group(cast.charlie, there, f"GID_{name}")
    assert {one.cluster for one in Topic.objects.filter(physical_name=name)} == {cast.cluster, other}
    assert {name, f"GID_{name}"} <= on_broker(cast.cluster) & on_broker(other)
    second = make_instance(cast.charlie, cast.cluster, name="bare here", independent_naming=False)
    with pytest.raises(Refused, match="already exists"):
        make_topic(cast.charlie, second, name)
    services.delete_topic(actor=cast.actor("charlie"), topic=theirs)
    assert name in on_broker(cast.cluster) - on_broker(other)
    services.delete_topic(actor=cast.actor("alice"), topic=mine)


def test_the_table_of_the_embedded_brokers_knows_only_what_is_there(
    cast: Cast, other: Cluster, name: str, broker: BrokerProcess
) -> None:
    here = make_instance(cast.alice, cast.cluster, name="bare", independent_naming=False)
    there = make_instance(cast.charlie, other, name="bare", independent_naming=False)
    for user, instance in ((cast.alice, here), (cast.charlie, there)):
        make_topic(user, instance, name)
        make_group(user, instance, f"GID_{name}")
    only_there = f"{name}-there"
    shared = make_topic(cast.charlie, there, only_there)
    grants.create_grant(actor=cast.actor("charlie"), topic=shared, relation=Relation.SUBSCRIBE, tenant=cast.acme)
    keys = {
        one: accounts.create_access_key(actor=cast.actor(one), user=cast.users[one]) for one in ("alice", "charlie")
    }
    access_table.publish()
    with Redis.from_url(f"{broker.redis_url}?db=0", decode_responses=True) as table:
        assert table.hget(OWNERS, name) == cast.acme.uid
        assert not table.hexists(OWNERS, only_there)
        assert str(table.hget(HOLDERS, f"GID_{name}")).startswith(cast.acme.uid)
        assert table.hexists(KEYS, keys["charlie"].access_key_id)
    resource = mq_resource(name)
    here_rows, there_rows = access_table.compiled(), access_table.compiled(other.pk)
    alice, charlie = keys["alice"].access_key_id, keys["charlie"].access_key_id
    assert resource not in (*here_rows[alice].boundary, *here_rows[charlie].boundary), "the table of owners has it"
    assert resource in there_rows[charlie].boundary and resource not in there_rows[alice].boundary
    assert (here_rows[alice].delegated, len(there_rows[alice].delegated)) == ([], 1)
    entries = {entry.resource for entry in wanted(other)[charlie].translation().entries}
    assert f"Topic:{name}" in entries
    assert f"Topic:{name}" not in {entry.resource for entry in wanted(other)[alice].translation().entries}


def test_a_group_on_another_cluster_changes_nothing_for_its_namesake_on_the_embedded_brokers(
    cast: Cast, other: Cluster, name: str, broker: BrokerProcess
) -> None:
    here = make_instance(cast.alice, cast.cluster, name="bare", independent_naming=False)
    there = make_instance(cast.charlie, other, name="bare", independent_naming=False)
    make_group(cast.alice, here, f"GID_{name}")
    group = make_group(cast.charlie, there, f"GID_{name}")
    services.delete_group(actor=cast.actor("charlie"), group=Group.objects.get(pk=group.pk))
    with Redis.from_url(f"{broker.redis_url}?db=0", decode_responses=True) as table:
        assert str(table.hget(HOLDERS, f"GID_{name}")).startswith(cast.acme.uid)


def test_grants_on_namesakes_say_the_same(cast: Cast, other: Cluster, name: str) -> None:
    here = make_instance(cast.alice, cast.cluster, name="bare", independent_naming=False)
    there = make_instance(cast.alice, other, name="bare there", independent_naming=False)
    first, second = make_topic(cast.alice, here, name), make_topic(cast.alice, there, name)
    alice = cast.actor("alice")
    grants.create_grant(actor=alice, topic=first, relation=Relation.SUBSCRIBE, user=cast.nora)
    with pytest.raises(Refused, match="another relation to a topic"):
        grants.create_grant(actor=alice, topic=second, relation=Relation.PUBLISH, user=cast.nora)
    grants.create_grant(actor=alice, topic=second, relation=Relation.SUBSCRIBE, user=cast.nora)


def test_a_read_only_cluster_takes_no_change(cast: Cast, other: Cluster, name: str) -> None:
    there = make_instance(cast.alice, other, independent_naming=False, name="bare")
    topic, group = make_topic(cast.alice, there, name), make_group(cast.alice, there, f"GID_{name}")
    Cluster.objects.filter(pk=other.pk).update(read_only=True)
    topic, group = Topic.objects.get(pk=topic.pk), Group.objects.get(pk=group.pk)
    alice = cast.actor("alice")
    assert name in on_broker(topic.instance.cluster)
    changes = (
        lambda: make_topic(cast.alice, topic.instance, f"{name}-2"),
        lambda: services.set_topic_permission(actor=alice, topic=topic, perm=4),
        lambda: services.delete_topic(actor=alice, topic=topic),
        lambda: make_group(cast.alice, topic.instance, f"GID_{name}-2"),
        lambda: services.set_group_reading(actor=alice, group=group, enabled=False),
        lambda: services.delete_group(actor=alice, group=group),
        lambda: clients.producer(topic.instance.cluster).send(Message(name, b"hello")),
    )
    for change in changes:
        with pytest.raises(Refused, match="The cluster other is read-only"):
            change()
    assert {name, f"GID_{name}"} <= on_broker(other)
    assert Topic.objects.get(pk=topic.pk).perm == 6
    Cluster.objects.filter(pk=other.pk).update(read_only=False)
    services.delete_topic(actor=alice, topic=Topic.objects.get(pk=topic.pk))


def test_samples_of_namesakes_do_not_mix(cast: Cast, other: Cluster, name: str, tmp_path: Any) -> None:
    here = make_instance(cast.alice, cast.cluster, name="bare", independent_naming=False)
    there = make_instance(cast.alice, other, name="bare there", independent_naming=False)
    topics = [make_topic(cast.alice, here, name), make_topic(cast.alice, there, name)]
    for number, topic in enumerate(topics):
        for _ in range(number + 1):
            clients.producer(topic.instance.cluster).send(Message(name, b"hello"))
        assert sampler.sample_cluster(topic.instance.cluster)
    assert [metrics.rates(topic.instance.cluster, topics=[name]).stored.get(name) for topic in topics] == [1, 2]
    assert sampler.in_lake(cast.cluster, name) == name
    assert sampler.in_lake(other, name) == f"*other/{name}"


def test_the_settings_move_the_first_cluster_alone(cast: Cast, other: Cluster, settings: Any) -> None:
    settings.NAMESRV, settings.EMBEDDED_BROKER = "10.0.0.9:9876", False
    first = ensure_cluster()
    assert (first.name, first.origin, first.namesrv) == ("10.0.0.9", Origin.SETTINGS, "10.0.0.9:9876")
    before = cast.cluster.namesrv
    cast.cluster.refresh_from_db()
    assert (cast.cluster.name, cast.cluster.embedded, cast.cluster.namesrv) == (DEFAULT_CLUSTER, True, before)
    settings.NAMESRV = "10.0.0.10:9876"
    assert ensure_cluster().pk == first.pk
    before = other.namesrv
    other.refresh_from_db()
    assert other.namesrv == before


def test_what_the_demo_mends_is_mended_on_its_own_cluster_alone(cast: Cast, other: Cluster, name: str) -> None:
    there = make_instance(cast.charlie, other, name="bare", independent_naming=False)
    make_topic(cast.charlie, there, name)
    clients.admin(other).topics.delete(name)
    demo.mend(cast.cluster)
    assert name not in on_broker(other)
