"""The schemas mq and gantry: which tables exist for whom."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from pytest_django import Settings

from analytics.errors import QueryRefused
from analytics.samples import files
from analytics.specs import Sample, TableSpec
from console.accounts.actor import Actor
from console.accounts.models import Policy, User
from console.archive.models import ArchiveStatus, TopicArchive
from console.audit import record as audit
from console.catalog import virtual
from console.catalog.virtual import gantry
from console.sql.models import QueryTask
from console.topics import grants
from console.topics.models import Topic
from tests.support.cast import Cast, cast, console, make_group, make_instance, make_topic

__all__ = ["cast", "console"]
pytestmark = pytest.mark.django_db


def found(actor: Actor, name: str, schema: str = "mq") -> TableSpec:
    table = virtual.lookup(actor)(schema, name)
    assert table is not None
    return table


def topic_of(table: TableSpec) -> str:
    return dict(table.options)["topic"]


def refusal(actor: Actor, name: str, schema: str = "mq") -> str:
    with pytest.raises(QueryRefused) as refused:
        virtual.lookup(actor)(schema, name)
    return refused.value.user_message.replace(name, "…")


def allow(user: User, action: str, resource: str = "*") -> Actor:
    document = {"Version": "1", "Statement": [{"Effect": "Allow", "Action": action, "Resource": resource}]}
    user.policies.add(Policy.objects.create(tenant=user.tenant, name=f"allows-{action}", document=document))
    return Actor(User.objects.get(pk=user.pk))


def test_an_own_topic_is_found_by_its_physical_and_its_plain_name(cast: Cast) -> None:
    topic = make_topic(cast.alice, cast.instance)
    table = found(cast.actor("alice"), topic.physical_name)
    assert (table.name, table.format, topic_of(table)) == (topic.physical_name, "mq", topic.physical_name)
    assert topic_of(found(cast.actor("alice"), "orders")) == topic.physical_name
    assert virtual.lookup(cast.actor("alice"))("demo", "orders") is None


def test_a_plain_name_of_two_topics_is_refused_and_lists_them(cast: Cast) -> None:
    other = make_instance(cast.alice, cast.cluster, name="second")
    first, second = make_topic(cast.alice, cast.instance), make_topic(cast.alice, other)
    with pytest.raises(QueryRefused, match="may mean one of") as refused:
        virtual.lookup(cast.actor("alice"))("mq", "orders")
    assert first.physical_name in refused.value.user_message
    assert second.physical_name in refused.value.user_message


def test_another_accounts_topic_is_refused_as_an_unknown_one(cast: Cast) -> None:
    topic = make_topic(cast.charlie, cast.charlies, "secret")
    alice = cast.actor("alice")
    assert refusal(alice, topic.physical_name) == refusal(alice, "no-such-topic")
    assert refusal(alice, "secret") == refusal(alice, "no-such-topic")


def test_a_grant_to_subscribe_shows_the_topic_and_one_to_publish_does_not(cast: Cast) -> None:
    topic = make_topic(cast.charlie, cast.charlies, "shared")
    grant = grants.create_grant(actor=cast.actor("charlie"), topic=topic, relation=4, tenant=cast.acme)
    assert topic_of(found(cast.actor("alice"), topic.physical_name)) == topic.physical_name
    assert refusal(cast.actor("alice"), "shared") == refusal(cast.actor("alice"), "no-such-topic")
    grants.delete_grant(actor=cast.actor("charlie"), grant=grant)
    grants.create_grant(actor=cast.actor("charlie"), topic=topic, relation=2, tenant=cast.acme)
    assert refusal(cast.actor("alice"), topic.physical_name) == refusal(cast.actor("alice"), "no-such-topic")


def test_a_granted_topic_never_takes_the_place_of_an_own_one(cast: Cast) -> None:
    """The account that grants chose its topic's name: a bare one could be that of ours."""
    own = make_topic(cast.alice, cast.instance)
    default = make_instance(cast.charlie, cast.cluster, name="default", independent_naming=False)
    theirs = make_topic(cast.charlie, default, "orders")
    assert theirs.physical_name == "orders"
    assert topic_of(found(cast.actor("alice"), "orders")) == own.physical_name
    grants.create_grant(actor=cast.actor("charlie"), topic=theirs, relation=4, tenant=cast.acme)
    assert "may mean one of" in refusal(cast.actor("alice"), "orders")


def test_a_user_needs_the_right_to_subscribe(cast: Cast) -> None:
    topic = make_topic(cast.alice, cast.instance)
    assert refusal(cast.actor("nora"), topic.physical_name) == refusal(cast.actor("nora"), "no-such-topic")
    assert virtual.tables(cast.actor("nora"), "mq") == []
    nora = allow(cast.nora, "mq:SUB", f"acs:mq:*:*:{topic.physical_name}")
    assert topic_of(found(nora, topic.physical_name)) == topic.physical_name
    assert virtual.tables(nora, "mq") == [topic.physical_name]


