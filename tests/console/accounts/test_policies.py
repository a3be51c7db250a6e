"""Custom policies: the service's rules, the pages, and the check of a document line by line."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from brokercore.policy import mq_resource
from console.accounts import policy_documents, services
from console.accounts.actor import platform_resource
from console.accounts.models import Policy
from console.accounts.policy_documents import SYSTEM_POLICIES, system_policy
from console.audit.models import Entry
from console.web.errors import Refused
from tests.support.cast import Cast, make_topic


def document(*actions: str, resource: str = "*", effect: str = "Allow") -> dict[str, Any]:
    return {"Version": "1", "Statement": [{"Effect": effect, "Action": list(actions), "Resource": resource}]}


def make(cast: Cast, name: str = "see-topics", *actions: str, by: str = "alice", **more: Any) -> Policy:
    return services.create_policy(
        actor=cast.actor(by), name=name, description="", document=document(*(actions or ("mq:Query*",)), **more)
    )


def test_a_policy_gives_its_rights_to_whom_it_is_attached_and_to_nobody_else(cast: Cast) -> None:
    topic = make_topic(cast.alice, cast.instance)
    policy = make(cast, "publish", "mq:PUB", resource=mq_resource(topic.physical_name))
    cast.nora.policies.add(policy)
    allowed = cast.actor("nora").decide("mq:PUB", mq_resource(topic.physical_name), owner=cast.acme)
    assert (allowed.allowed, allowed.reason) == (True, "allowed by policy publish")
    assert not cast.actor("nora").decide("mq:SUB", mq_resource(topic.physical_name), owner=cast.acme).allowed
    assert not cast.actor("rita").decide("mq:PUB", mq_resource(topic.physical_name), owner=cast.acme).allowed


@pytest.mark.parametrize("name", ["", "a b", "x" * 129, "ünï", "a/b", "AliyunMine", "aliyunmine", "a\n"])
def test_a_name_that_breaks_the_rule_is_refused_beside_the_field(cast: Cast, name: str) -> None:
    with pytest.raises(Refused) as refused:
        make(cast, name)
    assert refused.value.field == "name"


def test_a_name_is_taken_in_its_own_account_only(cast: Cast) -> None:
    make(cast)
    with pytest.raises(Refused, match="already exists"):
        make(cast)
    make(cast, by="charlie")


@pytest.mark.parametrize("wrong", [[], {}, None, document(), document("pub"), {"Version": "1", "Statement": "x"}])
def test_a_document_that_breaks_the_grammar_is_refused(cast: Cast, wrong: Any) -> None:
    with pytest.raises(Refused) as refused:
        services.create_policy(actor=cast.actor("alice"), name="p", description="", document=wrong)
    assert refused.value.field == "document"


def test_a_document_has_at_most_6144_bytes(cast: Cast) -> None:
    large = document(*(f"mq:Query{number:04}" for number in range(600)))
    with pytest.raises(Refused, match="at most 6,144 are allowed"):
        services.create_policy(actor=cast.actor("alice"), name="p", description="", document=large)


def test_a_changed_policy_holds_at_once_and_both_texts_are_on_record(cast: Cast) -> None:
    policy = make(cast, "p", "mq:PUB")
    cast.nora.policies.add(policy)
    services.update_policy(actor=cast.actor("alice"), policy=policy, description="x", document=document("mq:SUB"))
    resource = mq_resource(cast.instance.instance_id)
    assert not cast.actor("nora").decide("mq:PUB", resource, owner=cast.acme).allowed
    assert cast.actor("nora").decide("mq:SUB", resource, owner=cast.acme).allowed
    detail = Entry.objects.get(action="accounts.policy.update").detail
    assert (detail["before"], detail["after"]) == (document("mq:PUB"), document("mq:SUB"))


@pytest.mark.parametrize("name", SYSTEM_POLICIES)
def test_a_system_policy_can_be_neither_changed_nor_deleted(cast: Cast, name: str) -> None:
    policy, actor = system_policy(name), cast.actor("alice")
    with pytest.raises(Refused, match="system policy"):
        services.update_policy(actor=actor, policy=policy, description="", document=document("*"))
    with pytest.raises(Refused, match="system policy"):
        services.delete_policy(actor=actor, policy=policy)


def test_an_attached_policy_is_not_deleted_and_the_answer_says_to_whom(cast: Cast) -> None:
    policy = make(cast)
    cast.nora.policies.add(policy)
    with pytest.raises(Refused, match="attached to user nora@acme; detach it first"):
        services.delete_policy(actor=cast.actor("alice"), policy=policy)
    cast.nora.policies.remove(policy)
    services.delete_policy(actor=cast.actor("alice"), policy=policy)
    assert not Policy.objects.filter(name=policy.name).exists()


def test_who_may_write_policies_cannot_write_itself_more_than_it_has(cast: Cast) -> None:
    own = make(cast, "writer", "ram:*", "mq:Query*")
    cast.nora.policies.add(own)
    with pytest.raises(PermissionDenied, match="more than nora@acme"):
        services.update_policy(actor=cast.actor("nora"), policy=own, description="", document=document("*"))
    assert Policy.objects.get(pk=own.pk).document == document("ram:*", "mq:Query*")
    assert not cast.actor("nora").decide("mq:PUB", mq_resource(cast.instance.instance_id), owner=cast.acme).allowed


def test_no_policy_reaches_the_platform_or_another_account(cast: Cast) -> None:
    policy = make(cast, "all", "*", "platform:*", resource="*")
    cast.nora.policies.add(policy)
    nora = cast.actor("nora")
    assert nora.decide("mq:PUB", mq_resource(cast.instance.instance_id), owner=cast.acme).allowed
    assert not nora.decide("platform:CreateTenant", platform_resource("tenant/1"), owner=None).allowed
    foreign = mq_resource(cast.charlies.instance_id)
    assert not nora.decide("mq:PUB", foreign, owner=cast.charlies.tenant).allowed
    named = make(cast, "named", "mq:*", resource=f"acs:mq:*:{cast.charlies.tenant.uid}:*")
    cast.rita.policies.set([named])
    assert not cast.actor("rita").decide("mq:PUB", foreign, owner=cast.charlies.tenant).allowed


def test_a_resource_may_name_its_region_and_its_account(cast: Cast, settings: Any) -> None:
    mine = make(cast, "mine", "mq:PUB", resource=f"acs:mq:{settings.REGION}:{cast.acme.uid}:*")
    cast.nora.policies.add(mine)
    resource = mq_resource(cast.instance.instance_id)
    assert cast.actor("nora").decide("mq:PUB", resource, owner=cast.acme).allowed
    elsewhere = make(cast, "elsewhere", "mq:PUB", resource=f"acs:mq:moon-1:{cast.acme.uid}:*")
    cast.nora.policies.set([elsewhere])
    assert not cast.actor("nora").decide("mq:PUB", resource, owner=cast.acme).allowed


# --- Pages


def test_the_list_finds_sorts_and_filters(cast: Cast) -> None:
    make(cast, "aardvark")
    cast.nora.policies.add(make(cast, "zebra"))
    client, url = cast.client("alice"), reverse("accounts.policies")
    names = [row.record.name for row in client.get(url, {"kind": "custom"}).context["table"].page]
    assert names == ["aardvark", "zebra"]
    names = [row.record.name for row in client.get(url, {"sort": "-attached"}).context["table"].page]
    assert names.index("zebra") < names.index("aardvark")
    assert [r.record.name for r in client.get(url, {"q": "ZEB"}).context["table"].page] == ["zebra"]
    assert len(client.get(url, {"kind": "system"}).context["table"].rows) == len(SYSTEM_POLICIES)


def test_attachments_of_other_accounts_do_not_count(cast: Cast) -> None:
    system_policy("AliyunMQFullAccess").users.add(cast.charlie)  # type: ignore[attr-defined]
    rows = cast.client("alice").get(reverse("accounts.policies"), {"q": "MQFull"}).context["table"].rows
    assert [row.record.attached for row in rows] == [1]
    page = cast.client("alice").get(reverse("accounts.policy", args=["AliyunMQFullAccess"])).content.decode()
    assert "bob@acme" in page
    assert "charlie" not in page


def test_the_list_costs_the_same_queries_for_more_rows(cast: Cast) -> None:
    client, url = cast.client("alice"), reverse("accounts.policies")
    make(cast)
    client.get(url)
    with CaptureQueriesContext(connection) as few:
        client.get(url)
    for number in range(30):
        cast.nora.policies.add(make(cast, f"p{number}"))
    with CaptureQueriesContext(connection) as many:
        client.get(url)
    assert len(many) == len(few)


def test_a_policy_is_written_changed_and_deleted_on_its_pages(cast: Cast) -> None:
    client = cast.client("alice")
    data = {"name": "p", "description": "d", "document": json.dumps(document("mq:PUB"))}
    assert client.post(reverse("accounts.policy_create"), data)["Location"] == reverse("accounts.policy", args=["p"])
    changed = {"description": "e", "document": json.dumps(document("mq:SUB"))}
    assert client.post(reverse("accounts.policy", args=["p"]), changed).status_code == 302
    assert Policy.objects.get(name="p").document == document("mq:SUB")
    client.post(reverse("accounts.policy_delete", args=["p"]), {"name": "wrong"})
    assert Policy.objects.filter(name="p").exists()
    client.post(reverse("accounts.policy_delete", args=["p"]), {"name": "p"})
    assert not Policy.objects.filter(name="p").exists()


def test_a_wrong_document_is_shown_again_with_the_line(cast: Cast) -> None:
    text = '{"Version": "1",\n "Statement": [\n  {"Effect": "Allow", "Action": "mq:PUB", "Resource": "mine"}]}'
    response = cast.client("alice").post(reverse("accounts.policy_create"), {"name": "p", "document": text})
    assert response.status_code == 422
    page = response.content.decode()
    assert "Line 3, column 55" in page
    assert "&quot;mine&quot; is not a resource" in page


def test_the_check_names_line_and_column_and_stores_nothing(cast: Cast) -> None:
    client, url = cast.client("nora"), reverse("accounts.policy_check")
    page = client.post(url, {"document": '{"Version": "1",\n "Statement": [}'}).content.decode()
    assert 'data-policy-line="2"' in page
    assert "Line 2, column 16" in page
    page = client.post(url, {"document": json.dumps(document("mq:Pubb"), indent=1)}).content.decode()
    assert "There is no action mq:Pubb. Did you mean mq:PUB" in page
    assert "data-policy-warning" in page
    page = client.post(url, {"trust_policy": json.dumps(document("mq:PUB"))}).content.decode()
    assert "only sts:AssumeRole has" in page
    assert not Policy.objects.filter(tenant=cast.acme).exists()


def test_a_hostile_document_is_shown_harmlessly(cast: Cast) -> None:
    text = '{"Version": "1", "Statement": [{"<script>alert(1)</script>": 1}]}'
    page = cast.client("alice").post(reverse("accounts.policy_check"), {"document": text}).content.decode()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


def test_every_example_is_well_formed_and_names_known_actions(cast: Cast) -> None:
    for title, example in policy_documents.examples(cast.acme).values():
        checked = policy_documents.check(policy_documents.formatted(example), cast.acme)
        assert (checked.problems, checked.warnings) == ([], []), title
    for title, example in policy_documents.trust_examples(cast.acme).values():
        assert policy_documents.check(policy_documents.formatted(example), cast.acme, trust=True).problems == [], title


def test_another_accounts_policy_does_not_exist(cast: Cast) -> None:
    make(cast)
    assert cast.client("charlie").get(reverse("accounts.policy", args=["see-topics"])).status_code == 404
    assert cast.client("bob").get(reverse("accounts.policy", args=["see-topics"])).status_code == 403
