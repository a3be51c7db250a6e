"""Rules: which of several takes a name, and that what comes later is adopted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.accounts.crypto import encrypt
from console.adoption import rules, services, tasks, worker
from console.adoption.models import Kind
from console.adoption.patterns import checked, closeness, matcher
from console.instances import broker as clients
from console.instances.models import Cluster
from console.topics.models import Topic
from console.web.errors import Refused
from tests.support.broker import BrokerProcess
from tests.support.cast import Cast, make_instance


@given(st.text("ab*?-", min_size=1, max_size=6), st.text("ab-", max_size=8))
def test_patterns_fit_as_those_of_a_shell(pattern: str, name: str) -> None:
    from fnmatch import fnmatchcase

    assert matcher(pattern)(name) == fnmatchcase(name, pattern)


def test_several_patterns_and_exceptions() -> None:
    fits = matcher(checked("payments-*, orders", "include"), "payments-test*")
    assert [name for name in ("payments-eu", "orders", "orders-2", "payments-test1") if fits(name)] == [
        "payments-eu",
        "orders",
    ]
    assert matcher("")("anything")
    assert closeness("* payments-*")("payments-eu") == len("payments-")
    with pytest.raises(Refused, match="is no pattern"):
        checked("pay[ab]", "include")


def test_a_closer_rule_takes_a_name_before_a_wider_one_and_what_comes_later_too(cast: Cast) -> None:
    ours = make_instance(cast.alice, cast.cluster, name="bare", independent_naming=False)
    theirs = make_instance(cast.charlie, cast.cluster, name="bare", independent_naming=False)
    admin, petra = clients.admin(cast.cluster), cast.actor("petra")
    services.create_rule(actor=petra, instance=ours, include="rule-*", exclude="rule-test*")
    closer = services.create_rule(actor=petra, instance=theirs, include="rule-pay*", kind=Kind.TOPIC)
    for name in ("rule-orders", "rule-pay-1", "rule-test-1"):
        admin.topics.create(name)
    admin.groups.create("rule-pay-service")
    rules.apply(cast.cluster)
    assert set(ours.topics.values_list("name", flat=True)) == {"rule-orders"}
    assert set(theirs.topics.values_list("name", flat=True)) == {"rule-pay-1"}
    assert ours.groups.get().group_id == "rule-pay-service"
    told = rules.conflicts(cast.cluster, [("topic", "rule-orders"), ("topic", "rule-pay-1")])
    assert [(one.name, one.winner) for one in told] == [("rule-pay-1", closer)]
    admin.topics.create("rule-later")
    assert rules.apply(cast.cluster) == 1 and ours.topics.filter(name="rule-later").exists()
    assert rules.apply(cast.cluster) == 0


def test_rules_of_a_cluster_that_was_away_are_applied_as_soon_as_it_answers(cast: Cast, broker: BrokerProcess) -> None:
    clients.admin(cast.cluster).topics.create("late-orders")
    late = Cluster.objects.create(
        name="late", region=cast.cluster.region, namesrv="127.0.0.1:9", access_key_id=broker.access_key_id,
        secret_encrypted=encrypt(broker.access_key_secret),
    )  # fmt: skip
    ours = make_instance(cast.alice, late, name="late", independent_naming=False)
    services.create_rule(actor=cast.actor("petra"), instance=ours, include="late-*")
    tasks.rules()
    assert not ours.topics.exists()
    Cluster.objects.filter(pk=late.pk).update(namesrv=broker.namesrv)
    tasks.rules()
    assert ours.topics.get().name == "late-orders"


def test_no_rule_takes_what_was_forgotten(cast: Cast) -> None:
    ours = make_instance(cast.alice, cast.cluster, name="bare", independent_naming=False)
    clients.admin(cast.cluster).topics.create("once-forgotten")
    services.create_rule(actor=cast.actor("petra"), instance=ours, include="once-*")
    rules.apply(cast.cluster)
    run = services.forget(actor=cast.actor("petra"), instance=ours, names=[("topic", "once-forgotten")])
    worker.work(run.pk)
    assert rules.apply(cast.cluster) == 0 and not Topic.objects.filter(name="once-forgotten").exists()


def test_a_rule_says_something_and_only_once(cast: Cast) -> None:
    ours = make_instance(cast.alice, cast.cluster, name="bare", independent_naming=False)
    with pytest.raises(Refused, match="needs a pattern"):
        services.create_rule(actor=cast.actor("petra"), instance=ours, include=" ")
    services.create_rule(actor=cast.actor("petra"), instance=ours, include="a*")
    with pytest.raises(Refused, match="such a rule already"):
        services.create_rule(actor=cast.actor("petra"), instance=ours, include="a*")
