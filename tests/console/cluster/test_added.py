"""A cluster of Apache RocketMQ that somebody added: what its test tells, and whose rights are carried over."""

from __future__ import annotations

import secrets

import pytest

from console.accounts import services as accounts
from console.accounts.crypto import encrypt
from console.accounts.models import AccessKey
from console.cluster import services, trial
from console.cluster.models import ClusterUser
from console.instances.models import AccessControl, Cluster, Origin
from tests.support.apache import ApacheRocketMQ
from tests.support.cast import Cast, make_instance, make_topic

pytestmark = pytest.mark.django_db(transaction=True)


def added(apache: ApacheRocketMQ, key: str, secret: str) -> Cluster:
    return Cluster(name="theirs", namesrv=apache.namesrv, access_key_id=key, secret_encrypted=encrypt(secret))


def test_a_super_user_may_do_everything(cast: Cast, apache: ApacheRocketMQ) -> None:
    make_topic(cast.alice, cast.instance, f"tried-{secrets.token_hex(4)}")
    told = trial.tried(added(apache, apache.admin_key, apache.admin_secret))
    assert {step.outcome for step in told} == {trial.Outcome.FINE}, told
    texts = " ".join(step.text for step in told)
    assert "V5_3_3" in texts
    assert "The account may make and change topics: it is a super user on broker-a." in texts


def test_the_rights_of_a_normal_user_are_told_action_by_action(cast: Cast, apache: ApacheRocketMQ) -> None:
    make_topic(cast.alice, cast.instance, f"tried-{secrets.token_hex(4)}")
    name, secret = f"weak-{secrets.token_hex(4)}", secrets.token_urlsafe(12)
    apache.create_user(name, secret, names="none-of-these*")
    told = {step.text: step.outcome for step in trial.tried(added(apache, name, secret))}

    def outcome(words: str) -> trial.Outcome:
        (found,) = (outcome for text, outcome in told.items() if words in text)
        return found

    assert outcome("keep users and lists") is trial.Outcome.FAILED
    assert outcome("make and change topics") is trial.Outcome.OPEN
    assert outcome("reset offsets of groups") is trial.Outcome.OPEN
    assert outcome("search messages") is trial.Outcome.FAILED


def test_a_wrong_secret_is_told_of_each_broker(cast: Cast, apache: ApacheRocketMQ) -> None:
    told = trial.tried(added(apache, apache.admin_key, "wrong"))
    assert told[-1].outcome is trial.Outcome.FAILED
    assert "refuses the account" in told[-1].text


def test_rights_are_carried_over_where_it_was_asked_for_and_only_of_accounts_that_are_there(
    cast: Cast, apache: ApacheRocketMQ
) -> None:
    pairs = {
        name: accounts.create_access_key(actor=cast.actor(name), user=cast.users[name]) for name in ("alice", "charlie")
    }
    theirs = added(apache, apache.admin_key, apache.admin_secret)
    theirs.region, theirs.access_control = cast.cluster.region, AccessControl.NONE
    theirs.save()
    make_topic(cast.alice, make_instance(cast.alice, theirs, name="there"), "carried")
    assert not services.carries_over_to(theirs)
    theirs.access_control = AccessControl.ACL2
    theirs.save()
    assert [one.origin for one in services.clusters()] == [Origin.ADDED]
    assert services.synchronise(theirs, thorough=True)
    assert set(ClusterUser.objects.values_list("access_key_id", flat=True)) == {pairs["alice"].access_key_id}
    theirs.read_only = True
    theirs.save()
    assert not services.carries_over_to(theirs)
    theirs.read_only = False
    theirs.save()
    AccessKey.objects.all().delete()
    services.synchronise(theirs, thorough=True)
