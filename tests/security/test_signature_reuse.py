"""A signature of the management API is worth one call: what the vendor's guide leaves unsigned cannot be exchanged.

Somebody reads the log of a proxy and has a victim's URL. The guide has the values signed in the order of their names:
neither the operation nor the names. A recorded query can be made any other call whose values join to the same text.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import pytest
import redis as redis_client
from django.core.cache import cache
from django.db import connections
from django.test import Client

from brokercore.logs import FORMATTERS
from console.accounts import services as accounts
from console.audit.models import Entry
from console.openapi import authentication, envelope
from console.openapi.authentication import sign
from console.openapi.operations import OPERATIONS
from console.openapi.rpc import authentication as rpc
from console.topics.models import Topic
from tests.console.openapi.caller import FORM, Caller
from tests.support.cast import Cast, cast, console, make_topic

__all__ = ["cast", "console"]

CHANGES = {
    "instance/create", "instance/update", "instance/delete", "vpcTunnel/tunnelSwitch", "topic/create", "topic/delete",
    "topic/update", "group/create", "group/delete", "group/consumerUpdate", "consumer/resetoffset", "empower/create",
    "empower/createBySub", "empower/delete", "message/resendByIdInDLQ",
}  # fmt: skip
"""What changes something, by the vendor's guide."""

USED = "This signature was used before."


@pytest.fixture
def alice(cast: Cast) -> Caller:
    return Caller.of(cast.alice)


def replayed(path: str, parameters: dict[str, str], method: str = "get", **headers: str) -> dict[str, Any]:
    client = Client(headers=headers)
    if method == "get":
        return dict(client.get(f"/json/{path}", parameters).json())
    return dict(client.post(f"/json/{path}", urlencode(parameters), content_type=FORM).json())


def is_refused(answer: dict[str, Any]) -> bool:
    return answer["status"] == envelope.SIGNATURE and str(answer["dynamicMessage"]).startswith(USED)


def test_a_recorded_query_deletes_nothing(cast: Cast, alice: Caller) -> None:
    make_topic(cast.alice, cast.instance)
    recorded = alice.signed(instanceId=cast.instance.instance_id, topic="orders")
    assert replayed("topic/get", recorded)["success"]
    assert is_refused(replayed("topic/delete", recorded))
    assert is_refused(replayed("topic/delete", recorded, "post"))
    assert Topic.objects.filter(name="orders").exists()
    noted = Entry.objects.filter(result="refused", action="accounts.access_key.use", tenant=cast.acme)
    assert {entry.detail["reason"] for entry in noted} == {"the signature was used before"}


def test_a_recorded_query_is_no_other_call_at_all(cast: Cast, alice: Caller, settings: Any) -> None:
    settings.API_FAILURES_PER_MINUTE = 0
    recorded = alice.signed(instanceId=cast.instance.instance_id)
    assert replayed("topic/listNames", recorded)["success"]
    for path in OPERATIONS.keys() - {"topic/listNames"}:
        assert is_refused(replayed(path, recorded)), path
    assert replayed("topic/listNames", recorded)["success"]


def test_names_and_borders_of_values_cannot_be_moved(cast: Cast, alice: Caller) -> None:
    """The same text, cut elsewhere: the topic `ordersold` as the topic `orders` with a remark `old`."""
    for name in ("orders", "ordersold"):
        make_topic(cast.alice, cast.instance, name)
    common = {"instanceId": cast.instance.instance_id}
    recorded = alice.signed(**common, topic="ordersold")
    assert replayed("topic/get", recorded)["success"]
    assert is_refused(replayed("topic/get", recorded | {"topic": "orders", "zzz": "old"}))
    assert is_refused(replayed("topic/get", {n: v for n, v in recorded.items() if n != "topic"} | {"zzz": "ordersold"}))
    assert is_refused(replayed("topic/get", recorded | {"empty": ""}))


def test_a_query_may_be_asked_again_as_it_was(cast: Cast, alice: Caller) -> None:
    recorded = alice.signed(instanceId=cast.instance.instance_id)
    assert all(replayed("topic/listNames", recorded, method)["success"] for method in ("get", "post", "get"))


def test_headers_that_narrow_a_query_cannot_be_left_out_of_its_replay(cast: Cast, alice: Caller) -> None:
    recorded = alice.signed()
    narrowed = {"x-acs-organizationid": str(cast.acme.organization_id)}
    assert replayed("instance/list", recorded, **narrowed)["success"]
    assert is_refused(replayed("instance/list", recorded))


