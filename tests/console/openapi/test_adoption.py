"""Adopting names by the management API: what there is, what would become of it, runs, rules, and forgetting."""

from __future__ import annotations

import pytest

from console.accounts.models import Tenant, TenantLimits
from console.accounts.services.platform_admins import create_platform_key, delete_platform_key
from console.adoption import rules, worker
from console.adoption.models import Run
from console.instances import broker as clients
from console.rights import access_table
from console.topics.models import Topic
from console.web.errors import Refused
from tests.console.openapi.caller import Caller
from tests.support.cast import Cast, on_broker

ODD = "api|pay%eu_1"


@pytest.fixture
def adopter(cast: Cast) -> Caller:
    """The administrator of acme, which may adopt."""
    Tenant.objects.filter(name="acme").update(may_adopt=True)
    return Caller.of(cast.alice)


def _there(cast: Cast) -> None:
    admin = clients.admin(cast.cluster)
    for name in (ODD, "api-orders", "api-test"):
        admin.topics.create(name)
    admin.groups.create("api-service")


def test_names_are_listed_seen_beforehand_adopted_and_forgotten(cast: Cast, adopter: Caller) -> None:
    _there(cast)
    before = on_broker(cast.cluster)
    chosen = {"include": "api*", "exclude": "*test"}
    page = adopter("adoption/list", **chosen, pageSize="2")
    assert page["total"] == 3 and [row["name"] for row in page["data"]] == ["api-orders", ODD]
    assert set(page["data"][0]) >= {"messagesPerSecond", "amount", "lastUseTime", "differing", "refusal"}
    seen = adopter.data("adoption/preview", **chosen)
    assert (seen["topics"], seen["groups"], seen["account"], seen["instanceId"]) == (2, 1, "acme", "")
    run = adopter.data("adoption/adopt", **chosen, instanceName="theirs")
    assert (run["purpose"], run["total"], run["done"], run["endTime"]) == ("adopt", 3, 0, None)
    worker.work(run["run"])
    assert adopter.data("adoption/run", run=str(run["run"]))["done"] == 3
    assert adopter.data("adoption/runs")[0]["endTime"]
    rows = adopter.data("adoption/runNames", run=str(run["run"]), state="done")
    assert {row["name"] for row in rows} == {"api-orders", ODD, "api-service"}
    held = adopter.data("adoption/listAdopted")
    assert {(row["kind"], row["name"], row["account"]) for row in held} == {
        ("topic", "api-orders", "acme"),
        ("topic", ODD, "acme"),
        ("group", "api-service", "acme"),
    }
    (back,) = adopter.data("adoption/forget", names=f"topic:{ODD}, api-service")
    worker.work(back["run"])
    assert [row["name"] for row in adopter.data("adoption/listAdopted")] == ["api-orders"]
    assert [row["forgotten"] for row in adopter.data("adoption/list", include=ODD)] == [True]
    rest = adopter.data("adoption/forgetRun", run=str(run["run"]))
    worker.work(rest["run"])
    assert adopter.data("adoption/listAdopted") == [] and on_broker(cast.cluster) == before
    assert adopter.symbol("adoption/adopt", include="nothing-such-*") == "BIZ_FIELD_CHECK_INVALID"
    assert adopter.symbol("adoption/forget") == "BIZ_FIELD_CHECK_INVALID"


def test_a_list_of_names_is_taken_and_what_cannot_be_is_told(cast: Cast, adopter: Caller) -> None:
    _there(cast)
    clients.admin(cast.cluster).topics.create("MQ_INST_7_gone%api")
    seen = adopter.data("adoption/preview", names="topic:api-orders\nMQ_INST_7_gone%api not-there")
    assert (seen["topics"], seen["refused"]) == (1, 1)
    assert seen["refusedNames"][0]["reason"] == "The name lies in the namespace of an instance."
    run = adopter.data("adoption/adopt", names="topic:api-orders", kind="group")
    assert run["total"] == 1


def test_limits_are_told_with_their_numbers(cast: Cast, adopter: Caller) -> None:
    _there(cast)
    TenantLimits.objects.create(tenant=cast.acme, topics=1)
    sentence = "The account acme may have 1 topics and has 0: 2 more are 1 too many."
    assert adopter.data("adoption/preview", include="api-*")["tooMany"] == [sentence]
    assert adopter("adoption/adopt", include="api-*")["dynamicMessage"] == sentence
    assert adopter.symbol("adoption/adopt", include="api-*") == "BIZ_TOPIC_QUOTA_EXCEEDED"
    assert not Run.objects.exists()


