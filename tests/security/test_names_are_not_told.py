"""No answer tells a stranger what there is: which AccessKeys, which accounts, whose topics, whose instances."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.hashers import MD5PasswordHasher
from django.test import Client

from brokercore.protocol.codes import RequestCode as Code
from brokercore.protocol.codes import ResponseCode
from brokercore.protocol.grpc.messaging_pb2 import Code as GrpcCode
from brokercore.protocol.ids import offset_message_id
from brokercore.protocol.signature import sign
from console.accounts import services as accounts
from console.accounts.credentials import find_key, key_of_claim
from console.accounts.crypto import decrypt, encrypt
from console.accounts.models import AccessKey, DatabaseAccount, Role, Tenant, User
from console.openapi import envelope
from console.openapi.rpc import authentication as rpc
from console.rights import access_table
from console.sql.mysql import auth
from console.topics import grants
from tests.brokercore.server.grpc.caller import Caller as GrpcCaller
from tests.brokercore.server.grpc.caller import message
from tests.brokercore.server.wire import Wire, fresh, properties
from tests.console.openapi.caller import Caller
from tests.support.broker import BrokerProcess, broker_process, eventually
from tests.support.cast import Cast, cast, console, make_group, make_topic

__all__ = ["cast", "console"]

MINE, OTHERS = "MQ_INST_5_aaaaaaaa", "MQ_INST_6_bbbbbbbb"
EVERYTHING = [{"Effect": "Allow", "Action": "*", "Resource": "*"}]


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    """A broker of its own, which serves gRPC as well."""
    with broker_process(gantry_grpc_port="0") as process:
        yield process


@pytest.fixture
def tenant(broker: BrokerProcess) -> Iterator[Wire]:
    """Who may do everything in the account 5, and wants to know about the account 6."""
    key = fresh("LTAI"), "secret of " + fresh()
    row = {"tenant": "5", "is_account": True, "boundary": [f"acs:mq:*:*:{MINE}%*"], "statements": EVERYTHING}
    broker.allow(*key, row)
    with Wire(broker.address, key) as wire:
        eventually(lambda: wire.call(Code.GET_BROKER_CLUSTER_INFO).code == 0)
        yield wire


def without(text: str, *own: str) -> str:
    for word in own:
        text = text.replace(word, "…")
    return text


# AccessKeys


def test_the_broker_says_the_same_to_a_guesser_of_ids_and_of_secrets(broker: BrokerProcess, tenant: Wire) -> None:
    assert tenant.key is not None
    known, unknown = tenant.key[0], "LTAInobodyhasthis"
    said: dict[str, set[Any]] = {"remoting": set(), "gRPC": set()}
    for key_id in (known, unknown):
        with Wire(broker.address, (key_id, "guessed")) as wire:
            for code in (Code.GET_BROKER_CLUSTER_INFO, Code.SEND_MESSAGE_V2, Code.HEART_BEAT):
                answer = wire.call(code)
                said["remoting"].add((answer.code, without(str(answer.remark), key_id)))
            token = wire.call(Code.GET_BROKER_CLUSTER_INFO, {"SecurityToken": "guessed"})
            said["remoting"].add((token.code, without(str(token.remark), key_id)))
        with GrpcCaller(broker.grpc, (key_id, "guessed")) as caller:
            status = caller.send(message("t")).status
            said["gRPC"].add((status.code, without(status.message, key_id)))
    assert {door: len(answers) for door, answers in said.items()} == {"remoting": 1, "gRPC": 1}
    assert [code for code, _ in (*said["remoting"], *said["gRPC"])] == [
        ResponseCode.NO_PERMISSION,
        GrpcCode.UNAUTHORIZED,
    ]


def test_a_key_that_nobody_has_opens_nothing_whatever_secret_is_guessed(broker: BrokerProcess) -> None:
    """The signature is held against somebody's secret all the same, who is nobody."""
    for secret in ("", "nobody", "\0"):
        fields = {"AccessKey": ""}
        with Wire(broker.address, None) as wire:
            signed = fields | {"Signature": sign(fields, b"", secret)}
            assert wire.call(Code.GET_BROKER_CLUSTER_INFO, signed).code == ResponseCode.NO_PERMISSION


