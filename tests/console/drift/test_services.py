"""Sweeping and mending on a real broker: an empty store, changes behind the console, unknown names, an outage."""

from __future__ import annotations

from dataclasses import replace

import pytest
import redis as redis_client

from brokercore.client import GroupConfig
from brokercore.client.errors import ClientError
from brokercore.protocol.bodies.config import MESSAGE_TYPE_ATTRIBUTE
from console.audit.models import Entry
from console.drift import queries, services, sweep
from console.drift.comparison import Kind, State
from console.drift.queries import Row
from console.instances import broker as clients
from console.topics import grants
from console.topics import services as topics
from console.topics.models import Group, OrderType, Topic
from console.web.errors import Refused
from tests.support.broker import BrokerProcess
from tests.support.cast import Cast, make_group, make_instance, make_topic, on_broker


def _rows(cast: Cast, who: str = "alice") -> dict[str, Row]:
    sweep.sweep(cast.cluster)
    return {row.difference.name: row for part in queries.parts(cast.actor(who)) for row in part.rows()}


def test_a_broker_that_came_back_with_an_empty_store_gets_everything_again(cast: Cast, broker: BrokerProcess) -> None:
    made = [make_topic(cast.alice, cast.instance, f"t-{kind}", kind) for kind in OrderType]
    group = make_group(cast.alice, cast.instance)
    topics.set_topic_permission(actor=cast.actor("alice"), topic=made[0], perm=4)
    topics.set_group_reading(actor=cast.actor("alice"), group=group, enabled=False)
    assert _rows(cast) == {}
    before = {topic.name: clients.admin(cast.cluster).topics.config(topic.physical_name) for topic in made}
    broker.kill()
    redis_client.Redis.from_url(broker.redis_url).flushall()
    broker.start()
    lost = _rows(cast)
    assert {row.state for row in lost.values()} == {State.MISSING}
    assert set(lost) == {topic.name for topic in made} | {group.group_id}
    outcomes = services.mend(actor=cast.actor("alice"), rows=list(lost.values()))
    assert [outcome.error for outcome in outcomes] == [""] * len(lost)
    assert _rows(cast) == {}
    after = {topic.name: clients.admin(cast.cluster).topics.config(topic.physical_name) for topic in made}
    assert after == before
    assert Entry.objects.filter(action="drift.topic.mend", result="success").count() == len(made)


def test_settings_that_somebody_changed_are_set_again(cast: Cast) -> None:
    topic, group = make_topic(cast.alice, cast.instance), make_group(cast.alice, cast.instance)
    admin = clients.admin(cast.cluster)
    admin.topics.create(topic.physical_name, queues=4, perm=2, message_type="FIFO")
    admin.groups.create(group.physical_name, retry_max_times=3, consume_enable=False)
    rows = _rows(cast)
    assert rows[topic.name].difference.details == (
        "queues: 8 here, 4 on broker-a",
        "mode: read and write here, write only on broker-a",
        "message type: NORMAL here, FIFO on broker-a",
    )
    assert rows[group.group_id].difference.details == (
        "consumption: on here, off on broker-a",
        "redeliveries: 16 here, 3 on broker-a",
    )
    services.mend(actor=cast.actor("alice"), rows=list(rows.values()))
    assert _rows(cast) == {}


def test_an_unknown_topic_is_adopted_as_it_is(cast: Cast) -> None:
    admin = clients.admin(cast.cluster)
    physical = cast.instance.physical_name("made-by-mqadmin")
    admin.topics.create(physical, queues=3, perm=4, message_type="DELAY")
    admin.groups.create(cast.instance.physical_name("CID_legacy"), retry_max_times=5)
    rows = _rows(cast)
    assert {row.state for row in rows.values()} == {State.EXTRA}
    for row in rows.values():
        services.adopt(actor=cast.actor("alice"), row=row)
    topic, group = Topic.objects.get(), Group.objects.get()
    assert (topic.name, topic.queues, topic.perm, topic.order_type) == ("made-by-mqadmin", 3, 4, OrderType.DELAYED)
    assert (group.group_id, group.retry_max_times, group.owner) == ("CID_legacy", 5, cast.acme)
    assert _rows(cast) == {}
    with pytest.raises(Refused):
        services.adopt(actor=cast.actor("alice"), row=rows["made-by-mqadmin"])


def test_a_groups_order_drifts_and_is_adopted_as_it_is(cast: Cast) -> None:
    group, admin = make_group(cast.alice, cast.instance), clients.admin(cast.cluster)
    admin.groups.update(GroupConfig(group.physical_name, consume_message_orderly=True))
    admin.groups.update(GroupConfig(cast.instance.physical_name("GID_unknown"), consume_message_orderly=True))
    rows = _rows(cast)
    assert rows["GID_orders"].difference.details == ("delivery in order: off here, on on broker-a",)
    services.adopt(actor=cast.actor("alice"), row=rows["GID_unknown"])
    assert Group.objects.get(group_id="GID_unknown").delivery_order == "Orderly"


