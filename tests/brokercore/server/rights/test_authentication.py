"""Signatures, AccessKeys and what they may do."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from brokercore.policy.table import OWNERS, VERSION
from brokercore.protocol.command import Command
from brokercore.protocol.signature import sign
from brokercore.server.rights.permissions import NEEDS
from tests.brokercore.server.wire import Wire, fresh, properties
from tests.support.broker import BrokerProcess, broker_process, eventually
from tests.support.redis_server import redis_server

MINE, OTHERS = "MQ_INST_5_aaaaaaaa", "MQ_INST_6_bbbbbbbb"
EVERYTHING = [{"Effect": "Allow", "Action": "*", "Resource": "*"}]

Allow = Callable[..., Wire]


@pytest.fixture
def allow(broker: BrokerProcess) -> Iterator[Allow]:
    """Make an AccessKey of the tenant MINE with these statements, and connect with it."""
    opened = []

    def make(
        statements: list[dict[str, object]], grants: list[dict[str, object]] | None = None, **more: object
    ) -> Wire:
        key = fresh("AK"), "secret of " + fresh()
        row = {"boundary": [f"acs:mq:*:*:{MINE}%*"], "statements": statements, "grants": grants or []} | more
        broker.allow(*key, row)
        connection = Wire(broker.address, key)
        opened.append(connection)
        if not more:
            eventually(lambda: connection.call(106).code == 0)
        return connection

    yield make
    for connection in opened:
        connection.socket.close()


def statement(effect: str, action: str, resource: str = "*") -> list[dict[str, object]]:
    return [{"Effect": effect, "Action": action, "Resource": resource}]


def test_an_unsigned_request_is_refused(broker: BrokerProcess) -> None:
    with Wire(broker.namesrv, None) as stranger:
        for code in (105, 106, 310, 11, 34, 17):
            answer = stranger.call(code, {"topic": "t"})
            assert answer.code == 16
            assert "not signed" in (answer.remark or "")


@pytest.mark.parametrize("code", NEEDS)
def test_no_request_is_answered_without_a_right_signature(broker: BrokerProcess, wire: Wire, code: int) -> None:
    with Wire(broker.address, ("LTAInobody", "x")) as unknown, Wire(broker.address, (wire.key[0], "wrong")) as forger:  # type: ignore[index]
        assert unknown.call(code).code == 16
        answer = forger.call(code)
        assert answer.code == 16
        assert "signature" in (answer.remark or "")


def test_a_changed_body_or_field_breaks_the_signature(broker: BrokerProcess, wire: Wire) -> None:
    topic = wire.topic()
    with Wire(broker.address, None) as forger:
        ext = {"b": topic, "e": "0", "f": "0", "g": "1", "h": "0", "AccessKey": broker.access_key_id}
        signature = sign(ext, b"body", broker.access_key_secret)
        assert forger.call(310, ext | {"Signature": signature}, b"other").code == 16
        assert forger.call(310, ext | {"e": "1", "Signature": signature}, b"body").code == 16
        assert forger.call(310, ext | {"Signature": signature}, b"body").code == 0


def test_the_invisible_field_of_ons_client_is_accepted(broker: BrokerProcess, wire: Wire) -> None:
    topic = wire.topic()
    with Wire(broker.address, None) as ons:
        ext = {"topic": topic, "AccessKey": broker.access_key_id, "OnsChannel": "ALIYUN"}
        signature = sign(ext | {"split": "\x01"}, b"", broker.access_key_secret)
        assert ons.call(105, ext | {"Signature": signature}).code == 0


@pytest.mark.parametrize("extra", ["_UNIQUE_KEY_QUERY", "__ZONE_NAME", "__ZONE_MODE"])
def test_fields_that_old_clients_add_after_signing_are_accepted(broker: BrokerProcess, extra: str) -> None:
    with Wire(broker.address, None) as old:
        ext = {"AccessKey": broker.access_key_id}
        signature = sign(ext, b"", broker.access_key_secret)
        assert old.call(106, ext | {"Signature": signature, extra: "x"}).code == 0


def test_a_tenant_reaches_its_own_topics_only(allow: Allow, wire: Wire) -> None:
    mine, others = wire.topic(name=fresh(f"{MINE}%t")), wire.topic(name=fresh(f"{OTHERS}%t"))
    tenant = allow(EVERYTHING)
    assert tenant.publish(mine).code == 0
    answer = tenant.publish(others)
    assert answer.code == 16
    assert "mq:PUB" in (answer.remark or "")


def test_publishers_do_not_subscribe_and_subscribers_do_not_publish(allow: Allow, wire: Wire) -> None:
    topic, group = wire.topic(name=fresh(f"{MINE}%t")), wire.group(fresh(f"{MINE}%GID"))
    publisher, subscriber = allow(statement("Allow", "mq:PUB")), allow(statement("Allow", "mq:SUB"))
    assert publisher.publish(topic).code == 0
    assert publisher.pull(group, topic).code == 16
    assert publisher.call(15, {"consumerGroup": group, "topic": topic, "queueId": 0, "commitOffset": 1}).code == 16
    assert subscriber.publish(topic).code == 16
    assert subscriber.pull(group, topic).code == 0
    assert subscriber.pull(wire.group(fresh(f"{OTHERS}%GID")), topic).code == 16


def test_retry_topics_need_the_group(allow: Allow, wire: Wire) -> None:
    group = wire.group(fresh(f"{MINE}%GID"))
    subscriber, publisher = allow(statement("Allow", "mq:SUB")), allow(statement("Allow", "mq:PUB"))
    assert subscriber.publish(f"%RETRY%{group}").code == 0
    assert subscriber.pull(group, f"%RETRY%{group}").code == 0
    assert publisher.publish(f"%RETRY%{group}").code == 16


def test_an_explicit_deny_wins(allow: Allow, wire: Wire) -> None:
    topic = wire.topic(name=fresh(f"{MINE}%t"))
    denied = allow(EVERYTHING + statement("Deny", "mq:PUB", f"acs:mq:*:*:{topic}"))
    assert denied.publish(topic).code == 16
    assert denied.publish(wire.topic(name=fresh(f"{MINE}%t"))).code == 0


def test_a_grant_reaches_over_the_boundary(allow: Allow, wire: Wire) -> None:
    topic = wire.topic(name=fresh(f"{OTHERS}%t"))
    tenant = allow(EVERYTHING, statement("Allow", "mq:PUB", f"acs:mq:*:*:{topic}"))
    assert tenant.publish(topic).code == 0
    assert tenant.call(30, {"topic": wire.topic(name=fresh(f"{OTHERS}%t")), "queueId": 0}).code == 16


def test_a_topic_without_a_namespace_is_of_the_account_that_the_table_of_owners_says(
    broker: BrokerProcess, allow: Allow, wire: Wire
) -> None:
    account, topic = fresh("5"), wire.topic(name=fresh("bare"))

    def give_to(uid: str) -> None:
        broker.redis_command("HSET", OWNERS, topic, uid)
        broker.redis_command("INCR", VERSION)

    tenant = allow(EVERYTHING, tenant=account)
    eventually(lambda: tenant.call(106).code == 0)
    assert tenant.publish(topic).code == 16
    give_to(account)
    eventually(lambda: tenant.publish(topic).code == 0, 3)
    give_to("somebody else")
    eventually(lambda: tenant.publish(topic).code == 16, 3)


def test_a_condition_on_the_address_is_looked_at_each_time(allow: Allow, wire: Wire) -> None:
    topic = wire.topic(name=fresh(f"{MINE}%t"))
    rule = {"Effect": "Allow", "Action": "mq:PUB", "Resource": "*"}
    here = allow([rule | {"Condition": {"IpAddress": {"acs:SourceIp": ["127.0.0.0/8"]}}}])
    elsewhere = allow([rule | {"Condition": {"IpAddress": {"acs:SourceIp": ["10.0.0.0/8"]}}}])
    assert [here.publish(topic).code, here.publish(topic).code] == [0, 0]
    assert elsewhere.publish(topic).code == 16


def test_taking_a_right_away_holds_at_once(broker: BrokerProcess, allow: Allow, wire: Wire) -> None:
    topic = wire.topic(name=fresh(f"{MINE}%t"))
    tenant = allow(EVERYTHING)
    assert tenant.publish(topic).code == 0
    assert tenant.key is not None
    row = {"boundary": [f"acs:mq:*:*:{MINE}%*"], "statements": statement("Allow", "mq:SUB"), "grants": []}
    broker.allow(*tenant.key, row)
    eventually(lambda: tenant.publish(topic).code == 16, 2)
    broker.disable(tenant.key[0])
    eventually(lambda: "unknown or disabled" in (tenant.call(106).remark or ""), 2)


def test_taking_a_right_away_ends_a_waiting_pull_without_a_message(
    broker: BrokerProcess, allow: Allow, wire: Wire
) -> None:
    topic, group = wire.topic(name=fresh(f"{MINE}%t")), wire.group(name=fresh(f"{MINE}%GID"))
    for disabled in (False, True):
        tenant = allow(EVERYTHING)
        offset = wire.pull(group, topic).ext["maxOffset"]
        opaque = tenant.start_pull(group, topic, int(offset), sysFlag=6, suspendTimeoutMillis=15_000)
        assert tenant.call(106).code == 0
        assert tenant.key is not None
        if disabled:
            broker.disable(tenant.key[0])
        else:
            broker.allow(*tenant.key, {"boundary": [f"acs:mq:*:*:{MINE}%*"], "statements": [], "grants": []})
        answer = tenant.receive(opaque, 10)  # well before the pull ends by itself
        assert (answer.code, answer.body) == (16, b"")
        wire.publish(topic, b"not for you")


def test_a_waiting_pull_does_not_outlive_its_temporary_key(allow: Allow, wire: Wire) -> None:
    topic, group = wire.topic(name=fresh(f"{MINE}%t")), wire.group(name=fresh(f"{MINE}%GID"))
    tenant = allow(EVERYTHING, token="the-token", expires_ms=int(time.time() * 1000) + 5_000)
    eventually(lambda: tenant.call(106, {"SecurityToken": "the-token"}).code == 0)
    fields = {"sysFlag": 6, "suspendTimeoutMillis": 15_000, "SecurityToken": "the-token"}
    assert tenant.receive(tenant.start_pull(group, topic, 0, **fields), 12).code == 19
    eventually(lambda: "expired" in (tenant.pull(group, topic, 0, **fields).remark or ""))


def test_a_security_token_is_part_of_the_credentials(broker: BrokerProcess, allow: Allow) -> None:
    expires = int(time.time() * 1000) + 3_600_000
    tenant = allow(EVERYTHING, token="the-token", expires_ms=expires)
    eventually(lambda: "security token" in (tenant.call(106).remark or ""))
    assert tenant.call(106, {"SecurityToken": "other"}).code == 16
    assert tenant.call(106, {"SecurityToken": "the-token"}).code == 0


def test_an_expired_token_is_refused(allow: Allow) -> None:
    tenant = allow(EVERYTHING, token="the-token", expires_ms=1)
    eventually(lambda: "expired" in (tenant.call(106, {"SecurityToken": "the-token"}).remark or ""))


def test_a_row_that_cannot_be_read_harms_no_other(broker: BrokerProcess, allow: Allow) -> None:
    broken = fresh("AK")
    broker.allow(broken, "x", {"secret": "not encrypted"})
    tenant = allow(EVERYTHING)
    assert tenant.call(106).code == 0
    with Wire(broker.address, (broken, "x")) as other:
        assert other.call(106).code == 16
    assert broken in broker.log


def test_lists_show_what_the_caller_may_see(allow: Allow, wire: Wire) -> None:
    mine, others = wire.topic(name=fresh(f"{MINE}%t")), wire.topic(name=fresh(f"{OTHERS}%t"))
    my_group, other_group = wire.group(fresh(f"{MINE}%GID")), wire.group(fresh(f"{OTHERS}%GID"))
    for group in (my_group, other_group):
        wire.ok(15, {"consumerGroup": group, "topic": mine, "queueId": 0, "commitOffset": 1})
    tenant = allow(EVERYTHING)
    for code, shown, hidden in ((206, mine, others), (21, mine, others), (201, my_group, other_group),
                                (43, my_group, other_group)):  # fmt: skip
        body = tenant.ok(code).body
        assert shown.encode() in body
        assert hidden.encode() not in body
        assert b"SCHEDULE_TOPIC" not in body


@pytest.mark.parametrize("code", [26, 28, 45, 219, 317, 328])
def test_what_concerns_all_tenants_is_kept_for_the_system_key(allow: Allow, code: int) -> None:
    assert allow(EVERYTHING).call(code, {"namespace": "x", "isOrder": "false"}).code == 16


def test_a_tenants_admin_makes_topics_in_its_instance_only(allow: Allow) -> None:
    tenant = allow(EVERYTHING)
    tenant.topic(name=fresh(f"{MINE}%made"))
    ext = {"topic": fresh(f"{OTHERS}%made"), "readQueueNums": 1, "writeQueueNums": 1, "perm": 6, "order": "false"}
    assert tenant.call(17, ext).code == 16
    assert allow(statement("Allow", "mq:UpdateTopic")).call(17, ext | {"topic": fresh(f"{MINE}%new")}).code == 16


def test_nobody_commits_the_half_message_of_another_tenant(allow: Allow, wire: Wire) -> None:
    topic = wire.topic(name=fresh(f"{OTHERS}%tx"), message_type="TRANSACTION")
    sent = wire.publish(topic, text=properties(UNIQ_KEY="u", TRAN_MSG="true", PGROUP="PG"), f="4")
    offset = int(sent.ext["msgId"][16:], 16)
    ext = {"producerGroup": "PG", "tranStateTableOffset": sent.ext["queueOffset"], "commitLogOffset": offset,
           "commitOrRollback": 8, "msgId": "u", "fromTransactionCheck": "false"}  # fmt: skip
    refused = allow(EVERYTHING).call(37, ext)
    assert (refused.code, refused.remark) == (1, "Find prepared transaction message failed")


def test_without_its_table_the_broker_lets_only_the_system_key_in() -> None:
    with redis_server() as server, broker_process(server) as broker:
        key = "LTAItenant", "secret"
        row = {"boundary": [f"acs:mq:*:*:{MINE}%*"], "statements": EVERYTHING, "grants": []}
        broker.allow(*key, row)
        with Wire(broker.address, key) as tenant, Wire(broker.address) as system:
            eventually(lambda: tenant.call(106).code == 0)
            server.kill()

            def refused() -> Command | None:
                answer = tenant.call(106)
                return answer if answer.code == 2 else None

            answer = eventually(refused)
            assert "AccessKeys cannot be read" in answer.remark
            assert system.call(106).code == 0
            server.start()
            eventually(lambda: tenant.call(106).code == 0)


@pytest.mark.parametrize(("code", "own", "other"), [(10, "b", "topic"), (310, "topic", "b"), (10, "topic", "b")])
def test_a_second_name_in_a_send_does_not_hide_the_first(
    wire: Wire, allow: Allow, code: int, own: str, other: str
) -> None:
    mine, theirs = f"{MINE}%{fresh('t')}", f"{OTHERS}%{fresh('t')}"
    for topic in (mine, theirs):
        wire.topic(name=topic)
    caller = allow(EVERYTHING)
    fields = {"queueId": "0", "sysFlag": "0", "bornTimestamp": "1", "flag": "0", "producerGroup": "p"}
    short = {"e": "0", "f": "0", "g": "1", "h": "0", "a": "p"}
    answer = caller.call(code, fields | short | {own: mine, other: theirs}, b"body")
    assert (answer.code, theirs in (answer.remark or "")) == (16, True)


@pytest.mark.parametrize("code", [15, 36, 38, 203, 208, 222])
def test_a_second_group_in_a_request_does_not_hide_the_first(wire: Wire, allow: Allow, code: int) -> None:
    mine, theirs = f"{MINE}%GID_{fresh()}", f"{OTHERS}%GID_{fresh()}"
    caller = allow(EVERYTHING)
    for first, second in (("consumerGroup", "group"), ("group", "consumerGroup"), ("groupName", "group")):
        answer = caller.call(code, {first: mine, second: theirs, "topic": f"{MINE}%t"})
        assert (answer.code, theirs in (answer.remark or "")) == (16, True)
