"""What a signature of one door covers is never what another door asks for.

The same secret signs, by HMAC-SHA1, the broker's remoting requests, gRPC's dates and the calls of the management API;
the RPC style has two signatures more. Whoever sees one of them go by tries it at every other door, with all that a
sender can choose chosen in his favour.
"""

from __future__ import annotations

import base64
import hmac
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from brokercore.protocol import signature as remoting
from brokercore.protocol.codes import RequestCode
from brokercore.protocol.grpc.messaging_pb2 import Code
from console.accounts import services as accounts
from console.accounts.crypto import encrypt
from console.accounts.models import AccessKey, Role
from console.openapi import authentication as api
from console.openapi import envelope
from console.openapi.rpc import authentication as rpc
from tests.brokercore.server.grpc.caller import Caller, authorization, message
from tests.brokercore.server.wire import Wire, fresh
from tests.support.broker import BrokerProcess, broker_process, eventually
from tests.support.cast import Cast, cast, console

__all__ = ["cast", "console"]

REGION, INSTANCE = "mq-private", "MQ_INST_5_aaaaaaaa"
EVERYTHING = [{"Effect": "Allow", "Action": "*", "Resource": "*"}]


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    """A broker of its own, which serves gRPC as well."""
    with broker_process(gantry_grpc_port="0") as process:
        yield process


@dataclass(frozen=True)
class Key:
    """An AccessKey that console and broker know; a temporary one with its token."""

    id: str
    secret: str
    token: str = ""


@pytest.fixture(params=["an AccessKey", "a temporary key"])
def key(request: pytest.FixtureRequest, cast: Cast, broker: BrokerProcess) -> Key:
    if request.param == "an AccessKey":
        issued = accounts.create_access_key(actor=cast.actor("alice"), user=cast.alice)
        found = Key(issued.access_key_id, issued.access_key_secret)
    else:
        role = Role.objects.create(tenant=cast.acme, name="nightly", trust_policy={})
        found = Key("STS.abcdefghijklmnopqrst", "a secret of 30 letters", "nightly.a-token")
        AccessKey.objects.create(
            access_key_id=found.id, secret_encrypted=encrypt(found.secret), role=role, security_token=found.token,
            session_name="s", expires_at=timezone.now() + timedelta(minutes=15),
        )  # fmt: skip
    row = {"boundary": [f"acs:mq:*:*:{INSTANCE}%*"], "statements": EVERYTHING}
    broker.allow(found.id, found.secret, row | ({"token": found.token} if found.token else {}))
    with Wire(broker.address, (found.id, found.secret)) as wire:
        fields = {"SecurityToken": found.token} if found.token else {}
        eventually(lambda: wire.call(RequestCode.GET_BROKER_CLUSTER_INFO, fields).code == 0)
    return found


# What somebody with the secret signs, and what of it can be seen


@dataclass(frozen=True)
class Seen:
    """A text that its holder signed, and the signature as bytes."""

    text: str
    signature: bytes


def _hmac(text: str, secret: str) -> bytes:
    return hmac.digest(secret.encode(), text.encode(), "sha1")


def now_ms() -> str:
    return str(int(time.time() * 1000))


def sent_by_remoting(key: Key) -> Seen:
    """A message whose body somebody else chose: an order with a remark, say, which looks like a call of the API."""
    body = f"{now_ms()}{key.id}{REGION}{INSTANCE}0orders"
    fields = {"AccessKey": key.id, "b": f"{INSTANCE}%orders", "e": "0", "g": now_ms(), "i": "KEYS\x01k\x02"}
    text = "".join(fields[name] for name in sorted(fields)) + body
    assert base64.b64encode(_hmac(text, key.secret)).decode() == remoting.sign(fields, body.encode(), key.secret)
    return Seen(text, _hmac(text, key.secret))


def asked_by_remoting(key: Key) -> Seen:
    """A request without any field signs the AccessKey ID alone: the shortest text that there is."""
    return Seen(key.id, _hmac(key.id, key.secret))


def called_by_grpc(key: Key) -> Seen:
    date = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    return Seen(date, _hmac(date, key.secret))