def test_an_unknown_topic_counts_against_the_capacity(cast: Cast) -> None:
    small = make_instance(cast.alice, cast.cluster, name="small", topic_capacity=1)
    make_topic(cast.alice, small, "first")
    clients.admin(cast.cluster).topics.create(small.physical_name("second"))
    with pytest.raises(Refused) as refused:
        services.adopt(actor=cast.actor("alice"), row=_rows(cast)["second"])
    assert refused.value.symbol == "BIZ_TOPIC_QUOTA_EXCEEDED"


def test_a_name_that_could_not_be_created_is_only_offered_for_deletion(cast: Cast) -> None:
    clients.admin(cast.cluster).topics.create(cast.instance.physical_name("GIDlike"))
    row = _rows(cast)["GIDlike"]
    assert (row.may_adopt, row.may_delete, row.may_mend) == (False, True, False)


def test_an_unknown_topic_is_deleted_unless_the_database_has_it_by_now(cast: Cast) -> None:
    physical = cast.instance.physical_name("stray")
    clients.admin(cast.cluster).topics.create(physical)
    row = _rows(cast)["stray"]
    services.delete_extra(actor=cast.actor("alice"), row=row)
    assert physical not in on_broker(cast.cluster)
    make_topic(cast.alice, cast.instance, "stray")
    with pytest.raises(Refused):
        services.delete_extra(actor=cast.actor("alice"), row=row)
    assert physical in on_broker(cast.cluster)


def test_each_account_sees_its_own_and_what_is_nobodys_is_no_drift(cast: Cast) -> None:
    make_topic(cast.alice, cast.instance)
    admin = clients.admin(cast.cluster)
    admin.topics.create(cast.instance.physical_name("ours"))
    admin.topics.create(cast.charlies.physical_name("theirs"))
    admin.topics.create("nobodys")
    assert set(_rows(cast, "alice")) == {"ours"}
    assert set(_rows(cast, "charlie")) == {"theirs"}
    assert set(_rows(cast, "rita")) == {"ours"}
    assert not any(row.may_delete or row.may_adopt for row in _rows(cast, "rita").values())
    assert _rows(cast, "nora") == {}
    assert _rows(cast, "petra") == {}


def test_a_receivers_group_is_the_receivers_drift(cast: Cast) -> None:
    topic = make_topic(cast.alice, cast.instance)
    grants.create_grant(actor=cast.actor("alice"), topic=topic, relation=6, tenant=cast.charlie.tenant)
    topics.create_group(actor=cast.actor("charlie"), instance=cast.instance, group_id="GID_umbrella")
    clients.admin(cast.cluster).groups.delete(cast.instance.physical_name("GID_umbrella"))
    assert _rows(cast, "alice") == {}
    assert _rows(cast, "charlie")["GID_umbrella"].state == State.MISSING


def test_an_outage_is_a_result_and_never_an_empty_list(cast: Cast, broker: BrokerProcess) -> None:
    make_topic(cast.alice, cast.instance)
    broker.kill()
    sweep.sweep(cast.cluster)
    kept = sweep.last(cast.cluster, cast.instance.tenant)
    assert kept is not None
    assert kept.outage
    assert kept.differences == []


def test_mending_tells_of_each_row_that_failed(cast: Cast, broker: BrokerProcess) -> None:
    topic = make_topic(cast.alice, cast.instance)
    clients.admin(cast.cluster).topics.delete(topic.physical_name)
    row = _rows(cast)[topic.name]
    broker.kill()
    (outcome,) = services.mend(actor=cast.actor("alice"), rows=[row])
    assert outcome.error
    assert Entry.objects.get(action="drift.topic.mend").result == "failed"


def test_a_creation_that_fails_leaves_nothing_behind(cast: Cast, broker: BrokerProcess) -> None:
    alice = cast.actor("alice")
    broker.kill()
    with pytest.raises(ClientError):
        topics.create_topic(actor=alice, instance=cast.instance, name="never", order_type=OrderType.NORMAL)
    with pytest.raises(ClientError):
        topics.create_group(actor=alice, instance=cast.instance, group_id="GID_never")
    assert not Topic.objects.exists()
    assert not Group.objects.exists()
    broker.start()
    assert _rows(cast) == {}


