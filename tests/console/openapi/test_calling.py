"""How operations are called: signature, time, region, headers, forms. What an operation does is not looked at here."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from console.accounts.crypto import encrypt
from console.accounts.models import AccessKey, Organization, ResourceSet, Role, User
from console.accounts.policy_documents import system_policy
from console.audit.models import Entry
from console.openapi import envelope
from console.openapi.authentication import sign
from tests.console.openapi.caller import FORM, Caller
from tests.support.cast import Cast, make_instance

SAID = "The access key, the signature or the time of the request is not valid."


def test_wrong_key_wrong_signature_and_wrong_clock_give_one_answer(alice: Caller) -> None:
    stranger, forger = Caller("LTAInobody", alice.secret), Caller(alice.access_key_id, "guessed")
    hour = 3_600_000
    now = int(time.time() * 1000)
    wrong = [
        stranger("instance/list"),
        forger("instance/list"),
        *(
            alice("instance/list", __preventCache=clock)
            for clock in (str(now - hour), str(now + hour), "0", "-1", "1e3")
        ),
        alice("instance/list", __preventCache="yesterday"),
        alice("instance/list", __preventCache="9" * 40),
        alice("instance/list", _securityToken="a token for a key that has none"),
    ]
    assert {(answer["status"], answer["dynamicMessage"]) for answer in wrong} == {(envelope.SIGNATURE, SAID)}


@pytest.mark.parametrize("name", ["_accesskey", "__preventCache", "_signature"])
def test_each_common_parameter_is_needed(alice: Caller, name: str) -> None:
    parameters = {n: v for n, v in alice.signed().items() if n != name}
    answer = Client().get("/json/instance/list", parameters).json()
    assert (answer["status"], answer["dynamicMessage"]) == (envelope.SIGNATURE, f"The parameter {name} is missing.")


def test_the_window_can_be_set_and_switched_off(alice: Caller, settings: Any) -> None:
    ten_minutes_ago = str(int(time.time() * 1000) - 600_000)
    assert alice.symbol("instance/list", __preventCache=ten_minutes_ago) == "SUCCESS"
    settings.API_WINDOW_MINUTES = 5
    assert alice.symbol("instance/list", __preventCache=ten_minutes_ago) == envelope.SIGNATURE
    settings.API_WINDOW_MINUTES = 0
    assert alice.symbol("instance/list", __preventCache="1") == "SUCCESS"


def test_a_session_cookie_is_no_signature(cast: Cast) -> None:
    client = cast.client("alice")
    assert client.get("/").status_code == 200
    assert client.get("/json/instance/list").json()["status"] == envelope.SIGNATURE
    assert client.post("/json/instance/list", "", content_type=FORM).json()["status"] == envelope.SIGNATURE


def test_only_the_dead_letter_operations_take_names_in_either_order(alice: Caller, cast: Cast) -> None:
    def signed_without_case(path: str, **own: str) -> str:
        parameters = alice.parameters(**own)
        names = sorted(parameters, key=str.lower)
        # Numbered names keep the order for the signer, which sees only values.
        signature = sign({f"{i:03}": parameters[name] for i, name in enumerate(names)}, alice.secret)
        return str(Client().get(f"/json/{path}", parameters | {"_signature": signature}).json()["status"])

    there = {"InstanceId": cast.instance.instance_id, "GroupId": "GID_none", "MsgId": "A"}
    assert signed_without_case("message/getByIdInDLQ", **there) == "BIZ_SUBSCRIPTION_NOT_FOUND"
    assert alice.symbol("message/getByIdInDLQ", **there) == "BIZ_SUBSCRIPTION_NOT_FOUND"
    assert signed_without_case("region/list", Zone="1", area="2") == envelope.SIGNATURE


def test_empty_and_unknown_parameters_are_signed_and_otherwise_ignored(alice: Caller) -> None:
    assert alice.symbol("region/list", _platform="onsConsole", empty="", whatever="ü%+ /") == "SUCCESS"
    parameters = alice.signed() | {"empty": "not signed"}
    assert Client().get("/json/region/list", parameters).json()["status"] == envelope.SIGNATURE


def test_query_string_and_form_are_one_set(alice: Caller) -> None:
    parameters = alice.signed(_platform="onsConsole")
    query = {name: parameters.pop(name) for name in ("_accesskey", "_platform")}
    url = f"/json/region/list?{urlencode(query)}"
    assert Client().post(url, urlencode(parameters), content_type=FORM).json()["success"]
    assert Client().generic("POST", f"{url}&{urlencode(parameters)}").json()["success"]
    doubled = Client().post(f"{url}&_regionId=mq-private", urlencode(parameters), content_type=FORM).json()
    assert (doubled["status"], doubled["dynamicMessage"]) == (
        envelope.FIELD, "The parameter _regionId is given more than once.",
    )  # fmt: skip
    twice = Client().get(f"/json/region/list?a=1&a=1&{urlencode(query | parameters)}").json()
    assert twice["status"] == envelope.FIELD


@pytest.mark.parametrize(
    "kind", ["application/json", "multipart/form-data; boundary=x", "text/plain", f"{FORM};charset=latin-1"]
)
def test_a_body_that_is_no_form_is_refused(alice: Caller, kind: str) -> None:
    response = Client().post(f"/json/region/list?{urlencode(alice.signed())}", b"{}", content_type=kind)
    assert (response.status_code, response.json()["status"]) == (200, envelope.FIELD)


def test_a_body_that_is_too_large_is_413(alice: Caller) -> None:
    body = urlencode(alice.signed(remark="x" * 1024 * 1024))
    response = Client().post("/json/region/list", body, content_type=FORM)
    assert response.status_code == 413
    assert response.json()["status"] == envelope.FIELD


def test_too_many_parameters_and_nul_are_refused(alice: Caller) -> None:
    assert alice.symbol("region/list", **{f"p{i}": "" for i in range(1100)}) == envelope.FIELD
    assert alice.symbol("region/list", remark="a\0b") == envelope.FIELD


def test_other_methods_and_unknown_paths_are_no_calls(alice: Caller) -> None:
    assert Client().put("/json/region/list").status_code == 405
    assert Client().delete("/json/region/list").status_code == 405
    for path in ("region/destroy", "Region/list", "region/list/", "consumer/resetOffset"):
        assert alice.response(path).status_code == 404


def test_repeated_slashes_are_collapsed(alice: Caller) -> None:
    assert Client().get("http://testserver//json/region///list", alice.signed()).json()["success"]


def test_a_missing_region_is_refused_unless_it_is_to_be_filled_in(alice: Caller, settings: Any) -> None:
    assert alice.symbol("region/list", _regionId=None) == "SUCCESS"
    answer = alice("instance/list", _regionId=None)
    assert (answer["status"], answer["dynamicMessage"]) == (
        envelope.FIELD, "The parameter _regionId is missing; allowed is mq-private.",
    )  # fmt: skip
    settings.API_DEFAULT_REGION = True
    assert alice.symbol("instance/list", _regionId=None) == "SUCCESS"


def test_headers_that_contradict_the_signed_parameters_are_refused(alice: Caller, cast: Cast) -> None:
    instance_id = cast.instance.instance_id

    def status(path: str, headers: dict[str, str], **own: str | None) -> str:
        return str(alice(path, headers=headers, **own)["status"])

    assert status("instance/list", {"x-acs-regionid": "mq-private"}) == "SUCCESS"
    assert status("instance/list", {"x-acs-regionid": "mars"}) == envelope.FIELD
    assert status("region/list", {"x-acs-regionid": "mars"}, _regionId=None) == "BIZ_REGION_NOT_FOUND"
    assert status("group/list", {"x-acs-instanceid": instance_id}, instanceId=instance_id) == "SUCCESS"
    assert status("group/list", {"x-acs-instanceid": "MQ_INST_other"}, instanceId=instance_id) == envelope.FIELD
    letters = {"InstanceId": instance_id, "GroupId": "GID_x", "MsgId": "1"}
    assert status("message/getByIdInDLQ", {"x-acs-instanceid": "MQ_INST_other"}, **letters) == envelope.FIELD


def test_organization_and_resource_set_narrow_the_instances(alice: Caller, cast: Cast) -> None:
    assert cast.alice.tenant
    mine = cast.alice.tenant.organization
    sales = Organization.objects.create(name="Sales", parent=mine)
    own_set = ResourceSet.objects.create(organization=sales, name="blue")
    inside = make_instance(cast.alice, cast.cluster, name="inside", resource_set=own_set)
    foreign = Organization.objects.create(name="Elsewhere")

    def seen(**headers: str) -> list[str]:
        answer = alice("instance/list", headers={f"x-acs-{name}": value for name, value in headers.items()})
        return [row["instanceName"] for row in answer["data"]] if answer["success"] else [answer["status"]]

    assert seen() == ["inside", "orders"]
    assert seen(organizationid=str(mine.pk)) == ["inside", "orders"]
    assert seen(organizationid=str(sales.pk)) == ["inside"]
    assert seen(organizationid=str(sales.pk), resourcegroupid=str(own_set.pk)) == ["inside"]
    assert seen(resourcegroupid=str(own_set.pk)) == [envelope.FIELD]
    assert seen(organizationid=str(mine.pk), resourcegroupid=str(own_set.pk)) == [envelope.FIELD]
    assert seen(organizationid=str(foreign.pk)) == [envelope.FIELD]
    assert seen(organizationid="nonsense") == [envelope.FIELD]

    row = next(r for r in alice.data("instance/list") if r["instanceId"] == inside.instance_id)
    assert (row["ResourceGroup"], row["ResourceGroupName"]) == (str(own_set.pk), "blue")
    assert (row["Department"], row["DepartmentName"]) == (str(sales.pk), "Sales")
    narrowed = {"x-acs-organizationid": str(sales.pk)}
    outside = alice("topic/listInPage", headers=narrowed, instanceId=cast.instance.instance_id)
    assert outside["status"] == "BIZ_INSTANCE_NOT_FOUND"


def test_a_temporary_key_needs_its_token_and_ends(cast: Cast) -> None:
    role = Role.objects.create(tenant=cast.acme, name="reader", trust_policy={})
    role.policies.add(system_policy("AliyunMQReadOnlyAccess"))
    AccessKey.objects.create(
        access_key_id="STS.1", secret_encrypted=encrypt("short-lived"), role=role, security_token="token+1",
        session_name="s", expires_at=timezone.now() + timedelta(minutes=15),
    )  # fmt: skip
    session = Caller("STS.1", "short-lived", token="token+1")
    assert session.symbol("instance/list") == "SUCCESS"
    assert session.symbol("instance/delete", instanceId=cast.instance.instance_id) == envelope.PERMISSION
    bare = Caller("STS.1", "short-lived")
    assert bare.symbol("instance/list") == envelope.SIGNATURE
    assert bare("instance/list", headers={"x-acs-security-token": "token+1"})["status"] == "SUCCESS"
    assert Caller("STS.1", "short-lived", token="other").symbol("instance/list") == envelope.SIGNATURE
    AccessKey.objects.filter(access_key_id="STS.1").update(expires_at=timezone.now())
    assert session.symbol("instance/list") == envelope.SIGNATURE


def test_a_key_ends_with_its_user_and_its_account(alice: Caller, cast: Cast) -> None:
    for change in ({"is_active": False}, {"is_active": True}):
        User.objects.filter(pk=cast.alice.pk).update(**change)
        assert alice.symbol("instance/list") == ("SUCCESS" if change["is_active"] else envelope.SIGNATURE)
    AccessKey.objects.update(enabled=False)
    assert alice.symbol("instance/list") == envelope.SIGNATURE


def test_refused_signatures_of_known_keys_are_on_record(alice: Caller) -> None:
    Caller(alice.access_key_id, "guessed")("instance/list")
    Caller("LTAInobody", "guessed")("instance/list")
    [entry] = Entry.objects.filter(result="refused")
    assert (entry.actor, entry.access_key_id, entry.channel) == ("admin@acme", alice.access_key_id, "api")
    assert entry.detail["reason"] == "the signature is wrong"
    assert "guessed" not in str(entry.detail)


def test_an_address_that_guesses_is_stopped_and_a_right_key_elsewhere_is_not(alice: Caller, settings: Any) -> None:
    settings.API_FAILURES_PER_MINUTE = 3
    cache.clear()
    forger = Caller(alice.access_key_id, "guessed")
    seen = [forger.symbol("instance/list") for _ in range(8)]
    assert seen[0] == envelope.SIGNATURE
    assert envelope.THROTTLED in seen
    elsewhere = Client(REMOTE_ADDR="198.51.100.7")
    assert elsewhere.get("/json/instance/list", alice.signed()).json()["success"]
    assert Entry.objects.filter(result="refused").count() <= 6  # two minutes at the most


def test_the_last_guess_that_is_allowed_is_the_last_one_that_is_looked_at(alice: Caller, settings: Any) -> None:
    """At the limit itself the address is shut, also for its right signatures."""
    settings.API_FAILURES_PER_MINUTE = 3
    forger = Caller(alice.access_key_id, "guessed")
    for _ in range(2):  # the counting begins anew when a minute ends in between
        cache.clear()
        minute = int(time.time()) // 60
        seen = [*(forger.symbol("region/list") for _ in range(3)), alice.symbol("region/list")]
        if int(time.time()) // 60 == minute:
            break
    assert seen == [envelope.SIGNATURE, envelope.SIGNATURE, envelope.SIGNATURE, envelope.THROTTLED]


def test_without_redis_callers_are_told_of_the_outage_and_guessers_are_still_stopped(
    alice: Caller, settings: Any
) -> None:
    settings.API_FAILURES_PER_MINUTE = 3
    settings.CACHES = {
        "default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": "redis://127.0.0.1:1/0"}
    }
    answer = alice("instance/list")
    assert (answer["status"], "Redis does not answer" in answer["dynamicMessage"]) == (envelope.INVOKE, True)
    forger = Caller(alice.access_key_id, "guessed")
    assert envelope.THROTTLED in [forger.symbol("instance/list") for _ in range(8)]


def test_a_signature_costs_one_query(alice: Caller) -> None:
    alice("region/list")  # notes the use of the key
    with CaptureQueriesContext(
        connection,
    ) as found:
        alice("region/list")
    assert len(found) == 1
