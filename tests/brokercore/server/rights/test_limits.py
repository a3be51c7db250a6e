"""What one tenant may take of a broker: refused beyond it with codes that clients understand, while others go on."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from brokercore.policy.table import LimitRow
from brokercore.protocol.codes import RequestCode as Code
from brokercore.protocol.codes import ResponseCode
from brokercore.server.connections.fairness import at_once
from brokercore.server.rights.account import Account
from brokercore.server.rights.limits import LimitReached, TenantLimits
from brokercore.server.storage.queue import Queue
from tests.brokercore.hostile.attack import metrics_port
from tests.brokercore.server.wire import Wire, fresh, properties
from tests.support.broker import BrokerProcess, broker_process, eventually

NO_LIMIT = itertools.count(1 << 40)


@dataclass
class Tenant:
    """An account with a key that may do everything in its instance."""

    broker: BrokerProcess
    uid: str
    key: tuple[str, str]

    @property
    def instance(self) -> str:
        """Its namespace."""
        return f"MQ_INST_{self.uid}_limitsaa"

    def wire(self) -> Wire:
        """A connection with its key."""
        return Wire(self.broker.address, self.key)

    def limit(self, **limits: int) -> None:
        """Publish its limits, and wait until the broker has read them: the figures tell the bytes it may store."""
        stored = limits.setdefault("stored_bytes", next(NO_LIMIT))
        self.broker.limit(self.uid, **limits)
        eventually(lambda: figure(self.broker, "stored_limit_bytes", self.uid) == stored)


@pytest.fixture(scope="module")
def limited_broker() -> Iterator[BrokerProcess]:
    with broker_process(gantry_metrics_port="0") as broker:
        yield broker


@pytest.fixture
def system(limited_broker: BrokerProcess) -> Iterator[Wire]:
    with Wire(limited_broker.address) as wire:
        yield wire


@pytest.fixture
def tenant(limited_broker: BrokerProcess) -> Tenant:
    return make_tenant(limited_broker)


def make_tenant(broker: BrokerProcess) -> Tenant:
    uid = str(int.from_bytes(fresh().encode()[-6:]))[:12]
    made = Tenant(broker, uid, (fresh("AK"), "secret of " + fresh()))
    statements = [{"Effect": "Allow", "Action": "*", "Resource": "*"}]
    row = {"tenant": uid, "boundary": [f"acs:mq:*:*:MQ_INST_{uid}_*"], "statements": statements}
    broker.allow(*made.key, row)
    with made.wire() as wire:
        eventually(lambda: wire.call(Code.GET_BROKER_CLUSTER_INFO).code == 0)
    return made


def metrics(broker: BrokerProcess) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{metrics_port(broker)}/metrics", timeout=10) as answer:
        return str(answer.read().decode())


def system_group(broker: BrokerProcess, name: str) -> str:
    """A group that the system key makes; connections of before a restart are gone."""
    with Wire(broker.address) as system:
        return system.group(name)


def figure(broker: BrokerProcess, name: str, uid: str) -> float:
    """One of a tenant's figures."""
    begin = f'gantry_tenant_{name}{{tenant="{uid}"}} '
    return float(next((line[len(begin) :] for line in metrics(broker).splitlines() if line.startswith(begin)), "0"))


def test_a_tenant_that_sends_too_fast_is_told_flow_control_and_others_go_on(system: Wire, tenant: Tenant) -> None:
    other = make_tenant(tenant.broker)
    topic, others = system.topic(name=f"{tenant.instance}%fast"), system.topic(name=f"{other.instance}%fast")
    with tenant.wire() as wire, other.wire() as other_wire:
        tenant.limit(messages_per_second=5)
        answer = eventually(lambda: refused(wire.publish(topic)))
        assert answer.code == ResponseCode.FLOW_CONTROL
        assert f"account {tenant.uid} may send 5 messages a second" in answer.remark
        assert other_wire.publish(others).code == 0
        assert system.publish(topic).code == 0, "the system key has no limit"
        eventually(lambda: wire.publish(topic).code == 0)
        tenant.limit()
        eventually(lambda: all(wire.publish(topic).code == 0 for _ in range(30)))


def refused(answer: object) -> object:
    """The answer when it is no success."""
    return answer if getattr(answer, "code", 0) else None


def test_bytes_count_and_a_large_message_passes_and_is_paid_for_afterwards(system: Wire, tenant: Tenant) -> None:
    topic = system.topic(name=f"{tenant.instance}%large")
    tenant.limit(bytes_per_second=100_000)
    with tenant.wire() as wire:
        began = time.monotonic()
        with wire.at_once():
            large, next_one = wire.start_publish(topic, b"x" * 300_000), wire.start_publish(topic)
        assert wire.receive(large).code == 0
        answer = wire.receive(next_one)
        assert answer.code == ResponseCode.FLOW_CONTROL
        assert "may send 100000 bytes a second" in str(answer.remark)
        eventually(lambda: wire.publish(topic).code == 0)
        assert time.monotonic() - began > 1.9, "three seconds' worth was sent at once, and one of them is the burst"