def test_what_changes_something_is_declared_so() -> None:
    assert {path for path, found in OPERATIONS.items() if found.changes and not found.extension} == CHANGES


def test_a_change_takes_each_signature_once_whatever_becomes_of_it(alice: Caller, settings: Any) -> None:
    settings.API_FAILURES_PER_MINUTE = 0
    for path in sorted(found.path for found in OPERATIONS.values() if found.changes):
        recorded = alice.signed(instanceId="MQ_INST_nowhere")
        assert not is_refused(replayed(path, recorded)), path
        assert is_refused(replayed(path, recorded)), path


def test_who_tries_a_change_again_signs_again(cast: Cast, alice: Caller) -> None:
    wanted = {"instanceId": cast.instance.instance_id, "topic": "orders", "orderType": "0", "remark": ""}
    recorded = alice.signed(**wanted)
    assert replayed("topic/create", recorded)["success"]
    assert is_refused(replayed("topic/create", recorded))
    assert replayed("topic/create", alice.signed(**wanted))["status"] == "BIZ_TOPIC_EXISTED"


def test_a_letter_call_signed_in_one_order_is_not_one_in_the_other(cast: Cast, alice: Caller) -> None:
    """Signed without regard to case, the same text is that of another operation in the order of bytes."""
    letters = {"GroupId": "GID_x", "InstanceId": cast.instance.instance_id, "MsgId": "A"}
    parameters = alice.parameters(**letters)
    lowered = {name.lower(): value for name, value in parameters.items()}
    signature = sign(lowered, alice.secret)
    first = replayed("message/getByIdInDLQ", parameters | {"_signature": signature})
    assert first["status"] == "BIZ_SUBSCRIPTION_NOT_FOUND"
    assert is_refused(replayed("message/resendByIdInDLQ", parameters | {"_signature": signature}))


@pytest.mark.django_db(transaction=True)
def test_of_two_processes_that_get_the_same_change_one_makes_it(cast: Cast, alice: Caller) -> None:
    recorded = alice.signed(name="twice", remark="", independentNaming="true", clusterName="DefaultCluster", type="1")
    begin, answers = threading.Barrier(6), []

    def send() -> None:
        begin.wait()
        try:
            answers.append(replayed("group/create", recorded))
        finally:
            connections.close_all()

    threads = [threading.Thread(target=send) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(is_refused(answer) for answer in answers) == [False, True, True, True, True, True]


@pytest.mark.parametrize("minutes_fast", [-14, 0, 14])
def test_a_use_is_remembered_until_the_signature_ends(alice: Caller, minutes_fast: int) -> None:
    """A clock that is fast by one window makes signatures that are good for two."""
    moment = time.time() + minutes_fast * 60
    recorded = alice.signed(__preventCache=str(int(moment * 1000)))
    assert replayed("region/list", recorded)["success"]
    [key] = list(_redis().scan_iter("*api-signature:*"))
    assert time.time() + float(_redis().ttl(key)) > moment + 15 * 60


def test_a_nonce_of_the_rpc_style_is_remembered_until_the_request_ends(cast: Cast) -> None:
    issued = accounts.create_access_key(actor=cast.actor("alice"), user=cast.alice)
    moment = time.time() + 14 * 60
    sent = {
        "Action": "OnsRegionList", "Version": "2019-02-14", "Format": "JSON", "AccessKeyId": issued.access_key_id,
        "SignatureMethod": "HMAC-SHA1", "SignatureVersion": "1.0", "SignatureNonce": "once",
        "Timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment)),
    }  # fmt: skip
    sent["Signature"] = rpc.v1(rpc.text_to_sign("GET", sent), issued.access_key_secret)
    assert Client().get("/", sent).status_code == 200
    [key] = list(_redis().scan_iter("*rpc-nonce:*"))
    assert time.time() + float(_redis().ttl(key)) > moment + 15 * 60
    assert Client().get("/", sent).json()["Code"] == "SignatureNonceUsed"


def _redis() -> Any:
    return redis_client.Redis.from_url(cache._servers[0])  # type: ignore[attr-defined]


def test_while_redis_is_away_nothing_is_done_and_the_outage_is_told(cast: Cast, alice: Caller, settings: Any) -> None:
    make_topic(cast.alice, cast.instance)
    settings.CACHES = {
        "default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": "redis://127.0.0.1:1/0"}
    }
    recorded = alice.signed(instanceId=cast.instance.instance_id, topic="orders")
    for path in ("topic/get", "topic/delete"):
        answer = replayed(path, recorded)
        assert (answer["status"], "Redis does not answer" in answer["dynamicMessage"]) == (envelope.INVOKE, True)
    assert Topic.objects.filter(name="orders").exists()