def test_dead_letters_are_those_of_own_groups(cast: Cast) -> None:
    group = make_group(cast.alice, cast.instance)
    name = f"%DLQ%{group.physical_name}"
    assert topic_of(found(cast.actor("alice"), name)) == name
    assert topic_of(found(cast.actor("bob"), f"%RETRY%{group.physical_name}")) == f"%RETRY%{group.physical_name}"
    for who in ("nora", "charlie"):
        assert refusal(cast.actor(who), name) == refusal(cast.actor(who), "%DLQ%GID_unknown")


def test_lists_are_narrowed_by_like_and_limit(cast: Cast) -> None:
    for name in ("orders", "orders-eu", "invoices"):
        make_topic(cast.alice, cast.instance, name)
    make_topic(cast.charlie, cast.charlies, "secret")
    alice = cast.actor("alice")
    names = [name.rpartition("%")[2] for name in virtual.tables(alice, "mq")]
    assert names == ["invoices", "orders", "orders-eu"]
    assert len(virtual.tables(alice, "mq", like="%orders%")) == 2
    assert len(virtual.tables(alice, "mq", limit=1)) == 1
    assert virtual.tables(alice, "GANTRY", like="a%") == ["audit"]
    assert virtual.tables(alice, "demo") == []


def test_columns_are_told_of_tables_that_may_be_queried(cast: Cast) -> None:
    topic = make_topic(cast.alice, cast.instance)
    described = virtual.columns(cast.actor("alice"), "mq", topic.physical_name)
    table = found(cast.actor("alice"), topic.physical_name)
    assert [(c["name"], c["type"]) for c in described] == [(c.name, c.type) for c in table.columns]
    assert virtual.columns(cast.actor("nora"), "mq", topic.physical_name) == []
    assert [c["name"] for c in virtual.columns(cast.actor("alice"), "gantry", "query_tasks")][:2] == [
        "id",
        "mpp_query_id",
    ]


def test_an_archive_tells_where_the_broker_is_to_be_read_from(cast: Cast) -> None:
    topic = make_topic(cast.alice, cast.instance)
    offsets = {"broker-a:0": 7}
    TopicArchive.objects.create(
        tenant=cast.acme,
        topic=topic,
        physical_name=topic.physical_name,
        location="oss://gantry-archive-1/a/",
        offsets=offsets,
        status=ArchiveStatus.IDLE,
        requested_at=datetime.now(UTC),
    )
    table = found(cast.actor("alice"), "orders")
    assert (table.location, json.loads(dict(table.options)["begin"])) == ("oss://gantry-archive-1/a/", offsets)
    Topic.objects.filter(pk=topic.pk).delete()
    table = found(cast.actor("alice"), topic.physical_name)
    assert (table.location, "namesrv" in dict(table.options)) == ("oss://gantry-archive-1/a/", False)
    assert refusal(cast.actor("charlie"), topic.physical_name) == refusal(cast.actor("charlie"), "no-such-topic")


def rows_of(actor: Actor, name: str) -> list[dict[str, object]]:
    table = found(actor, name, "gantry")
    assert table.rows is not None
    return [dict(zip([c.name for c in table.columns], row, strict=True)) for row in table.rows()]


def test_the_audit_table_has_the_accounts_entries_for_who_may_read_them(cast: Cast, settings: Settings) -> None:
    settings.SQL_SNAPSHOT_ROWS = 3
    for number in range(5):
        audit.record(cast.actor("alice"), "test.thing.do", f"thing-{number}", detail={"n": number})
    audit.record(cast.actor("charlie"), "test.thing.do", "charlies")
    rows = rows_of(cast.actor("alice"), "audit")
    assert [row["resource"] for row in rows] == ["thing-4", "thing-3", "thing-2"]
    assert json.loads(str(rows[0]["detail"])) == {"n": 4}
    assert refusal(cast.actor("nora"), "audit", "gantry") == refusal(cast.actor("nora"), "nothing", "gantry")


def test_the_task_table_shows_each_user_the_own_tasks(cast: Cast) -> None:
    for name in ("alice", "bob", "charlie"):
        user = getattr(cast, name)
        QueryTask.objects.create(id=f"q-{name}", tenant=user.tenant, creator=user, table_schema="demo", command="x")
    assert {row["id"] for row in rows_of(cast.actor("alice"), "query_tasks")} == {"q-alice", "q-bob"}
    assert {row["id"] for row in rows_of(cast.actor("bob"), "query_tasks")} == {"q-bob"}
    row = rows_of(cast.actor("bob"), "query_tasks")[0]
    assert isinstance(row["create_time"], datetime)
    assert len(row) == len(gantry.query_tasks.get().columns)


def test_the_sample_table_has_own_topics_only(cast: Cast) -> None:
    topic = make_topic(cast.alice, cast.instance)
    theirs = make_topic(cast.charlie, cast.charlies, "secret")
    minute = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(minutes=10)
    for name, count in ((topic.physical_name, 5), (theirs.physical_name, 9)):
        samples = [
            Sample(round((minute.timestamp() + second) * 1000), "in", name, "", count, 10.0) for second in (10, 20)
        ]
        files.append(samples)
    rows = rows_of(cast.actor("alice"), "samples")
    expected = {"kind": "in", "topic": topic.physical_name, "group": "", "minute": minute, "count": 10, "seconds": 20.0}
    assert rows == [expected]
    assert rows_of(cast.actor("nora"), "samples") == []