def test_both_apis_say_the_same_to_a_guesser_of_ids_and_of_secrets(cast: Cast) -> None:
    issued = accounts.create_access_key(actor=cast.actor("alice"), user=cast.alice)
    disabled = accounts.create_access_key(actor=cast.actor("bob"), user=cast.bob)
    cast.bob.access_keys.update(enabled=False)
    said: dict[str, set[Any]] = {"json": set(), "version 1": set(), "acs3": set()}
    for key_id in (issued.access_key_id, disabled.access_key_id, "LTAIabcdefghijklmnopqrst"):
        answer = Caller(key_id, "guessed")("instance/list")
        said["json"].add((answer["status"], answer["dynamicMessage"]))
        sent = {
            "Action": "OnsRegionList", "Version": "2019-02-14", "Format": "JSON", "AccessKeyId": key_id,
            "SignatureMethod": "HMAC-SHA1", "SignatureVersion": "1.0", "SignatureNonce": "n",
            "Timestamp": "2026-01-31T12:00:00Z",
        }  # fmt: skip
        old = Client().get("/", sent | {"Signature": rpc.v1(rpc.text_to_sign("GET", sent), "guessed")})
        said["version 1"].add((old.status_code, old.json()["Code"], without(old.json()["Message"], key_id)))
        headers = {
            "host": "testserver", "x-acs-action": "OnsRegionList", "x-acs-version": "2019-02-14",
            "x-acs-date": "2026-01-31T12:00:00Z", "x-acs-signature-nonce": "n", "x-acs-security-token": "guessed",
        }  # fmt: skip
        claim = f"{rpc.ACS3} Credential={key_id},SignedHeaders={';'.join(sorted(headers))},Signature={'0' * 64}"
        new = Client().get("/", headers=headers | {"Authorization": claim})
        said["acs3"].add((new.status_code, new.json()["Code"], without(new.json()["Message"], key_id)))
    assert {door: len(answers) for door, answers in said.items()} == {"json": 1, "version 1": 1, "acs3": 1}


def test_a_key_ends_with_its_account_at_every_door_also_a_roles(cast: Cast) -> None:
    """Role keys too: whoever assumed a role keeps nothing when the account is disabled."""
    role = Role.objects.create(tenant=cast.acme, name="nightly", trust_policy={})
    own = accounts.create_access_key(actor=cast.actor("alice"), user=cast.alice).access_key_id
    session = AccessKey.objects.create(
        access_key_id="STS.abcdefghijklmnopqrst", secret_encrypted=encrypt("short-lived"), role=role,
        security_token="token", session_name="s",
    ).access_key_id  # fmt: skip
    caller = Caller(session, "short-lived", token="token")
    for enabled in (True, False, True):
        Tenant.objects.filter(pk=cast.acme.pk).update(enabled=enabled)
        for key_id in (own, session):
            assert (find_key(key_id) is not None) is enabled
            assert key_of_claim(key_id)[1] is enabled
            assert (auth.find_account(key_id) is not None) is enabled
            assert (key_id in access_table.compiled()) is enabled
        assert (caller.symbol("region/list") == "SUCCESS") is enabled


def test_guessed_ids_are_looked_for_by_as_many_queries_as_known_ones(
    cast: Cast, django_assert_num_queries: Any
) -> None:
    issued = accounts.create_access_key(actor=cast.actor("alice"), user=cast.alice)
    DatabaseAccount.objects.create(
        user=cast.alice, name="reporting", sha1_of_sha1="00" * 20, sha256_of_sha256="00" * 32
    )
    for name in ("reporting", issued.access_key_id, "LTAIabcdefghijklmnopqrst"):
        with django_assert_num_queries(3):
            auth.find_account(name)
    for key_id in (issued.access_key_id, "LTAIabcdefghijklmnopqrst"):
        with django_assert_num_queries(1):
            key_of_claim(key_id)


# Sign-in to the console


