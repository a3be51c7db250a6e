"""How fast the clients of an instance may send and receive: enforced at every door, told by FLOW_CONTROL."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest

from brokercore.policy.table import LimitRow, RateRow, RateUse
from brokercore.protocol.codes import RequestCode as Code
from brokercore.protocol.codes import ResponseCode
from brokercore.protocol.grpc import messaging_pb2 as pb
from brokercore.protocol.message import decode_stored
from brokercore.server.rights.limits import TenantLimits
from brokercore.server.rights.rates import TooFast
from tests.brokercore.server.grpc.caller import Caller, message
from tests.brokercore.server.rights.test_limits import Tenant, make_tenant
from tests.brokercore.server.wire import Wire, fresh, properties
from tests.support.broker import BrokerProcess, broker_process, eventually

INSTANCE, BARE = "MQ_INST_42_abcdefgh", "MQ_INST_42_nospaces"


@pytest.fixture(scope="module")
def limited_broker() -> Iterator[BrokerProcess]:
    with broker_process(gantry_metrics_port="0", gantry_grpc_port="0") as broker:
        yield broker


@pytest.fixture
def system(limited_broker: BrokerProcess) -> Iterator[Wire]:
    with Wire(limited_broker.address) as wire:
        yield wire


@pytest.fixture
def tenant(limited_broker: BrokerProcess) -> Tenant:
    return make_tenant(limited_broker)


def limit(tenant: Tenant, **limits: int) -> None:
    """Publish how fast the tenant's instance may be, and wait until the broker has read it."""
    tenant.broker.rate(tenant.instance, tenant.instance, **limits)
    tenant.limit()


def held_back(answer: object) -> object:
    """The answer when it is no success."""
    return answer if getattr(answer, "code", 0) else None


def test_an_instance_that_sends_too_fast_is_told_its_limit_and_what_it_has_used(system: Wire, tenant: Tenant) -> None:
    topic = system.topic(name=f"{tenant.instance}%sends")
    limit(tenant, sent=5)
    with tenant.wire() as wire:
        answer = eventually(lambda: held_back(wire.publish(topic)))
        assert answer.code == ResponseCode.FLOW_CONTROL
        told = rf"flow control: instance {tenant.instance} may send 5 messages a second, and has used (\d+) of 5"
        found = re.match(told, answer.remark)
        assert found, answer.remark
        assert int(found[1]) >= 5
        assert system.publish(topic).code == 0, "the console's own messages are never held back"
        eventually(lambda: wire.publish(topic).code == 0)


def test_each_message_of_a_batch_counts() -> None:
    table = rates(sent=50)
    table.admit(table.account("7"), f"{INSTANCE}%t", 1, 10)
    table.more_messages(table.account("7"), f"{INSTANCE}%t", 199)
    with pytest.raises(TooFast, match="has used 200 of 50"):
        table.admit(table.account("7"), f"{INSTANCE}%t", 1, 10)


def test_a_pull_that_may_not_wait_is_told_and_one_that_may_gets_its_messages_when_there_is_room(
    system: Wire, tenant: Tenant
) -> None:
    topic, group = system.topic(name=f"{tenant.instance}%pulls"), system.group(f"{tenant.instance}%GID_pulls")
    for number in range(60):
        system.publish(topic, b"%d" % number)
    limit(tenant, received=20)
    with tenant.wire() as wire:

        def refused() -> object:
            return held_back(wire.pull(group, topic))

        answer = eventually(refused)
        assert answer.code == ResponseCode.FLOW_CONTROL
        assert f"instance {tenant.instance} may receive 20 messages a second, and has used" in answer.remark
        began = time.monotonic()
        found = decode_stored(wire.pull(group, topic, 32, sysFlag=6, suspendTimeoutMillis=15_000).body)
        assert [one.body for one in found] == [b"%d" % number for number in range(32, 60)]
        assert time.monotonic() - began < 15, "it came when there was room, not when the time was over"
        assert system.pull(group, topic).code == 0


def test_a_waiting_pull_whose_time_is_over_is_told_by_flow_control(system: Wire, tenant: Tenant) -> None:
    topic, group = system.topic(name=f"{tenant.instance}%times"), system.group(f"{tenant.instance}%GID_times")
    for _ in range(32):
        system.publish(topic)
    limit(tenant, received=1)
    with tenant.wire() as wire:
        eventually(lambda: held_back(wire.pull(group, topic)))
        answer = wire.pull(group, topic, sysFlag=6, suspendTimeoutMillis=50)
        assert answer.code == ResponseCode.FLOW_CONTROL


def test_pops_are_held_back_and_nothing_is_in_flight_for_one_that_was_refused(system: Wire, tenant: Tenant) -> None:
    topic, group = system.topic(name=f"{tenant.instance}%pops"), system.group(f"{tenant.instance}%GID_pops")
    for _ in range(40):
        system.publish(topic)
    limit(tenant, received=8)
    ext = {
        "consumerGroup": group, "topic": topic, "queueId": -1, "maxMsgNums": 10, "invisibleTime": 60_000,
        "pollTime": 0, "bornTime": 0, "initMode": 0,
    }  # fmt: skip
    with tenant.wire() as wire:
        taken = 0

        def refused() -> object:
            nonlocal taken
            answer = wire.call(Code.POP_MESSAGE, ext)
            taken += len(decode_stored(answer.body)) if answer.code == 0 else 0
            return held_back(answer)

        answer = eventually(refused)
        assert answer.code == ResponseCode.FLOW_CONTROL
        assert wire.call(Code.PEEK_MESSAGE, ext).code == ResponseCode.FLOW_CONTROL
        found = wire.ok(Code.POP_MESSAGE, ext | {"pollTime": 15_000})
        taken += len(decode_stored(found.body))
    rest = system.call(Code.POP_MESSAGE, ext | {"maxMsgNums": 32})
    assert taken + (len(decode_stored(rest.body)) if rest.code == 0 else 0) == 40