def called_by_json(key: Key) -> Seen:
    parameters = {"__preventCache": now_ms(), "_accesskey": key.id, "_regionId": REGION, "topic": "orders"}
    text = "".join(parameters[name] for name in sorted(parameters))
    assert base64.b64encode(_hmac(text, key.secret)).decode() == api.sign(parameters, key.secret)
    return Seen(text, _hmac(text, key.secret))


def called_by_version_1(key: Key) -> Seen:
    text = rpc.text_to_sign("GET", _version_1(key))
    return Seen(text, base64.b64decode(rpc.v1(text, key.secret)))


def called_by_acs3(key: Key) -> Seen:
    text = f"{rpc.ACS3}\n{'0' * 64}"
    return Seen(text, hmac.digest(key.secret.encode(), text.encode(), "sha256"))


SIGNED: dict[str, tuple[str, Callable[[Key], Seen]]] = {
    "a message by remoting": ("remoting", sent_by_remoting),
    "a question by remoting": ("remoting", asked_by_remoting),
    "a gRPC call": ("grpc", called_by_grpc),
    "a call of /json": ("json", called_by_json),
    "a call of RPC version 1": ("version 1", called_by_version_1),
    "a call of ACS3": ("acs3", called_by_acs3),
}


# The doors, each asked with a signature that was made for another