def test_a_tenant_that_stores_too_much_is_refused_until_there_is_room(system: Wire, tenant: Tenant) -> None:
    other = make_tenant(tenant.broker)
    topic, others = system.topic(name=f"{tenant.instance}%full"), system.topic(name=f"{other.instance}%full")
    group = system.group(f"{tenant.instance}%GID_full")
    with tenant.wire() as wire, other.wire() as other_wire:
        first = wire.publish(topic, b"x" * 50_000)
        assert wire.publish(topic, b"x" * 50_000).code == 0
        tenant.limit(stored_bytes=80_000)
        answer = wire.publish(topic)
        assert answer.code == ResponseCode.SYSTEM_BUSY
        assert f"account {tenant.uid}, which owns {topic}" in str(answer.remark)
        assert other_wire.publish(others).code == 0
        assert system.publish(topic).code == 0, "the system key has no limit"
        assert wire.pull(group, topic).code == 0, "what was taken is consumed"
        again = {"group": group, "offset": int(first.ext["msgId"][16:], 16), "delayLevel": 1, "originTopic": topic}
        codes = [wire.call(Code.CONSUMER_SEND_MSG_BACK, again).code for _ in range(4)]
        assert codes[0] == 0, "and comes again after a failure"
        assert codes[-1] == ResponseCode.SYSTEM_BUSY, "but copies of one message fill nothing without end"
        system.ok(Code.DELETE_TOPIC_IN_BROKER, {"topic": topic})
        system.ok(Code.DELETE_SUBSCRIPTIONGROUP, {"groupName": group, "cleanOffset": "true"})
        room = system.topic(name=f"{tenant.instance}%room")
        eventually(lambda: wire.publish(room).code == 0, 20)


def test_what_waits_for_its_time_counts_for_its_tenant_also_after_a_restart(system: Wire, tenant: Tenant) -> None:
    broker = tenant.broker
    delayed = system.topic(name=f"{tenant.instance}%later", message_type="DELAY")
    halves = system.topic(name=f"{tenant.instance}%half", message_type="TRANSACTION")
    later = properties(TIMER_DELAY_SEC="3600")
    with tenant.wire() as wire:
        assert wire.publish(delayed, b"x" * 30_000, later).code == 0
        half = wire.publish(halves, b"x" * 30_000, properties(TRAN_MSG="true", PGROUP="PG"), f="4")
        assert half.code == 0
    assert figure(broker, "stored_bytes", tenant.uid) > 60_000
    broker.stop()
    broker.start()
    eventually(lambda: 60_000 < figure(broker, "stored_bytes", tenant.uid) < 90_000)
    tenant.limit(stored_bytes=50_000)
    with tenant.wire() as wire:
        assert wire.publish(delayed, b"x", later).code == ResponseCode.SYSTEM_BUSY
        end = {"commitOrRollback": 8, "producerGroup": "PG", "tranStateTableOffset": half.ext["queueOffset"]}
        wire.ok(Code.END_TRANSACTION, end | {"commitLogOffset": int(half.ext["msgId"][16:], 16)})
        group = system_group(broker, f"{tenant.instance}%GID_half")
        assert wire.pull(group, halves).code == 0, "what was prepared is committed, whatever the limit"
        wire.ok(Code.DELETE_TOPIC_IN_BROKER, {"topic": halves})
    eventually(lambda: figure(broker, "stored_bytes", tenant.uid) < 50_000, 20)


def test_one_connection_too_many_is_told_so_and_closed(tenant: Tenant) -> None:
    with tenant.wire() as first:
        assert first.call(Code.GET_BROKER_CLUSTER_INFO).code == 0
        tenant.limit(connections=1)
        with tenant.wire() as second:
            answer = second.call(Code.GET_BROKER_CLUSTER_INFO)
            assert second.socket.recv(10) == b"", "it is closed afterwards"
        assert answer.code == ResponseCode.SYSTEM_BUSY
        assert "has 1 connections to this broker, which is all it may have" in str(answer.remark)
        assert first.call(Code.GET_BROKER_CLUSTER_INFO).code == 0
    eventually(lambda: figure(tenant.broker, "connections", tenant.uid) == 0)
    with tenant.wire() as next_one:
        assert next_one.call(Code.GET_BROKER_CLUSTER_INFO).code == 0


