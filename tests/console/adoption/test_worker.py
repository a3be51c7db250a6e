"""Adopting and forgetting many names on a running broker: what is taken, what is refused, and what a kill leaves."""

from __future__ import annotations

import pytest
from django.utils import timezone

from console.accounts.models import Tenant, TenantLimits
from console.adoption import rules, services, worker
from console.adoption.models import Forgotten, Kind, Run, State
from console.adoption.unowned import Unowned, on_cluster, unowned
from console.audit.models import Entry
from console.drift import queries as drift
from console.drift import sweep
from console.instances import broker as clients
from console.instances.models import Instance
from console.topics.models import Group, OrderType, Topic
from console.web.errors import Refused
from tests.support.cast import Cast, make_group, make_instance, make_topic, on_broker

ODD = "pay|ments%eu"


@pytest.fixture
def bare(cast: Cast) -> Instance:
    return make_instance(cast.alice, cast.cluster, name="bare", independent_naming=False)


def _there(cast: Cast, prefix: str, *, topics: int = 0) -> list[Unowned]:
    """Topics that somebody made with other tools. The broker outlives the test: names of others are not looked at."""
    admin = clients.admin(cast.cluster)
    for number in range(topics):
        admin.topics.create(f"{prefix}-{number}", queues=3)
    return [one for one in unowned(cast.cluster) if one.name.startswith(prefix)]


def _done(run: Run) -> dict[str, str]:
    assert worker.work(run.pk)
    return dict(run.names.values_list("name", "reason"))


def test_what_is_there_is_taken_as_it_is_and_nothing_changes_on_the_cluster(cast: Cast, bare: Instance) -> None:
    admin = clients.admin(cast.cluster)
    admin.topics.create(ODD, queues=3, perm=4, message_type="DELAY")
    admin.groups.create("order-service", retry_max_times=5)
    before, settings = on_broker(cast.cluster), admin.topics.config(ODD)
    names = [one for one in unowned(cast.cluster) if one.name in (ODD, "order-service")]
    run = services.adopt(actor=cast.actor("petra"), instance=bare, names=names)
    assert _done(run) == {ODD: "", "order-service": ""}
    topic, group = Topic.objects.get(name=ODD), Group.objects.get(group_id="order-service")
    assert (topic.physical_name, topic.queues, topic.perm, topic.order_type) == (ODD, 3, 4, OrderType.DELAYED)
    assert (group.physical_name, group.retry_max_times, group.owner, group.shared) == (
        "order-service",
        5,
        cast.acme,
        True,
    )
    assert (on_broker(cast.cluster), admin.topics.config(ODD)) == (before, settings)
    sweep.sweep(cast.cluster)
    assert drift.parts(cast.actor("alice"))[0].seen == []
    kept = set(Entry.objects.filter(tenant=cast.acme, action__startswith="adoption.").values_list("action", flat=True))
    assert kept == {"adoption.run.adopt", "adoption.run.adopt_end"}
    # Again is harmless, also with a run that began before.
    assert _done(services.adopt(actor=cast.actor("petra"), instance=bare, names=names)) == {
        ODD: "",
        "order-service": "",
    }
    assert Topic.objects.filter(name=ODD).count() == 1


def test_a_name_that_cannot_be_taken_is_told_with_the_reason(cast: Cast, bare: Instance) -> None:
    theirs = make_instance(cast.charlie, cast.cluster, name="bare", independent_naming=False)
    make_topic(cast.charlie, theirs, "charlies-own")
    names = [
        Unowned(Kind.TOPIC, name)
        for name in ("charlies-own", "not-there", "TBW102", "MQ_INST_1_a%x", "sp ace", "x" * 128)
    ]
    reasons = _done(services.adopt(actor=cast.actor("petra"), instance=bare, names=names))
    assert reasons["charlies-own"] == "An account has this name."
    assert reasons["not-there"] == "The cluster has no such topic any more."
    assert all(reasons.values())
    assert not bare.topics.exists()