def test_rules_are_made_listed_and_ended(cast: Cast, adopter: Caller) -> None:
    _there(cast)
    made = adopter.data("adoption/createRule", include="api-*", exclude="*test", kind="topic")
    assert adopter.symbol("adoption/createRule", include="api-*", exclude="*test", kind="topic") == "BIZ_RULE_EXISTED"
    rules.apply(cast.cluster)
    (row,) = adopter.data("adoption/rules")
    assert (row["rule"], row["taken"], row["kind"]) == (made["rule"], 1, "topic")
    assert adopter.symbol("adoption/deleteRule", rule=str(made["rule"])) == "SUCCESS"
    assert adopter.symbol("adoption/deleteRule", rule=str(made["rule"])) == "BIZ_RULE_NOT_FOUND"
    assert Topic.objects.filter(name="api-orders").exists()


def test_an_account_that_may_adopt_reaches_nothing_of_another_one(cast: Cast, adopter: Caller) -> None:
    _there(cast)
    assert adopter.symbol("adoption/adopt", include="api-*", account="umbrella") == "BIZ_ACCOUNT_NOT_FOUND"
    run = adopter.data("adoption/adopt", include="api-orders")
    worker.work(run["run"])
    rule = adopter.data("adoption/createRule", include="api-*")
    Tenant.objects.filter(name="umbrella").update(may_adopt=True)
    charlie = Caller.of(cast.charlie)
    for path in ("run", "runNames", "forgetRun"):
        assert charlie.symbol(f"adoption/{path}", run=str(run["run"])) == "BIZ_ADOPTION_RUN_NOT_FOUND"
    assert charlie.symbol("adoption/deleteRule", rule=str(rule["rule"])) == "BIZ_RULE_NOT_FOUND"
    for path in ("runs", "rules", "listAdopted"):
        assert charlie.data(f"adoption/{path}") == []
    assert charlie.symbol("adoption/forget", names="api-orders") == "BIZ_FIELD_CHECK_INVALID"
    assert Topic.objects.filter(name="api-orders").exists()


def test_who_may_not_adopt_still_sees_what_its_own_instance_has_adopted(cast: Cast, adopter: Caller) -> None:
    _there(cast)
    run = adopter.data("adoption/adopt", include="api-orders")
    worker.work(run["run"])
    Tenant.objects.filter(name="acme").update(may_adopt=False)
    assert adopter.symbol("adoption/listAdopted") == "AUTH_PERMISSION_DENIED"
    rows = adopter.data("adoption/listAdopted", instanceId=run["instanceId"])
    assert [row["name"] for row in rows] == ["api-orders"]
    assert Caller.of(cast.charlie).symbol("adoption/listAdopted", instanceId=run["instanceId"]) == (
        "BIZ_INSTANCE_NOT_FOUND"
    )
    assert Caller.of(cast.users["rita"]).data("adoption/listAdopted", instanceId=run["instanceId"]) == rows


def test_the_platforms_administrator_adopts_for_every_account(cast: Cast) -> None:
    _there(cast)
    issued = create_platform_key(name="petra")
    petra = Caller(issued.access_key_id, issued.access_key_secret)
    assert petra.symbol("adoption/preview", include="api-*") == "BIZ_FIELD_CHECK_INVALID"
    run = petra.data("adoption/adopt", include="api-orders", account="umbrella")
    worker.work(run["run"])
    petra.data("adoption/createRule", include="api-t*", account="acme")
    assert [(row["name"], row["account"]) for row in petra.data("adoption/listAdopted")] == [("api-orders", "umbrella")]
    assert {row["account"] for row in petra.data("adoption/rules")} == {"acme"}
    assert petra.symbol("adoption/adopt", include="api-*", account="nobody") == "BIZ_ACCOUNT_NOT_FOUND"
    assert petra.symbol("adoption/listAdopted", instanceId=run["instanceId"]) == "AUTH_PERMISSION_DENIED"
    (back,) = petra.data("adoption/forget", include="api-*")
    worker.work(back["run"])
    assert petra.data("adoption/listAdopted") == []
    assert issued.access_key_id not in access_table.compiled()
    delete_platform_key(name="petra", access_key_id=issued.access_key_id)
    assert petra.symbol("adoption/rules") == "AUTH_SIGNATURE_INVALID"
    with pytest.raises(Refused, match="no administrator of the platform"):
        create_platform_key(name="admin@acme")