def test_only_who_holds_the_secret_makes_the_server_remember(alice: Caller) -> None:
    forger = Caller(alice.access_key_id, "guessed")
    assert forger.symbol("region/list") == envelope.SIGNATURE
    assert not list(_redis().scan_iter("*api-signature:*"))


def test_two_lists_of_words_never_have_one_digest() -> None:
    lists = [["a", "b"], ["ab"], ["", "ab"], ["ab", ""], ["1:a", "b"], ["a1:b"], ["a", "1:b"], []]
    assert len({authentication._digest_of(words) for words in lists}) == len(lists)


# Nothing that is written down holds a signature


def _calls(alice: Caller, secret_words: dict[str, str]) -> list[Callable[[], Any]]:
    """Calls of every outcome, with a signature and a token in the address."""
    signed = alice.signed() | secret_words
    stale = alice.signed(__preventCache="1") | secret_words
    rpc_call = {"Action": "OnsRegionList", "Version": "2019-02-14", "AccessKeyId": alice.access_key_id}
    without_token = rpc_call | {"Signature": secret_words["_signature"]}
    rpc_call = without_token | {"SecurityToken": secret_words["_securityToken"]}
    address = f"/json/region/list?{urlencode(signed)}"
    return [
        lambda: Client().get(address),
        lambda: Client().get(f"/json/region/list?{urlencode(stale)}"),
        lambda: Client().get(f"/json/region/destroy?{urlencode(signed)}"),
        lambda: Client().put(address),
        lambda: Client().post(address, b"{}", content_type="application/json"),
        lambda: Client().post(address, b"x" * (1 << 20 | 1), content_type=FORM),
        lambda: Client(headers={"host": "elsewhere.test"}).get(address),
        lambda: Client().get(f"{address}&{urlencode(signed)}"),
        lambda: Client().get(f"/nowhere?{urlencode(signed)}"),
        lambda: Client(headers={"referer": f"http://testserver{address}"}).get("/nowhere"),
        lambda: Client(headers={"referer": f"http://testserver{address}"}).post("/accounts/login/", {}),
        lambda: Client(enforce_csrf_checks=True, headers={"referer": f"https://x{address}"}).post(
            "/accounts/login/", {}
        ),
        # Its answer repeats to the caller what was signed, which the token belongs to and the signature does not.
        lambda: Client().get("/", without_token | {"Timestamp": "now", "SignatureNonce": "1"}),
        lambda: Client().get("/", rpc_call),
        lambda: Client().get("/", signed),
    ]


def test_no_log_no_entry_of_the_trail_and_no_page_holds_a_signature_or_a_token(
    alice: Caller, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = {"_signature": "A-signature+that/is=seen", "_securityToken": "a.token.that.is.seen"}
    calls = _calls(alice, words)

    def broken(*_: object) -> None:
        raise RuntimeError("a fault of the program")

    with caplog.at_level(logging.DEBUG):
        pages = [call().content.decode() for call in calls]
        monkeypatch.setattr("console.openapi.views._region", broken)
        pages.append(calls[0]().content.decode())
        monkeypatch.setattr("console.openapi.views.too_large", broken)
        broken_client = Client(raise_request_exception=False)
        pages.append(broken_client.get(f"/json/region/list?{urlencode(alice.signed() | words)}").content.decode())
    written = [record.getMessage() + str(record.exc_text or "") for record in caplog.records]
    written += [str(getattr(record, "fields", "")) for record in caplog.records]
    for formatter in FORMATTERS.values():
        written += [formatter().format(record) for record in caplog.records]
    written += [f"{entry.resource} {entry.detail}" for entry in Entry.objects.all()]
    seen = [
        text
        for text in (*written, *pages)
        for word in words.values()
        if word in text or urlencode({"": word})[1:] in text
    ]
    assert seen == []