def taken_by_remoting(key: Key, seen: Seen, broker: BrokerProcess) -> bool:
    """Fields can have any name and unknown ones are signed, so a text can be cut around the AccessKey ID at will."""
    before, _, after = seen.text.partition(key.id)
    extra = {"Signature": base64.b64encode(seen.signature).decode(), "AccessKey": key.id}
    if key.token:
        extra["SecurityToken"] = ""  # is part of what is signed: a text with the token would have to be seen
    ways = [
        ({"A": before, "b": after}, b""),
        ({"A": before}, after.encode()),
        ({"AAA": seen.text}, b""),
        ({"": before, "z": after}, b""),
        ({}, seen.text.encode()),
    ]
    with Wire(broker.address, None) as wire:
        codes_ = (RequestCode.GET_BROKER_CLUSTER_INFO, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        answers = [wire.call(code, fields | extra, body) for code in codes_ for fields, body in ways]
    return any("the signature of this request is not made" not in str(answer.remark) for answer in answers)


def taken_by_grpc(key: Key, seen: Seen, broker: BrokerProcess) -> bool:
    """The date is a header, and headers carry printable ASCII."""
    if not (seen.text.isascii() and seen.text.isprintable()):
        return False
    header = authorization(key.id, key.secret, "").rpartition("=")[0] + "=" + seen.signature.hex()
    with Caller(broker.grpc, None) as caller:
        caller.extra = {"authorization": header, "x-mq-date-time": seen.text, "x-mq-session-token": key.token}
        status = caller.send(message(fresh())).status
    return status.code != Code.UNAUTHORIZED


def taken_by_json(key: Key, seen: Seen, _broker: BrokerProcess) -> bool:
    """Unknown names are signed too: what stands before the clock and between it and the key can be given to them."""
    given = {"_signature": base64.b64encode(seen.signature).decode(), "_accesskey": key.id}
    before, _, after = seen.text.rpartition(key.id)
    cut = {"A": before[:-13], "__preventCache": before[-13:]}
    region = {"_regionId": REGION, "zzz": after.removeprefix(REGION)}
    ways = [
        ("region/list", cut | {"zzz": after}),
        ("region/list", {"__preventCache": before, "zzz": after}),
        ("region/list", {"A": seen.text, "__preventCache": now_ms()}),
        ("topic/delete", cut | region),
    ]
    headers = {"x-acs-security-token": key.token}
    answers = [Client().get(f"/json/{path}", given | way, headers=headers).json() for path, way in ways]
    return any(answer["status"] != envelope.SIGNATURE for answer in answers)


def taken_by_version_1(key: Key, seen: Seen, _broker: BrokerProcess) -> bool:
    sent = _version_1(key) | {"Signature": base64.b64encode(seen.signature).decode()}
    return bool(Client().get("/", sent).json().get("Code") != "SignatureDoesNotMatch")


def taken_by_acs3(key: Key, seen: Seen, _broker: BrokerProcess) -> bool:
    headers = {
        "host": "testserver", "x-acs-action": "OnsRegionList", "x-acs-version": "2019-02-14",
        "x-acs-date": _timestamp(), "x-acs-signature-nonce": uuid.uuid4().hex,
    } | ({"x-acs-security-token": key.token} if key.token else {})  # fmt: skip
    covered, signature = ";".join(sorted(headers)), seen.signature.hex()
    said = f"{rpc.ACS3} Credential={key.id},SignedHeaders={covered},Signature={signature}"
    answer = Client().get("/", headers=headers | {"Authorization": said}).json()
    return bool(answer.get("Code") != "SignatureDoesNotMatch")


DOORS: dict[str, Callable[[Key, Seen, BrokerProcess], bool]] = {
    "remoting": taken_by_remoting,
    "grpc": taken_by_grpc,
    "json": taken_by_json,
    "version 1": taken_by_version_1,
    "acs3": taken_by_acs3,
}


def _version_1(key: Key) -> dict[str, str]:
    return {
        "Action": "OnsRegionList", "Version": "2019-02-14", "Format": "JSON", "AccessKeyId": key.id,
        "SignatureMethod": "HMAC-SHA1", "SignatureVersion": "1.0", "SignatureNonce": uuid.uuid4().hex,
        "Timestamp": _timestamp(),
    } | ({"SecurityToken": key.token} if key.token else {})  # fmt: skip


def _timestamp() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def test_a_signature_seen_at_one_door_opens_no_other(key: Key, broker: BrokerProcess) -> None:
    opened = [
        f"{what} at {door}"
        for what, (of, sign) in SIGNED.items()
        for door, is_taken in DOORS.items()
        if door != of and is_taken(key, sign(key), broker)
    ]
    assert opened == []


def test_each_door_opens_for_its_own_signature(key: Key, broker: BrokerProcess) -> None:
    """Without this, doors that are shut to everybody would pass all the others."""
    token = {"SecurityToken": key.token} if key.token else {}
    with Wire(broker.address, (key.id, key.secret)) as wire:
        assert wire.call(RequestCode.GET_BROKER_CLUSTER_INFO, token).code == 0
    assert taken_by_grpc(key, called_by_grpc(key), broker)
    parameters = {"__preventCache": now_ms(), "_accesskey": key.id, "_regionId": REGION}
    parameters |= {"_securityToken": key.token} if key.token else {}
    signed = parameters | {"_signature": api.sign(parameters, key.secret)}
    assert Client().get("/json/region/list", signed).json()["success"]
    sent = _version_1(key)
    signed = sent | {"Signature": rpc.v1(rpc.text_to_sign("GET", sent), key.secret)}
    assert Client().get("/", signed).status_code == 200


# The forms, whatever is put into them

KEY_IDS = st.sampled_from(["LTAIabcdefghijklmnopqrst", "STS.abcdefghijklmnopqrst", "T", "20260131T", "2", "Z"])
texts = st.text(alphabet="0123456789TZLAIabc", max_size=24)
names = st.sampled_from(["", "0", "A", "AA", "AccessKe", "B", "OnsChannel", "_accesskey", "a", "b", "zz", "é"])
others = st.dictionaries(names, texts, max_size=5)


@given(KEY_IDS, others, texts, st.data())
def test_no_text_is_one_of_two_doors(key_id: str, fields: dict[str, str], body: str, data: Any) -> None:
    secret, whole = "the secret", ""
    fields["AccessKey"] = key_id
    signed = fields | {"Signature": remoting.sign(fields, body.encode(), secret)}
    whole = "".join(value for _, value in sorted(fields.items())) + body
    if not remoting.verify(106, signed, body.encode(), secret):
        return
    assert not remoting.is_date(whole)
    # The management API, with the same text cut anywhere around the key.
    at = data.draw(st.sampled_from([i for i in range(len(whole)) if whole.startswith(key_id, i)] or [0]))
    before, after = whole[:at], whole[at + len(key_id) :]
    cut = data.draw(st.integers(0, len(before)))
    parameters = {"A": before[:cut], "__preventCache": before[cut:], "_accesskey": key_id, "zzz": after}
    parameters["_signature"] = signed["Signature"]
    assert not api.verify(parameters, secret)
    assert not api.verify(parameters, secret, any_case=True)


@given(KEY_IDS, st.from_regex(r"[0-9]{8}T[0-9]{6}Z", fullmatch=True), st.data())
def test_no_date_is_a_request_or_a_call(key_id: str, date: str, data: Any) -> None:
    secret = "the secret"
    signature = base64.b64encode(_hmac(date, secret)).decode()
    start = data.draw(st.integers(0, len(date)))
    end = data.draw(st.integers(start, len(date)))
    for key_id_ in (key_id, date[start:end]):
        for a, z in ((date[:start], date[end:]), (date, ""), ("", date)):
            fields = {"A": a, "AccessKey": key_id_, "b": z, "Signature": signature}
            assert not remoting.verify(106, fields, b"", secret)
            assert not remoting.verify(106, {n: v for n, v in fields.items() if n != "b"}, z.encode(), secret)
            call = {"__preventCache": a, "_accesskey": key_id_, "zzz": z, "_signature": signature}
            assert not api.verify(call, secret)


# Dates

STRANGE_DATES = (
    "forever", "9" * 16, "99991231T235959Z", "20260231T000000Z", "00000000T000000Z", "2026-01-31T12:00:00Z",
    "20260131T120000", "20260131t120000z", "2026131T120000Z", "20260131T120000+0000", "0", "-1", "*",
)  # fmt: skip


def test_a_grpc_date_of_no_documented_form_is_refused(broker: BrokerProcess) -> None:
    with Caller(broker.grpc, (broker.access_key_id, broker.access_key_secret)) as caller:
        for date in STRANGE_DATES:
            caller.extra = {"x-mq-date-time": date}
            status = caller.send(message(fresh())).status
            assert (status.code, "the call is dated" in status.message) == (Code.UNAUTHORIZED, True), date


def test_a_grpc_date_is_good_for_the_documented_day(broker: BrokerProcess) -> None:
    with Wire(broker.address) as wire, Caller(broker.grpc, (broker.access_key_id, broker.access_key_secret)) as caller:
        topic = wire.topic()
        for hours, taken in ((-25, False), (-23, True), (-14, True), (0, True), (14, True), (25, False)):
            caller.extra = {"x-mq-date-time": (datetime.now(UTC) + timedelta(hours=hours)).strftime("%Y%m%dT%H%M%SZ")}
            assert (caller.send(message(topic)).status.code == Code.OK) is taken, hours


@pytest.mark.parametrize("minutes", [15, 0])
def test_a_time_of_no_documented_form_is_refused_whatever_the_window(cast: Cast, settings: Any, minutes: int) -> None:
    settings.API_WINDOW_MINUTES, settings.API_FAILURES_PER_MINUTE = minutes, 0
    issued = accounts.create_access_key(actor=cast.actor("alice"), user=cast.alice)
    strange = {
        *STRANGE_DATES, "20260131T120000Z", "2026-1-31T2:00:00Z", "2026-01-31T12:00:00+00:00",
        "２０２６-01-31T12:00:00Z",
    } - {"2026-01-31T12:00:00Z"}  # fmt: skip
    for date in sorted(strange):
        sent = _version_1(Key(issued.access_key_id, issued.access_key_secret)) | {"Timestamp": date}
        signed = sent | {"Signature": rpc.v1(rpc.text_to_sign("GET", sent), issued.access_key_secret)}
        assert Client().get("/", signed).json()["Code"] == "InvalidTimeStamp.Format", date
    for clock in ("forever", "0", "-1", "1e13", " 1767225602000", "１７６７２２５６０２０００", "0x1", ""):
        parameters = {"__preventCache": clock, "_accesskey": issued.access_key_id, "_regionId": REGION}
        signed = parameters | {"_signature": api.sign(parameters, issued.access_key_secret)}
        assert Client().get("/json/region/list", signed).json()["status"] == envelope.SIGNATURE, clock
