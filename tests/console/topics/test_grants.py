"""Grants: only the owner gives them, each account or RAM user has at most one a topic, and both trails tell of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from console.accounts import services as accounts
from console.accounts.models import Tenant
from console.audit.models import Entry
from console.rights import access_table
from console.topics import access, grants
from console.topics.models import Grant, Relation
from console.web.errors import Refused
from tests.support.cast import Cast, make_topic


@pytest.mark.parametrize("relation", Relation.values)
def test_it_lets_another_account_use_a_topic_as_far_as_the_relation_goes(cast: Cast, relation: int) -> None:
    topic = make_topic(cast.alice, cast.instance)
    grants.create_grant(actor=cast.actor("alice"), topic=topic, relation=relation, tenant=cast.charlie.tenant)
    charlie = cast.actor("charlie")
    resource = f"acs:mq:*:*:{topic.physical_name}"
    allowed = {
        action: charlie.decide(action, resource, owner=cast.acme).allowed
        for action in ("mq:PUB", "mq:SUB", "mq:QueryMessage", "mq:QueryTopic", "mq:UpdateTopic", "mq:Empower")
    }
    publishes, subscribes = bool(relation & 2), bool(relation & 4)
    assert allowed == {
        "mq:PUB": publishes,
        "mq:SUB": subscribes,
        "mq:QueryMessage": subscribes,
        "mq:QueryTopic": True,
        "mq:UpdateTopic": False,
        "mq:Empower": False,
    }


def test_it_lets_a_ram_user_without_a_policy_use_one_topic(cast: Cast) -> None:
    topic, other = make_topic(cast.alice, cast.instance), make_topic(cast.alice, cast.instance, "other")
    grants.create_grant(actor=cast.actor("alice"), topic=topic, relation=4, user=cast.nora)
    nora = cast.actor("nora")
    assert nora.decide("mq:SUB", f"acs:mq:*:*:{topic.physical_name}", owner=cast.acme).allowed
    assert not nora.decide("mq:PUB", f"acs:mq:*:*:{topic.physical_name}", owner=cast.acme).allowed
    assert not nora.decide("mq:SUB", f"acs:mq:*:*:{other.physical_name}", owner=cast.acme).allowed


def test_it_refuses_whoever_does_not_own_the_topic(cast: Cast) -> None:
    topic = make_topic(cast.alice, cast.instance)
    grant = grants.create_grant(actor=cast.actor("alice"), topic=topic, relation=6, tenant=cast.charlie.tenant)
    with pytest.raises(Refused) as passed_on:
        grants.create_grant(actor=cast.actor("charlie"), topic=topic, relation=2, tenant=cast.acme)
    with pytest.raises(Refused) as revoked:
        grants.delete_grant(actor=cast.actor("charlie"), grant=grant)
    assert {passed_on.value.symbol, revoked.value.symbol} == {"EMPOWER_OWNER_CHECK_ERROR"}
    assert Grant.objects.get() == grant


@pytest.mark.parametrize("relation", [0, 1, 3, 5, 7, -2])
def test_it_refuses_a_relation_that_does_not_exist(cast: Cast, relation: int) -> None:
    topic = make_topic(cast.alice, cast.instance)
    with pytest.raises(Refused) as refused:
        grants.create_grant(actor=cast.actor("alice"), topic=topic, relation=relation, tenant=cast.charlie.tenant)
    assert (refused.value.symbol, refused.value.field) == ("BIZ_FIELD_CHECK_INVALID", "relation")


def test_it_refuses_a_second_grant_to_the_same_account_or_user_whatever_its_relation(cast: Cast) -> None:
    topic, alice = make_topic(cast.alice, cast.instance), cast.actor("alice")
    grants.create_grant(actor=alice, topic=topic, relation=2, tenant=cast.charlie.tenant)
    grants.create_grant(actor=alice, topic=topic, relation=2, user=cast.nora)
    for receiver in ({"tenant": cast.charlie.tenant}, {"user": cast.nora}):
        with pytest.raises(Refused) as refused:
            grants.create_grant(actor=alice, topic=topic, relation=4, **receiver)
        assert refused.value.symbol == "EMPOWER_EXIST_ERROR"
    assert grants.grants_of(topic).count() == 2


def test_it_refuses_the_own_account_its_administrator_and_other_accounts_users(cast: Cast) -> None:
    topic, alice = make_topic(cast.alice, cast.instance), cast.actor("alice")
    theirs = accounts.create_user(actor=cast.actor("charlie"), name="una", password="Correct-horse-7", policies=[])
    for receiver in ({"tenant": cast.acme}, {"user": cast.alice}, {"user": theirs}, {}):
        with pytest.raises(Refused) as refused:
            grants.create_grant(actor=alice, topic=topic, relation=6, **receiver)
        assert refused.value.symbol == "BIZ_FIELD_CHECK_INVALID"
    for uid in (cast.acme.uid, "1", "", "9" * 30):
        with pytest.raises(Refused):
            grants.account_of(alice, uid)
    for uid in (theirs.uid, cast.alice.uid, "1"):
        with pytest.raises(Refused):
            grants.user_of(alice, uid)
    assert grants.account_of(alice, f" {_umbrella(cast).uid} ") == cast.charlie.tenant
    assert grants.user_of(alice, cast.bob.uid) == cast.bob


def test_it_finds_a_grant_by_the_number_of_an_account_or_a_user(cast: Cast) -> None:
    topic, alice = make_topic(cast.alice, cast.instance), cast.actor("alice")
    to_account = grants.create_grant(actor=alice, topic=topic, relation=2, tenant=cast.charlie.tenant)
    to_user = grants.create_grant(actor=alice, topic=topic, relation=4, user=cast.bob)
    assert grants.find_grant(topic, _umbrella(cast).uid) == to_account
    assert grants.find_grant(topic, cast.bob.uid) == to_user
    assert grants.find_grant(topic, cast.nora.uid) is None


def test_it_refuses_to_revoke_what_was_revoked(cast: Cast) -> None:
    topic, alice = make_topic(cast.alice, cast.instance), cast.actor("alice")
    grant = grants.create_grant(actor=alice, topic=topic, relation=2, tenant=cast.charlie.tenant)
    grants.delete_grant(actor=alice, grant=Grant.objects.get(pk=grant.pk))
    with pytest.raises(Refused) as refused:
        grants.delete_grant(actor=alice, grant=grant)
    assert refused.value.symbol == "EMPOWER_NOT_FOUND"


def test_both_accounts_read_it_in_their_trails_and_the_other_one_not_from_where(cast: Cast) -> None:
    topic = make_topic(cast.alice, cast.instance)
    alice = replace(cast.actor("alice"), source_ip="192.0.2.7", access_key_id="LTAIalice")
    grant = grants.create_grant(actor=alice, topic=topic, relation=6, tenant=cast.charlie.tenant)
    grants.delete_grant(actor=alice, grant=grant)
    for action in ("topics.grant.create", "topics.grant.delete"):
        ours = Entry.objects.get(tenant=cast.acme, action=action)
        theirs = Entry.objects.get(tenant=cast.charlie.tenant, action=action)
        assert ours.detail == theirs.detail == {"to": "umbrella", "relation": 6, "owner": "acme"}
        assert ours.resource == theirs.resource == topic.physical_name
        assert (ours.source_ip, ours.access_key_id) == ("192.0.2.7", "LTAIalice")
        assert (theirs.actor, theirs.source_ip, theirs.access_key_id) == (cast.alice.username, "", "")


def test_a_grant_to_an_own_user_stands_in_one_trail(cast: Cast) -> None:
    topic = make_topic(cast.alice, cast.instance)
    grants.create_grant(actor=cast.actor("alice"), topic=topic, relation=4, user=cast.nora)
    entry = Entry.objects.get(action="topics.grant.create")
    assert (entry.tenant, entry.detail["to"]) == (cast.acme, cast.nora.username)


def test_the_brokers_table_has_the_grant_until_it_is_revoked(cast: Cast) -> None:
    topic, alice = make_topic(cast.alice, cast.instance), cast.actor("alice")
    key = accounts.create_access_key(actor=cast.actor("charlie"), user=cast.charlie)
    grant = grants.create_grant(actor=alice, topic=topic, relation=4, tenant=cast.charlie.tenant)
    delegated = access_table.compiled()[key.access_key_id].delegated
    assert [row["Resource"] for row in delegated] == [[f"acs:mq:*:*:{topic.physical_name}"]]
    grants.delete_grant(actor=alice, grant=grant)
    assert access_table.compiled()[key.access_key_id].delegated == []


def test_the_receiver_finds_the_topic_and_nobody_else_does(cast: Cast) -> None:
    topic, other = make_topic(cast.alice, cast.instance), make_topic(cast.alice, cast.instance, "other")
    grants.create_grant(actor=cast.actor("alice"), topic=topic, relation=4, tenant=cast.charlie.tenant)
    charlie = cast.actor("charlie")
    assert access.find_topic(charlie, cast.instance.instance_id, topic.name) == topic
    assert access.find_topic(charlie, cast.instance.instance_id, other.name) is None


def _umbrella(cast: Cast) -> Tenant:
    assert cast.charlie.tenant is not None
    return cast.charlie.tenant


def test_an_account_that_is_disabled_gets_no_grant_and_nobody_is_told_why(cast: Cast) -> None:
    topic = make_topic(cast.alice, cast.instance)
    umbrella = Tenant.objects.get(name="umbrella")
    Tenant.objects.filter(pk=umbrella.pk).update(enabled=False)
    with pytest.raises(Refused) as refused:
        grants.create_grant(actor=cast.actor("alice"), topic=topic, relation=2, tenant=umbrella)
    with pytest.raises(Refused) as unknown:
        grants.account_of(cast.actor("alice"), "999999")
    assert refused.value.message == unknown.value.message
    assert not Grant.objects.exists()