def test_grpc_clients_are_told_that_there_were_too_many(system: Wire, tenant: Tenant) -> None:
    topic, group = system.topic(name=f"{tenant.instance}%grpc"), system.group(f"{tenant.instance}%GID_grpc")
    limit(tenant, sent=10, received=10)
    with Caller(tenant.broker.grpc, tenant.key) as caller:
        status = eventually(lambda: next((s for s in sent(caller, topic, 5) if s.code != pb.Code.OK), None))
        assert status.code == pb.Code.TOO_MANY_REQUESTS
        assert f"instance {tenant.instance} may send 10 messages a second" in status.message
        for _ in range(32):
            system.publish(topic)
        status = eventually(lambda: found_other(caller.receive(group, topic)[0]))
        assert status.code == pb.Code.TOO_MANY_REQUESTS
        assert f"instance {tenant.instance} may receive 10 messages a second" in status.message


def sent(caller: Caller, topic: str, count: int) -> list[pb.Status]:
    answer = caller.send(*[message(topic, b"%d" % number) for number in range(count)])
    return [entry.status for entry in answer.entries]


def found_other(status: pb.Status) -> pb.Status | None:
    """The status unless it is OK, or tells that nothing is there."""
    return None if status.code in (pb.Code.OK, pb.Code.MESSAGE_NOT_FOUND) else status


def test_what_a_group_failed_on_is_sent_back_whatever_the_limit(system: Wire, tenant: Tenant) -> None:
    topic, group = system.topic(name=f"{tenant.instance}%again"), system.group(f"{tenant.instance}%GID_again")
    stored = system.publish(topic)
    limit(tenant, sent=1)
    back = {"group": group, "offset": int(stored.ext["msgId"][16:], 16), "delayLevel": 1, "originTopic": topic}
    with tenant.wire() as wire:
        eventually(lambda: held_back(wire.publish(topic)))
        assert wire.call(Code.CONSUMER_SEND_MSG_BACK, back).code == 0


def test_the_console_is_told_what_is_used(system: Wire, tenant: Tenant) -> None:
    topic = system.topic(name=f"{tenant.instance}%told")
    limit(tenant, sent=3)
    with tenant.wire() as wire:
        eventually(lambda: held_back(wire.publish(topic)))
        name = f"{tenant.instance}/broker-a"

        def told() -> RateUse | None:
            row = tenant.broker.redis_command("HGET", "gantry:acl:rates_used", name)
            use = RateUse.decode(row) if row else None
            return use if use is not None and use.held_back and not wire.publish(topic, text=one()).remark else None

        assert eventually(told).held_back > 0


def one() -> str:
    return properties(UNIQ_KEY=fresh("ID"))


# The buckets


def rates(*, sent: int = 0, received: int = 0, brokers: int = 1) -> TenantLimits:
    table = TenantLimits()
    table.load([("42", LimitRow())], {"bare": "42"}, {"GID_bare": "42"})
    rows = {
        INSTANCE: RateRow(INSTANCE, sent, received),
        "42": RateRow(BARE, sent, received),
    }
    table.rates.load_table([word.encode() for name, row in rows.items() for word in (name, row.encode())])
    table.share(brokers)
    return table


@pytest.mark.parametrize(
    ("topic", "instance"),
    [
        (f"{INSTANCE}%flights", INSTANCE),
        (f"%RETRY%{INSTANCE}%GID_a", INSTANCE),
        ("bare", BARE),
        ("%RETRY%GID_bare", BARE),
        ("MQ_INST_42_other000%flights", None),
        ("unknown", None),
    ],
)
def test_a_topic_is_of_its_namespace_or_of_its_accounts_instance_without_one(topic: str, instance: str | None) -> None:
    found = rates(sent=5).rates.of(topic)
    assert (found[0].instance if found else None) == instance


def test_a_bare_topic_that_got_another_owner_leaves_the_instance() -> None:
    table = rates(sent=5)
    assert table.rates.of("bare") is not None
    table.load([], {"bare": "7"}, {})
    assert table.rates.of("bare") is None


def test_each_of_several_brokers_has_its_share_and_says_so() -> None:
    table = rates(sent=100, brokers=3)
    account = table.account("7")
    for _ in range(35):
        table.admit(account, f"{INSTANCE}%t", 1, 10)
    with pytest.raises(TooFast, match="may send 100 messages a second, 34 of them at this broker, and has used 35 of"):
        table.admit(account, f"{INSTANCE}%t", 1, 10)
    table.share(1)
    table.admit(account, f"{INSTANCE}%t", 1, 10)


def test_rows_that_cannot_be_read_hold_nobody_back() -> None:
    table = rates(sent=1)
    table.rates.load_table([INSTANCE.encode(), b"{", b"42", b'{"instance":"x","sent":-5}'])
    for _ in range(20):
        table.admit(table.account("7"), f"{INSTANCE}%t", 1, 10)
        table.admit(table.account("7"), "bare", 1, 10)


def test_a_higher_limit_forgives_what_is_owed_beyond_the_burst() -> None:
    table = rates(sent=1)
    table.admit(table.account("7"), f"{INSTANCE}%t", 500, 10)
    rows = [INSTANCE.encode(), RateRow(INSTANCE, 1000).encode().encode()]
    table.rates.load_table(rows)
    table.admit(table.account("7"), f"{INSTANCE}%t", 1, 10)