class Counting:
    """How often a password was hashed: the work that takes the time of a sign-in."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        stock = MD5PasswordHasher.encode

        def encode(hasher: Any, password: str, salt: str) -> str:
            self.count += 1
            return str(stock(hasher, password, salt))

        monkeypatch.setattr(MD5PasswordHasher, "encode", encode)


def test_a_sign_in_hashes_as_much_for_a_name_that_nobody_has(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    counting, pages = Counting(monkeypatch), {}
    disabled = cast.rita
    User.objects.filter(pk=disabled.pk).update(is_active=False)
    no_password = cast.nora
    no_password.set_unusable_password()
    no_password.save()
    for name in ("nobody@acme", "nobody@nowhere", "admin@acme", disabled.username, no_password.username, "petra"):
        counting.count = 0
        page = Client().post("/account/login/", {"login": name, "password": "guessed"})
        pages[name] = counting.count, page.status_code, without(_visible(page.content.decode()), name)
    assert len(set(pages.values())) == 1, {name: found[:2] for name, found in pages.items()}
    assert pages["nobody@acme"][0] == 1


def _visible(page: str) -> str:
    """The page without what differs from request to request."""
    return re.sub(r"[A-Za-z0-9]{64}|[0-9a-f-]{36}", "", page)


# What belongs to other accounts, by the broker


def test_no_request_by_a_place_tells_whose_message_lies_there(broker: BrokerProcess, tenant: Wire) -> None:
    """Offsets count through all topics: whoever walks along them would read every account's topic names."""
    with Wire(broker.address) as system:
        secret, retry = system.topic(name=fresh(f"{OTHERS}%secret")), system.group(fresh(f"{MINE}%GID"))
        mine = system.topic(name=fresh(f"{MINE}%own"))
        stored = system.publish(secret, b"theirs", properties(UNIQ_KEY=fresh("ID")))
        own = system.publish(mine, b"ours", properties(UNIQ_KEY=fresh("ID")))
    host, port = broker.address.rsplit(":", 1)
    place = int(str(stored.ext["msgId"])[16:], 16)
    nowhere = place + (1 << 40)
    tenant.heartbeat("here@1#1", retry, mine)
    for offset in (place, nowhere):
        asked = {
            "view": tenant.call(Code.VIEW_MESSAGE_BY_ID, {"offset": offset}),
            "send back": tenant.call(
                Code.CONSUMER_SEND_MSG_BACK, {"offset": offset, "group": retry, "delayLevel": 0, "originTopic": mine}
            ),
            "end": tenant.call(
                Code.END_TRANSACTION,
                {"commitLogOffset": offset, "commitOrRollback": 8, "producerGroup": "P", "tranStateTableOffset": 0},
            ),
            "directly": tenant.call(
                Code.CONSUME_MESSAGE_DIRECTLY,
                {
                    "consumerGroup": retry, "clientId": "here@1#1",
                    "msgId": offset_message_id(host, int(port), offset),
                },
            ),
        }  # fmt: skip
        for what, answer in asked.items():
            told = str(answer.remark)
            assert OTHERS not in told, (what, told)
            assert answer.code == ResponseCode.SYSTEM_ERROR, (what, answer.code, told)
    there, not_there = (
        without(str(tenant.call(Code.VIEW_MESSAGE_BY_ID, {"offset": offset}).remark), str(offset))
        for offset in (place, nowhere)
    )
    assert there == not_there
    assert tenant.call(Code.VIEW_MESSAGE_BY_ID, {"offset": int(str(own.ext["msgId"])[16:], 16)}).code == 0


def test_who_publishes_by_a_grant_is_not_told_who_owns_a_full_topic(broker: BrokerProcess) -> None:
    with Wire(broker.address) as system:
        topic = system.topic(name=fresh("MQ_INST_77_cccccccc%lent"))
    key = fresh("LTAI"), "secret of " + fresh()
    grant = [{"Effect": "Allow", "Action": "mq:PUB", "Resource": f"acs:mq:*:*:{topic}"}]
    row = {"tenant": "5", "is_account": True, "boundary": [f"acs:mq:*:*:{MINE}%*"], "grants": grant}
    broker.allow(*key, row | {"statements": EVERYTHING, "delegated": grant})
    with Wire(broker.address, key) as wire:
        eventually(lambda: wire.publish(topic).code == 0)
        broker.limit("77", stored_bytes=1)
        refused = eventually(lambda: (answer := wire.publish(topic, b"x" * 1000)).code != 0 and answer)
    assert refused.code == ResponseCode.SYSTEM_BUSY
    assert "account 77" not in str(refused.remark)
    assert not any(character.isdigit() for character in without(str(refused.remark), topic))