def test_a_creation_that_one_step_fails_is_taken_back(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker takes the topic and the name server refuses its fixed queues: between the two steps."""
    admin = clients.admin(cast.cluster)

    def refuse(*_: object, **__: object) -> None:
        raise ClientError("the name server refuses")

    with monkeypatch.context() as patch:
        patch.setattr(admin.topics, "_change_order_config", _once(admin.topics, refuse))
        with pytest.raises(ClientError):
            make_topic(cast.alice, cast.instance, "ordered", OrderType.GLOBALLY_ORDERED)
    assert not Topic.objects.exists()
    assert cast.instance.physical_name("ordered") not in on_broker(cast.cluster)


def test_a_deletion_that_fails_keeps_the_row_to_be_deleted_again(cast: Cast, broker: BrokerProcess) -> None:
    topic, group = make_topic(cast.alice, cast.instance), make_group(cast.alice, cast.instance)
    alice = cast.actor("alice")
    broker.kill()
    with pytest.raises(ClientError):
        topics.delete_topic(actor=alice, topic=topic)
    with pytest.raises(ClientError):
        topics.delete_group(actor=alice, group=group)
    assert Topic.objects.exists()
    assert Group.objects.exists()
    broker.start()
    assert _rows(cast) == {}
    topics.delete_topic(actor=alice, topic=topic)
    topics.delete_group(actor=alice, group=group)
    assert _rows(cast) == {}


def test_what_a_crash_left_half_deleted_can_be_deleted_again(cast: Cast) -> None:
    topic = make_topic(cast.alice, cast.instance)
    clients.admin(cast.cluster).topics.delete(topic.physical_name)
    assert _rows(cast)[topic.name].state == State.MISSING
    topics.delete_topic(actor=cast.actor("alice"), topic=topic)
    assert not Topic.objects.exists()


def test_a_name_that_only_the_broker_has_cannot_be_claimed_by_creating_it(cast: Cast) -> None:
    admin = clients.admin(cast.cluster)
    bare = make_instance(cast.alice, cast.cluster, name="bare", independent_naming=False)
    admin.topics.create("payments")
    admin.groups.create("GID_payments")
    admin.topics.create(cast.instance.physical_name("cleaning"))
    for instance, name in ((bare, "payments"), (cast.instance, "cleaning")):
        with pytest.raises(Refused) as topic:
            make_topic(cast.alice, instance, name)
        assert topic.value.symbol == "BIZ_TOPIC_EXISTED"
    with pytest.raises(Refused) as group:
        make_group(cast.alice, bare, "GID_payments")
    assert group.value.symbol == "BIZ_SUBSCRIPTION_EXISTED"
    assert {"payments", "GID_payments"} <= on_broker(cast.cluster)
    assert not Topic.objects.exists()
    assert Kind.GROUP not in {row.kind for row in _rows(cast).values()}


def _once(topics: object, first: object) -> object:
    """The first call is `first`, the following ones are the real thing."""
    real, calls = topics._change_order_config, []  # type: ignore[attr-defined]

    def call(*arguments: object, **keywords: object) -> object:
        calls.append(arguments)
        return (first if len(calls) == 1 else real)(*arguments, **keywords)  # type: ignore[operator]

    return call


def _adopted(cast: Cast, name: str) -> Topic:
    """A topic that was there before the console, and is shown with the settings that it had."""
    clients.admin(cast.cluster).topics.create(name, queues=3)
    instance = make_instance(cast.alice, cast.cluster, name="bare", independent_naming=False)
    return Topic.objects.create(
        instance=instance, name=name, physical_name=name, order_type=OrderType.NORMAL, queues=3, adopted=True
    )


def test_what_was_adopted_is_shown_as_it_is_now_and_nothing_is_written(cast: Cast) -> None:
    topic, admin = _adopted(cast, "as-found"), clients.admin(cast.cluster)
    assert _rows(cast) == {}
    admin.topics.create("as-found", queues=5, perm=4)
    row = _rows(cast)["as-found"]
    assert row.may_accept and sum(part.mendable for part in queries.parts(cast.actor("alice"))) == 0
    before = admin.topics.config("as-found")
    services.accept(actor=cast.actor("alice"), row=row)
    topic.refresh_from_db()
    assert (topic.queues, topic.perm, admin.topics.config("as-found")) == (5, 4, before)
    assert _rows(cast) == {}
    assert Entry.objects.filter(action="drift.topic.accept").count() == 1
    admin.topics.delete("as-found")
    lost = _rows(cast)["as-found"]
    assert lost.state is State.MISSING and not lost.may_accept
    with pytest.raises(Refused, match="no topic as-found any more"):
        services.accept(actor=cast.actor("alice"), row=row)
    Topic.objects.filter(pk=topic.pk).delete()
    with pytest.raises(Refused, match="forgotten meanwhile"):
        services.accept(actor=cast.actor("alice"), row=row)


def test_what_a_row_cannot_say_of_an_adopted_topic_is_no_drift(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    topic, there = _adopted(cast, "mixed"), clients.admin(cast.cluster).topics
    found = there.configs_by_broker()
    mixed = {name: dict(configs) for name, configs in found.items()}
    for configs in mixed.values():
        odd = replace(configs["mixed"], perm=1, attributes={MESSAGE_TYPE_ATTRIBUTE: "MIXED"})
        configs["mixed"] = odd
    monkeypatch.setattr(type(there), "configs_by_broker", lambda admin: mixed)
    assert _rows(cast) == {}
    Topic.objects.filter(pk=topic.pk).update(adopted=False)
    assert _rows(cast)["mixed"].difference.details == (
        "mode: read and write here, neither read nor write on broker-a",
        "message type: NORMAL here, MIXED on broker-a",
    )
