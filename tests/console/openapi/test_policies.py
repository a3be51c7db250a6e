"""Policies by the API, the grants of a whole instance, and what the values of the headers are."""

from __future__ import annotations

import json

import pytest

from console.accounts.actor import Actor
from console.accounts.models import Organization, Policy, ResourceSet
from console.audit.models import Entry
from console.topics import grants
from console.topics.models import Topic
from tests.console.openapi.stage import Stage

pytestmark = [pytest.mark.django_db, pytest.mark.process]
DOCUMENT = {"Version": "1", "Statement": [{"Effect": "Allow", "Action": "mq:SUB", "Resource": "*"}]}
TEXT = json.dumps(DOCUMENT)


def _policy(stage: Stage) -> None:
    assert stage.caller("alice").symbol("policy/create", policy="of-acme", document=TEXT) == "SUCCESS"


def test_a_policy_is_made_read_changed_and_deleted(stage: Stage) -> None:
    alice = stage.caller("alice")
    _policy(stage)
    got = alice.data("policy/get", policy="of-acme")
    assert (got["type"], json.loads(got["document"])) == ("Custom", DOCUMENT)
    changed = json.dumps(DOCUMENT).replace("mq:SUB", "mq:PUB")
    assert alice.symbol("policy/update", policy="of-acme", description="new", document=changed) == "SUCCESS"
    got = alice.data("policy/get", policy="of-acme")
    assert (got["description"], json.loads(got["document"])) == ("new", json.loads(changed))
    assert alice.symbol("policy/delete", policy="of-acme") == "SUCCESS"
    assert alice.symbol("policy/get", policy="of-acme") == "BIZ_FIELD_CHECK_INVALID"
    actions = Entry.objects.filter(action__startswith="accounts.policy.").values_list("action", "channel")
    assert sorted(actions) == [(f"accounts.policy.{verb}", "api") for verb in ("create", "delete", "update")]


def test_a_list_has_system_policies_and_the_accounts_own_only(stage: Stage) -> None:
    _policy(stage)
    found = {row["name"]: row["type"] for row in stage.caller("alice").data("policy/list")}
    assert found["of-acme"] == "Custom" and found["AliyunMQFullAccess"] == "System"
    assert "of-acme" not in {row["name"] for row in stage.caller("charlie").data("policy/list")}


def test_a_policy_of_another_account_does_not_exist(stage: Stage) -> None:
    _policy(stage)
    charlie = stage.caller("charlie")
    for path in ("policy/get", "policy/update", "policy/delete"):
        assert charlie.symbol(path, policy="of-acme", document=TEXT) == "BIZ_FIELD_CHECK_INVALID"
    assert Policy.objects.get(name="of-acme").document == DOCUMENT


def test_system_policies_cannot_be_changed(stage: Stage) -> None:
    name = "AliyunMQFullAccess"
    alice = stage.caller("alice")
    assert alice.symbol("policy/update", policy=name, document=TEXT) == "BIZ_FIELD_CHECK_INVALID"
    assert alice.symbol("policy/delete", policy=name) == "BIZ_FIELD_CHECK_INVALID"
    assert Policy.objects.get(name=name).document != DOCUMENT


@pytest.mark.parametrize(
    "document", ["{", "[]", "3", "null", "[" * 20_000, '{"Version": "1"}', '{"Version": "1", "Statement": [{}]}']
)
def test_a_document_that_is_no_policy_is_refused(stage: Stage, document: str) -> None:
    given = {"policy": "odd", "document": document}
    assert stage.caller("alice").symbol("policy/create", method="post", **given) == "BIZ_FIELD_CHECK_INVALID"


def test_a_long_document_passes_by_post(stage: Stage) -> None:
    statements = [{"Effect": "Allow", "Action": "mq:SUB", "Resource": f"acs:mq:*:*:topic-{n}"} for n in range(60)]
    text = json.dumps({"Version": "1", "Statement": statements})
    assert len(text) > 4096
    status = stage.caller("alice").symbol("policy/create", method="post", policy="long", document=text)
    assert status == "SUCCESS"


def test_all_grants_of_an_instance_come_at_once(stage: Stage) -> None:
    topic = Topic.objects.get(instance=stage.cast.instance, name="orders")
    actor = stage.cast.actor("alice")
    grants.create_grant(actor=actor, topic=topic, relation=4, tenant=stage.cast.charlies.tenant)
    grants.create_grant(actor=actor, topic=topic, relation=6, user=stage.cast.bob)
    rows = stage.caller("alice").data("empower/listInInstance", instanceId=stage.instance_id)
    assert [(row["topic"], row["relation"], row["subUser"]) for row in rows] == [
        ("orders", 4, False),
        ("orders", 6, True),
    ]


def test_the_values_of_the_headers_are_told(stage: Stage) -> None:
    alice = stage.caller("alice")
    own = Actor(stage.users["alice"]).tenant
    below = Organization.objects.create(name="Below", parent=own.organization)
    Organization.objects.create(name="Elsewhere", parent=None)
    group = ResourceSet.objects.create(organization=below, name="night")
    found = {row["id"]: row for row in alice.data("organization/list")}
    assert set(found) == {str(own.organization_id), str(below.pk)}
    expected = {"id": str(below.pk), "name": "Below", "parentId": str(own.organization_id), "regions": ["mq-private"]}
    assert found[str(below.pk)] == expected
    rows = [row for row in alice.data("resourceGroup/list") if row["name"] == "night"]
    assert rows == [
        {"id": str(group.pk), "name": "night", "organizationId": str(below.pk), "organizationName": "Below"}
    ]
