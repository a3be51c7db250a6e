"""What a pipeline may read and write: asked of its starter, with the rights of now, and told to the worker only."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import PermissionDenied

from analytics.pipelines.plan import Column, Insert, Plan, Sink, Source, Value
from analytics.pipelines.runner import Start
from console.accounts.models import Policy, User
from console.catalog.models import Bucket, ExternalTable, Schema
from console.instances import broker as broker_clients
from console.instances.models import Cluster, Instance, Origin
from console.pipelines import services, starts
from console.pipelines.lifecycle import Lease
from console.pipelines.models import Pipeline
from console.topics.models import Topic
from console.web.errors import Refused
from tests.console.beside import other, other_broker
from tests.console.pipelines.conftest import started_with
from tests.support.broker import BrokerProcess
from tests.support.cast import Cast, make_group, make_topic

__all__ = ["other", "other_broker"]
A = (Column("a", "string"),)
OWN_QUEUE = Source("q", "mns", A, format="raw", options={"queueName": "flights"})
KEYED_QUEUE = Source(
    "q", "mns", A, format="raw",
    options={"queueName": "flights", "endpoint": "http://93.184.216.34:1", "accessKeyId": "x", "accessKeySecret": "y"},
)  # fmt: skip


def plan_of(*tables: Source | Sink, **parts: Any) -> Plan:
    sources = tuple(table for table in tables if isinstance(table, Source))
    sinks = tuple(table for table in tables if isinstance(table, Sink)) or (Sink("o", "print", A),)
    return Plan(sources, sinks, (), (Insert(sinks[0].name, "SELECT 1"),), **parts)


def allow(cast: Cast, name: str, *actions: str, resource: str = "*") -> None:
    statement = {"Effect": "Allow", "Action": list(actions), "Resource": resource}
    document = {"Version": "1", "Statement": [statement]}
    policy = Policy.objects.create(tenant=cast.acme, name=f"of-{name}-{Policy.objects.count()}", document=document)
    User.objects.get(pk=cast.users[name].pk).policies.add(policy)


def test_a_queue_of_the_accounts_own_is_read_in_its_name(cast: Cast, settings: Any) -> None:
    given = starts.given(cast.actor("alice"), plan_of(OWN_QUEUE))
    assert given == {
        "q": {
            "endpoint": settings.SMQ_ADDRESS,
            "accessKeyId": settings.BROKER_ACCESS_KEY_ID,
            "accessKeySecret": settings.BROKER_ACCESS_KEY_SECRET,
            "account": cast.acme.uid,
        }
    }


def test_a_table_with_a_key_never_gets_gantrys_own(cast: Cast) -> None:
    assert starts.given(cast.actor("alice"), plan_of(KEYED_QUEUE)) == {}


def test_the_engine_is_told_the_brokers_of_clusters_and_none_that_a_text_names(cast: Cast, other: Cluster) -> None:
    Cluster.objects.create(name="named", namesrv="127.0.0.1:1", origin=Origin.ADDED)
    queue = {"endpoint": "http://127.0.0.1:8071", "accessKeyId": "x"}
    given: dict[str, dict[str, Value]] = {"q": {**queue}, "s": {"endpoint": other.namesrv}, "t": {"networks": ""}}
    plan = plan_of(Source("t", "mq", A, options={"endpoint": "127.0.0.1:1", "accessId": "x", "topic": "late"}))
    spec = Start("p", cast.acme.uid, plan, "oss://x/", 1, given=given)
    brokers = broker_clients.admin(other).brokers.addresses().values()
    assert starts.brokers_of(spec) == {other.namesrv, *brokers}
    dead = Start("p", cast.acme.uid, plan, "oss://x/", 1, given={"t": {"deadEndpoint": other.namesrv}})
    assert starts.brokers_of(dead) == {other.namesrv, *brokers}


def test_reading_a_queue_takes_the_rights_to_receive_and_to_delete(cast: Cast) -> None:
    with pytest.raises(PermissionDenied, match="mns:ReceiveMessage"):
        starts.given(cast.actor("nora"), plan_of(OWN_QUEUE))
    allow(cast, "nora", "mns:ReceiveMessage", resource="acs:mns:*:*:/queues/flights/messages")
    with pytest.raises(PermissionDenied, match="mns:DeleteMessage"):
        starts.given(cast.actor("nora"), plan_of(OWN_QUEUE))
    allow(cast, "nora", "mns:DeleteMessage", resource="acs:mns:*:*:/queues/flights/messages")
    assert set(starts.given(cast.actor("nora"), plan_of(OWN_QUEUE))) == {"q"}
    with pytest.raises(PermissionDenied):
        starts.given(cast.actor("nora"), plan_of(Source("q", "mns", A, options={"queueName": "others"})))


def test_topics_are_read_with_the_group_and_written_by_who_may(cast: Cast, broker: BrokerProcess) -> None:
    make_topic(cast.alice, cast.instance, "late")
    make_group(cast.alice, cast.instance, "GID_late")
    options: dict[str, Value] = {"topic": "late", "instanceID": cast.instance.instance_id}
    source = Source("t", "mq", A, format="csv", options=options | {"consumerGroup": "GID_late"})
    sink = Sink("s", "mq", A, format="csv", options=options | {"producerGroup": "GID_x"})
    given = starts.given(cast.actor("bob"), plan_of(source, sink))
    key = {"accessId": broker.access_key_id, "accessKey": broker.access_key_secret}
    assert given == dict.fromkeys(("t", "s"), {"endpoint": broker.namesrv} | key)

    with pytest.raises(PermissionDenied, match="mq:PUB"):
        starts.given(cast.actor("rita"), plan_of(sink))
    with pytest.raises(PermissionDenied, match="mq:SUB"):
        starts.given(cast.actor("rita"), plan_of(source))
    with pytest.raises(Refused, match="There is no topic"):
        starts.given(cast.actor("charlie"), plan_of(sink))
    unknown = Source("t", "mq", A, format="csv", options=options | {"consumerGroup": "GID_none"})
    with pytest.raises(Refused, match="There is no group"):
        starts.given(cast.actor("alice"), plan_of(unknown))


@pytest.mark.parametrize(
    ("kept", "told"),
    [
        ({}, {}),
        ({"tls": True}, {"ca": "system"}),
        ({"tls": True, "authority": "-----BEGIN"}, {"ca": "-----BEGIN"}),
        ({"authority": "-----BEGIN"}, {}),
    ],
)
def test_brokers_of_an_added_cluster_are_reached_without_a_key_and_checked_as_it_says(
    cast: Cast, kept: dict[str, Any], told: dict[str, Value]
) -> None:
    added = Cluster.objects.create(name="plain", namesrv="mq.example.com:9876", origin=Origin.ADDED, **kept)
    instance = Instance.objects.create(instance_id="MQ_INST_1_added", tenant=cast.acme, cluster=added, name="added")
    Topic.objects.create(instance=instance, name="late", physical_name="MQ_INST_1_added%late", order_type=0)
    sink = Sink("s", "mq", A, format="csv", options={"topic": "late", "instanceID": "MQ_INST_1_added"})
    assert starts.given(cast.actor("alice"), plan_of(sink)) == {"s": {"endpoint": "mq.example.com:9876"} | told}


@pytest.mark.parametrize(
    "path", ["oss://umbrellas/x/", "oss://gantry-pipelines/1/2/", "oss://aliyun-oa-query-results-1/x/"]
)
def test_a_folder_of_others_is_not_there(cast: Cast, path: str) -> None:
    Bucket.objects.create(tenant=cast.charlies.tenant, name="umbrellas")
    for table in (
        Source("f", "filesystem", A, format="csv", options={"path": path}),
        Sink("f", "filesystem", A, format="csv", options={"path": path}),
        Sink("f", "filesystem", A, format="csv", options={"path": "${secret_values.path}"}),
    ):
        with pytest.raises(Refused):
            starts.given(cast.actor("alice"), plan_of(table))


def test_a_folder_takes_the_right_to_read_or_to_write_it(cast: Cast) -> None:
    Bucket.objects.create(tenant=cast.acme, name="acmes")
    source = Source("f", "filesystem", A, format="csv", options={"path": "oss://acmes/in/"})
    sink = Sink("f", "filesystem", A, format="csv", options={"path": "oss://acmes/in/"})
    allow(cast, "nora", "dla:ReadBucket")
    assert starts.given(cast.actor("nora"), plan_of(source)) == {}
    with pytest.raises(PermissionDenied, match="dla:WriteBucket"):
        starts.given(cast.actor("nora"), plan_of(sink))


def test_the_engine_is_told_secrets_and_only_the_tables_that_are_named(cast: Cast, started: Pipeline) -> None:
    actor = cast.actor("alice")
    services.set_secret(actor=actor, name="id", value="LTAIx")
    assert starts.spec_of(Lease(started.pk, "", 3)).secrets == {}
    plan = plan_of(KEYED_QUEUE, secrets=("id",))
    started_with(actor, started, plan)
    spec = starts.spec_of(Lease(started.pk, "", 4))
    assert (spec.number, dict(spec.secrets), dict(spec.tables)) == (4, {"id": "LTAIx"}, {})
    assert "LTAIx" not in repr(spec)
    services.delete_secret(actor=actor, name="id")
    with pytest.raises(Refused, match="There is no secret id"):
        starts.spec_of(Lease(started.pk, "", 5))


def test_the_engine_is_told_the_tables_that_the_plan_names_and_its_starter_may_query(
    cast: Cast, started: Pipeline
) -> None:
    schema = Schema.objects.create(tenant=cast.acme, name="demo")
    for name in ("flights", "airlines"):
        ExternalTable.objects.create(schema=schema, name=name, location=f"oss://acmes/{name}/", format="csv")
    plan = plan_of(tables=(("demo", "flights"),))
    started_with(cast.actor("alice"), started, plan)
    spec = starts.spec_of(Lease(started.pk, "", 1))
    assert {schema: [table.name for table in tables] for schema, tables in spec.tables.items()} == {"demo": ["flights"]}
    Pipeline.objects.filter(pk=started.pk).update(creator=cast.nora)
    assert starts.spec_of(Lease(started.pk, "", 2)).tables == {}