def test_topics_and_groups_are_counted_where_the_broker_makes_them(tenant: Tenant) -> None:
    tenant.limit(topics=1, groups=1)
    with tenant.wire() as wire:
        wire.topic(name=f"{tenant.instance}%one")
        wire.group(f"{tenant.instance}%GID_one")
        config = {"topic": f"{tenant.instance}%two", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6}
        more = {"defaultTopic": "TBW102", "topicFilterType": "SINGLE_TAG", "order": "false"}
        answer = wire.call(Code.UPDATE_AND_CREATE_TOPIC, config | more)
        assert (answer.code, answer.remark) == (
            ResponseCode.INVALID_PARAMETER,
            f"account {tenant.uid} has 1 topics; allowed are 1",
        )
        assert wire.call(Code.UPDATE_AND_CREATE_TOPIC, config | more | {"topic": f"{tenant.instance}%one"}).code == 0
        body = json.dumps({"groupName": f"{tenant.instance}%GID_two"}).encode()
        answer = wire.call(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, body)
        assert "has 1 groups; allowed are 1" in str(answer.remark)


def test_figures_have_each_tenant_with_what_was_refused(system: Wire, tenant: Tenant) -> None:
    topic = system.topic(name=f"{tenant.instance}%figures")
    tenant.limit(messages_per_second=1)
    with tenant.wire() as wire:
        eventually(lambda: refused(wire.publish(topic)))
        text = metrics(tenant.broker)
        assert f'gantry_tenant_connections{{tenant="{tenant.uid}"}} 1.0' in text
        assert f'gantry_refused_requests_total{{reason="messages_per_second",tenant="{tenant.uid}"}}' in text
    with Wire(tenant.broker.address, None) as anonymous:
        anonymous.call(Code.GET_BROKER_CLUSTER_INFO)
    assert 'gantry_refused_requests_total{reason="unsigned",tenant=""}' in metrics(tenant.broker)


def accounts(**limits: int) -> tuple[TenantLimits, Account]:
    table = TenantLimits()
    table.load([("42", LimitRow(**limits))], {"bare": "42"}, {"MQ_INST_7_a%GID_guest": "42/*", "GID_bare": "42"})
    return table, table.account("42")


@pytest.mark.parametrize(
    ("topic", "uid"),
    [
        ("MQ_INST_42_abcdefgh%flights", "42"),
        ("MQ_INST_7_abcdefgh%flights", "7"),
        ("bare", "42"),
        ("unknown", ""),
        ("%RETRY%GID_bare", "42"),
        ("%DLQ%MQ_INST_7_a%GID_guest", "42"),
        ("%RETRY%MQ_INST_7_a%GID_own", "7"),
        ("MQ_INST_42_no-namespace", "42"),
    ],
)
def test_a_topic_belongs_to_its_namespace_and_a_retry_topic_to_who_made_the_group(topic: str, uid: str) -> None:
    table, _ = accounts()
    assert table.owner(topic).uid == uid


def test_topics_and_groups_that_are_asked_for_at_once_are_no_more_than_the_limit(tenant: Tenant) -> None:
    tenant.limit(topics=3, groups=3)
    with tenant.wire() as wire:
        more = {"readQueueNums": 1, "writeQueueNums": 1, "perm": 6, "defaultTopic": "TBW102", "order": "false"}
        more |= {"topicFilterType": "SINGLE_TAG"}
        with wire.at_once():
            topics = [
                wire.send(Code.UPDATE_AND_CREATE_TOPIC, more | {"topic": f"{tenant.instance}%{number}"})
                for number in range(20)
            ]
            groups = [
                wire.send(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, b'{"groupName":"%s%%GID_%d"}' % (space, number))
                for space in (tenant.instance.encode(),)
                for number in range(20)
            ]
        for opaques in (topics, groups):
            assert sum(wire.receive(opaque).code == 0 for opaque in opaques) == 3


def test_a_group_counts_for_who_made_it_and_not_for_whose_namespace_it_is_in() -> None:
    table, _ = accounts()
    table.load(
        [("42", LimitRow(groups=2)), ("7", LimitRow(groups=2))], {}, {"MQ_INST_7_a%GID_guest": "42/*", "GID_bare": "42"}
    )
    names = ["MQ_INST_7_a%GID_guest", "GID_bare", "MQ_INST_7_a%GID_own"]
    at_once(table.check_count(table.account("7"), "groups", names))
    with pytest.raises(LimitReached, match="account 42 has 2 groups"):
        at_once(table.check_count(table.account("42"), "groups", names))