# What belongs to other accounts, by the management API

ASKED = {
    "instance/baseInfo": {}, "instance/update": {"instanceName": "x"}, "instance/delete": {},
    "topic/get": {"topic": "*"}, "topic/delete": {"topic": "*"}, "topic/update": {"topic": "*", "perm": "6"},
    "topic/subDetail": {"topic": "*"}, "topic/producers": {"topic": "*"}, "topic/listNames": {}, "topic/listInPage": {},
    "topic/create": {"topic": "*", "orderType": "0", "remark": ""}, "group/list": {},
    "group/create": {"groupId": "GID_x", "remark": ""}, "empower/list": {"topic": "*"},
    "empower/create": {"topic": "*", "relation": "2", "empowerUser": "1"},
    "empower/delete": {"topic": "*", "empowerUser": "1"},
    "consumer/accumulate": {"groupId": "GID_secret"}, "message/getById": {"topic": "*", "msgId": "0" * 32},
    "message/trace": {"topic": "*", "msgId": "0" * 32}, "message/getByKey": {"topic": "*", "key": "k"},
    "trend/topicInputTps": {"topic": "*", "type": "0", "beginTime": "1", "endTime": "2", "period": "1"},
}  # fmt: skip


def test_another_accounts_instance_is_answered_like_one_that_is_not_there(cast: Cast) -> None:
    make_topic(cast.charlie, cast.charlies, "secret")
    make_group(cast.charlie, cast.charlies, "GID_secret")
    make_topic(cast.charlie, cast.charlies, "lent")
    alice, theirs, nowhere = Caller.of(cast.alice), cast.charlies.instance_id, "MQ_INST_1234567890123456_abcdefgh"
    for path, own in ASKED.items():
        told = set()
        for instance_id in (theirs, nowhere):
            for topic in ("secret", "nothing"):
                given = {name: topic if value == "*" else value for name, value in own.items()}
                answer = alice(path, instanceId=instance_id, **given)
                assert not answer["success"]
                told.add((answer["status"], without(answer["dynamicMessage"], instance_id, topic)))
        assert len(told) == 1, (path, told)


def test_in_an_instance_with_one_lent_topic_the_others_are_not_there(cast: Cast) -> None:
    lent, _ = make_topic(cast.charlie, cast.charlies, "lent"), make_topic(cast.charlie, cast.charlies, "secret")
    grants.create_grant(actor=cast.actor("charlie"), topic=lent, relation=6, tenant=cast.acme)
    alice, instance_id = Caller.of(cast.alice), cast.charlies.instance_id
    assert alice.symbol("topic/get", instanceId=instance_id, topic="lent") == "SUCCESS"
    for path, own in ASKED.items():
        if "*" in own.values() and path != "topic/create":
            told = set()
            for topic in ("secret", "nothing"):
                given = {name: topic if value == "*" else value for name, value in own.items()}
                answer = alice(path, instanceId=instance_id, **given)
                told.add((answer["status"], without(answer["dynamicMessage"], topic)))
            assert len(told) == 1, (path, told)
    assert alice.symbol("empower/create", instanceId=instance_id, topic="lent", relation="2", empowerUser="1") == (
        "EMPOWER_OWNER_CHECK_ERROR"
    )


def test_the_time_of_a_signature_is_spent_for_unknown_keys_too(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not measured but counted: a guessed id costs the same decryption and the same digest."""
    read: list[str] = []

    def counted(token: str) -> str:
        read.append(token)
        return decrypt(token)

    monkeypatch.setattr("console.accounts.credentials.decrypt", counted)
    issued = accounts.create_access_key(actor=cast.actor("alice"), user=cast.alice)
    for key_id in (issued.access_key_id, "LTAIabcdefghijklmnopqrst"):
        read.clear()
        assert Caller(key_id, "guessed").symbol("region/list") == envelope.SIGNATURE
        assert len(read) == 1
        auth.find_account(key_id)
        assert len(read) == 2
