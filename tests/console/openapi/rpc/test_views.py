"""The gateway from outside: what it answers to whom, and what it refuses."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import pytest
from django.core.cache import cache
from redis.exceptions import ConnectionError as RedisConnectionError

from console.audit.models import Entry
from tests.console.openapi.rpc.conftest import Caller
from tests.support.cast import Cast, make_topic

pytestmark = pytest.mark.django_db
Callers = Callable[[str], Caller]


def test_the_root_answers_actions_to_callers_and_the_overview_to_people(caller: Callers, cast: Cast) -> None:
    for path in ("/", "/rpc/"):
        answer = caller("alice")("OnsRegionList", path)
        assert answer.status_code == 200
        assert answer.json()["Data"]["RegionDo"][0]["OnsRegionId"] == "mq-private"
        assert answer.json()["RequestId"] == answer["X-Request-Id"]
    page = cast.client("alice").get("/")
    assert page["Content-Type"].startswith("text/html")


def test_a_session_says_nothing_about_who_calls(cast: Cast, caller: Callers) -> None:
    browser = cast.client("alice")
    unsigned = browser.get("/", {"Action": "OnsInstanceInServiceList", "Version": "2019-02-14"})
    assert (unsigned.status_code, unsigned.json()["Code"]) == (400, "MissingAccessKeyId")
    form = "Action=OnsInstanceDelete&Version=2019-02-14&InstanceId=x"
    posted = browser.post("/", form, content_type="application/x-www-form-urlencoded")
    assert posted.json()["Code"] == "MissingAccessKeyId"
    # Signed by Nora in Alice's browser: Nora it is.
    nora = caller("nora")
    nora.client = browser
    assert nora("OnsTopicCreate", InstanceId=cast.instance.instance_id, Topic="t", MessageType="0").status_code == 403


def test_who_must_change_the_password_still_calls_with_a_key(cast: Cast, caller: Callers) -> None:
    bob = caller("bob")
    bob.client = cast.client("bob")
    cast.bob.must_change_password = True
    cast.bob.save()
    assert bob("OnsInstanceInServiceList").status_code == 200


def test_an_error_has_the_four_fields_of_the_public_cloud(caller: Callers) -> None:
    answer = caller("alice")("OnsTopicDelete", InstanceId="MQ_INST_none", Topic="t")
    assert answer.status_code == 404
    body = answer.json()
    assert body.keys() == {"RequestId", "HostId", "Code", "Message"}
    assert (body["HostId"], body["RequestId"]) == ("testserver", answer["X-Request-Id"])


def test_a_nonce_works_once(caller: Callers) -> None:
    alice = caller("alice")
    parameters = alice.parameters("OnsRegionList")
    assert alice.send(parameters).status_code == 200
    again = alice.send(parameters)
    assert (again.status_code, again.json()["Code"]) == (400, "SignatureNonceUsed")
    # Another key may use the same number, and a wrong signature uses none up.
    bob = caller("bob")
    theirs = bob.parameters("OnsRegionList", SignatureNonce=parameters["SignatureNonce"])
    assert bob.client.get("/", theirs | {"Signature": "wrong"}).json()["Code"] == "SignatureDoesNotMatch"
    assert bob.send(theirs).status_code == 200


def test_without_redis_nobody_can_tell_a_replay_so_all_are_refused(
    caller: Callers, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = caller("alice")

    def out(*_: Any, **__: Any) -> bool:
        raise RedisConnectionError("no connection")

    monkeypatch.setattr(type(cache._connections["default"]), "add", out)  # type: ignore[attr-defined]
    answer = alice("OnsRegionList")
    assert (answer.status_code, answer.json()["Code"]) == (503, "ServiceUnavailable")
    assert "Redis" in answer.json()["Message"]


@pytest.mark.parametrize(
    ("time_of", "code"),
    [
        (lambda: "yesterday", "InvalidTimeStamp.Format"),
        (lambda: "1767225602000", "InvalidTimeStamp.Format"),
        (lambda: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 1000)), "InvalidTimeStamp.Expired"),
        (lambda: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 1000)), "InvalidTimeStamp.Expired"),
    ],
)
def test_a_clock_that_is_off_is_refused(caller: Callers, time_of: Callable[[], str], code: str) -> None:
    answer = caller("alice")("OnsRegionList", Timestamp=time_of())
    assert (answer.status_code, answer.json()["Code"]) == (400, code)


def test_an_unknown_action_and_version_are_told_apart(caller: Callers) -> None:
    alice = caller("alice")
    assert alice("OnsFly").json()["Code"] == "InvalidAction.NotFound"
    assert "there are no tags" in alice("TagResources").json()["Message"]
    assert alice("OnsRegionList", Version="2020-01-01").json()["Code"] == "InvalidVersion"
    assert alice("OnsRegionList", Version="2015-04-01").json()["Code"] == "InvalidAction.NotFound"
    assert alice("GetCallerIdentity", Version="2015-04-01").json()["IdentityType"] == "Account"


def test_xml_is_the_answer_unless_json_is_asked_for(caller: Callers, cast: Cast) -> None:
    topic = make_topic(cast.alice, cast.instance, "orders")
    topic.remark = "<b>\x01&"
    topic.save()
    alice = caller("alice")
    for form in ("XML", ""):
        answer = alice("OnsTopicList", InstanceId=cast.instance.instance_id, Format=form)
        root = ElementTree.fromstring(answer.content)
        assert root.tag == "OnsTopicListResponse"
        assert root.findtext("Data/PublishInfoDo/Topic") == "orders"
        assert root.findtext("Data/PublishInfoDo/Remark") == "<b>\ufffd&"
        assert root.findtext("Data/PublishInfoDo/IndependentNaming") == "true"
    error = ElementTree.fromstring(alice("OnsTopicList", InstanceId="none", Format="XML").content)
    assert (error.tag, error.findtext("Code")) == ("Error", "BIZ_INSTANCE_NOT_FOUND")


def test_a_change_is_audited_with_key_and_channel(caller: Callers, cast: Cast) -> None:
    alice = caller("alice")
    made = alice("OnsTopicCreate", InstanceId=cast.instance.instance_id, Topic="orders", MessageType="0")
    assert made.status_code == 200
    entry = Entry.objects.get(action="topics.topic.create")
    assert (entry.channel, entry.access_key_id, entry.request_id) == (
        "api", alice.key.access_key_id, made.json()["RequestId"],
    )  # fmt: skip


def test_a_missing_parameter_is_named_as_the_caller_knows_it(caller: Callers, cast: Cast) -> None:
    body = caller("alice")("OnsTopicUpdate", InstanceId=cast.instance.instance_id, Topic="orders").json()
    assert (body["Code"], body["Message"]) == ("BIZ_FIELD_CHECK_INVALID", "The parameter Perm is missing.")


def test_a_disabled_key_is_told_to_nobody_but_its_holder(caller: Callers, cast: Cast) -> None:
    alice = caller("alice")
    cast.alice.access_keys.update(enabled=False)
    answer = alice("OnsRegionList")
    assert (answer.status_code, answer.json()["Code"]) == (404, "InvalidAccessKeyId.NotFound")
    guessed = alice.client.get("/", alice.parameters("OnsRegionList") | {"Signature": "guessed"})
    assert (guessed.status_code, guessed.json()["Code"]) == (400, "SignatureDoesNotMatch")


def test_refused_signatures_are_on_record_and_limited(caller: Callers, cast: Cast, settings: Any) -> None:
    settings.API_FAILURES_PER_MINUTE = 3
    alice = caller("alice")

    def wrong() -> Any:
        return alice.client.get("/", alice.parameters("OnsRegionList") | {"Signature": "wrong"})

    codes = [wrong().json()["Code"] for _ in range(5)]
    assert codes[0] == "SignatureDoesNotMatch"
    assert codes[-1] == "Throttling.User"
    assert wrong().status_code == 429
    refused = Entry.objects.filter(tenant=cast.acme, result="refused", access_key_id=alice.key.access_key_id)
    assert refused.exists()
    assert "SignatureDoesNotMatch" in str(refused[0].detail)


def test_a_body_that_is_no_call_is_refused_before_it_is_read(caller: Callers) -> None:
    large = "A=" + "x" * (1024 * 1024)
    answer = caller("alice").client.post("/rpc/", large, content_type="application/x-www-form-urlencoded")
    assert (answer.status_code, answer.json()["Code"]) == (413, "RequestEntityTooLarge")
    nul = caller("alice")("OnsTopicList", InstanceId="a\x00b")
    assert (nul.status_code, nul.json()["Code"]) == (400, "BIZ_FIELD_CHECK_INVALID")