def test_no_more_is_adopted_than_account_and_instance_may_have(cast: Cast, bare: Instance) -> None:
    petra, names = cast.actor("petra"), _there(cast, "capped", topics=3)
    Instance.objects.filter(pk=bare.pk).update(topic_capacity=2)
    bare.refresh_from_db()
    with pytest.raises(Refused, match="The instance bare may have 2 topics and has 0: 3 more are 1 too many"):
        services.adopt(actor=petra, instance=bare, names=names)
    TenantLimits.objects.create(tenant=cast.acme, topics=1)
    with pytest.raises(Refused, match="The account acme may have 1 topics and has 0: 3 more are 2 too many"):
        services.adopt(actor=petra, instance=bare, names=names)
    clients.admin(cast.cluster).groups.create("capped-group")
    TenantLimits.objects.update(topics=0, groups=1)
    make_group(cast.alice, bare, "GID_one")
    with pytest.raises(Refused, match="The account acme may have 1 groups and has 1"):
        services.adopt(actor=petra, instance=bare, names=[Unowned(Kind.GROUP, "capped-group")])
    assert not Run.objects.exists()


def test_a_limit_that_is_set_meanwhile_holds_too_and_rules_take_what_it_leaves(cast: Cast, bare: Instance) -> None:
    petra, names = cast.actor("petra"), _there(cast, "later", topics=3)
    run = services.adopt(actor=petra, instance=bare, names=names)
    Instance.objects.filter(pk=bare.pk).update(topic_capacity=2)
    assert sorted(_done(run).values()) == ["", "", "The instance bare may have 2 topics and has 0."]
    Instance.objects.filter(pk=bare.pk).update(topic_capacity=None)
    TenantLimits.objects.create(tenant=cast.acme, topics=3)
    services.create_rule(actor=petra, instance=bare, include="later-*")
    _there(cast, "later", topics=5)
    rules.apply(cast.cluster)
    assert bare.topics.count() == 3


def test_a_run_that_was_killed_half_way_goes_on_and_its_old_worker_changes_nothing(
    cast: Cast, bare: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "STEP", 2)
    run = services.adopt(actor=cast.actor("petra"), instance=bare, names=_there(cast, "killed", topics=5))
    there = on_cluster(run.cluster)
    soon = timezone.now() + worker.LEASE
    Run.objects.filter(pk=run.pk).update(worker="dead", leased_until=soon)
    run.refresh_from_db()
    assert worker._step(run, "dead", there)
    assert bare.topics.count() == 2
    assert not worker.work(run.pk) and run.pk not in worker.sweep()  # its lease still runs
    Run.objects.filter(pk=run.pk).update(leased_until=timezone.now())
    assert run.pk in worker.sweep()
    assert worker.work(run.pk)
    assert bare.topics.count() == 5
    assert run.names.filter(state=State.DONE).count() == 5
    assert not worker._step(run, "dead", there)


def test_what_was_adopted_is_forgotten_and_stays_on_the_cluster(cast: Cast, bare: Instance) -> None:
    run = services.adopt(actor=cast.actor("petra"), instance=bare, names=_there(cast, "undone", topics=2))
    _done(run)
    back = services.undo(actor=cast.actor("petra"), run=run)
    assert set(_done(back).values()) == {""}
    assert not bare.topics.exists()
    assert {"undone-0", "undone-1"} <= on_broker(cast.cluster)
    found = _there(cast, "undone")
    assert [one.forgotten for one in found] == [True, True]
    _done(services.adopt(actor=cast.actor("petra"), instance=bare, names=found))
    assert bare.topics.count() == 2 and not Forgotten.objects.exists()


def test_names_as_they_are_need_an_instance_without_namespace(cast: Cast) -> None:
    with pytest.raises(Refused, match="has a namespace"):
        services.adopt(actor=cast.actor("petra"), instance=cast.instance, names=[Unowned(Kind.TOPIC, "x")])


def test_the_platforms_administrator_makes_the_instance_of_an_account(cast: Cast) -> None:
    umbrella = Tenant.objects.get(name="umbrella")
    made = services.instance_for(actor=cast.actor("petra"), tenant=umbrella, cluster=cast.cluster)
    assert (made.tenant, made.independent_naming) == (umbrella, False)
    assert services.instance_for(actor=cast.actor("petra"), tenant=umbrella, cluster=cast.cluster) == made


def test_what_rocketmq_keeps_for_itself_is_never_offered(cast: Cast) -> None:
    admin = clients.admin(cast.cluster)
    admin.groups.create("shop")
    admin.topics.create("%DLQ%shop")
    names = {one.name for one in unowned(cast.cluster)}
    assert "shop" in names
    kept = {"%DLQ%shop", "%RETRY%shop", "TBW102", "SCHEDULE_TOPIC_XXXX", "broker-a", "DefaultCluster", "TOOLS_CONSUMER"}
    assert not names & kept
    assert not {name for name in names if name.startswith(("RMQ_SYS_", "rmq_sys_", "CID_RMQ_SYS_", "%RETRY%", "%DLQ%"))}