def test_queues_of_topics_and_retries_count_for_their_account() -> None:
    table, account = accounts(queues=10)
    table.add_queues(account, "MQ_INST_42_abcdefgh%t", 8)
    table.add_queues(account, "%RETRY%MQ_INST_42_abcdefgh%GID_a", 2)
    with pytest.raises(LimitReached, match="account 42 has 10 queues"):
        table.add_queues(account, "MQ_INST_42_abcdefgh%u", 1)
    table.add_queues(None, "MQ_INST_42_abcdefgh%u", 1)  # the system key


def test_a_guests_queues_are_those_of_the_topics_owner() -> None:
    table, owner = accounts(queues=8)
    guest = table.account("7")
    table.add_queues(guest, "MQ_INST_42_abcdefgh%t", 8)
    assert (owner.queues, guest.queues) == (8, 0)
    with pytest.raises(LimitReached, match="the owner has queues; with 1 more allowed are 8"):
        table.add_queues(guest, "MQ_INST_42_abcdefgh%t", 1)


def test_a_topic_counts_for_its_owner_of_now() -> None:
    table, before = accounts()
    table.admit(table.account("9"), "bare", 1, 100)
    counted = before.stored_bytes
    assert counted > 0
    table.load([], {"bare": "7"}, {})
    table.admit(table.account("9"), "bare", 1, 100)
    assert (before.stored_bytes, table.account("7").stored_bytes) == (counted, counted)


def test_an_account_may_store_up_to_its_limit_and_nothing_from_there_on() -> None:
    table, account = accounts(stored_bytes=1000)
    account.stored_bytes = 999
    table.admit(account, "MQ_INST_42_a%t", 1, 100)
    account.stored_bytes = 1000
    with pytest.raises(LimitReached, match="stores 1000 bytes at this broker; allowed are 1000"):
        table.admit(account, "MQ_INST_42_a%t", 1, 100)


def test_a_connection_that_signs_with_another_key_counts_for_that_ones_account_alone() -> None:
    table, first = accounts(connections=1)
    second = table.account("7")
    connection: Any = SimpleNamespace(account=None, on_close={})
    table.connect(connection, first)
    table.connect(connection, second)
    assert (first.connections, second.connections) == (0, 1)
    table.connect(SimpleNamespace(account=None, on_close={}), first)  # type: ignore[arg-type]
    for left in connection.on_close.values():
        left()
    assert (first.connections, second.connections) == (1, 0)


def test_brokers_share_what_a_tenant_may_send_and_store() -> None:
    table, account = accounts(connections=10, messages_per_second=9, stored_bytes=100)
    table.share(2)
    assert account.limits == LimitRow(connections=10, messages_per_second=5, stored_bytes=50)
    table.share(1)
    assert account.limits.messages_per_second == 9


def test_limits_that_cannot_be_read_leave_those_of_before() -> None:
    table, account = accounts(topics=3)
    table.load_tables([b"42", b'{"topics": "many"}'], [], [])
    table.load_tables([b"42", b"["], [], [])
    assert account.limits.topics == 3


def test_a_batch_is_paid_for_message_by_message() -> None:
    table, account = accounts(messages_per_second=10)
    table.admit(account, "MQ_INST_42_a%t", 1, 100)
    table.more_messages(account, "MQ_INST_42_a%t", 31)
    with pytest.raises(LimitReached, match="10 messages a second"):
        table.admit(account, "MQ_INST_42_a%t", 1, 100)
    table.load([("42", LimitRow(messages_per_second=10))], {}, {"GID_new": "42"})
    with pytest.raises(LimitReached, match="10 messages a second"):  # a new group forgives nothing
        table.admit(account, "MQ_INST_42_a%t", 1, 100)


def test_a_message_that_left_while_the_start_is_read_is_not_counted() -> None:
    from brokercore.protocol.message import decode_stored, encode_stored
    from brokercore.protocol.properties import encode_properties
    from brokercore.server.storage.parked_bytes import ParkedBytes

    queue = Queue("SCHEDULE_TOPIC_XXXX", 0, 3, b"key", next_offset=2, max_offset=2)
    frames = [
        bytes(
            encode_stored(
                queue.topic_bytes, b"body", encode_properties({"REAL_TOPIC": "t"}), queue_id=0, queue_offset=offset,
                physical_offset=queue.base + offset,
            )
        )
        for offset in range(2)
    ]  # fmt: skip
    parked = ParkedBytes()

    class Store:
        by_number = {3: queue}

        async def read(self, _queue: Queue, first: int, count: int) -> list[tuple[int, bytes]]:
            parked.left(decode_stored(frames[0])[0])
            return list(enumerate(frames))[first : first + count]

    parked.begin([queue])
    asyncio.run(parked.read_on(Store()))
    assert parked.known
    once = parked.waiting["t"]
    parked.left(decode_stored(frames[1])[0])
    assert (once > 0, dict(parked.waiting)) == (True, {})
