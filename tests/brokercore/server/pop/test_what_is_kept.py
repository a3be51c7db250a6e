"""What a broker keeps of a group's places in queues: what says something, and no more than an account may have."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from brokercore.policy.table import LimitRow
from brokercore.protocol.codes import RequestCode as Code
from brokercore.protocol.codes import ResponseCode
from brokercore.server.rights.account import MOST_IN_FLIGHT, MOST_POSITIONS, Account
from brokercore.server.rights.limits import LimitReached, TenantLimits
from tests.brokercore.server.handlers.test_pop import acknowledge, bodies, pop
from tests.brokercore.server.wire import Wire, fresh
from tests.support.broker import BrokerProcess, broker_process, eventually

QUEUES = 1_024


@pytest.fixture
def kept(broker: BrokerProcess) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(broker.redis_url, decode_responses=True) as client:
        yield client


def fields(kept: redis.Redis, name: str, group: str) -> list[str]:
    """The fields of a hash of the broker that are of a group."""
    return sorted(field for field in map(str, kept.hkeys(f"gantry:broker-a:{name}")) if field.endswith(f"@{group}"))


def test_a_pop_that_finds_nothing_leaves_nothing_behind(wire: Wire, kept: redis.Redis) -> None:
    topic, group = wire.topic(queues=4), wire.group()
    answer, _ = pop(wire, group, topic)
    assert (answer.code, answer.ext["restNum"]) == (210, "0")
    assert pop(wire, group, topic, pollTime=100)[0].code == 210
    asked = {"consumerGroup": group, "topic": topic, "queueId": 0, "setZeroIfNotFound": "false"}
    assert wire.call(Code.QUERY_CONSUMER_OFFSET, asked).code == ResponseCode.QUERY_NOT_FOUND
    wire.publish(topic, b"first", e=2)
    assert bodies(wire, group, topic) == [b"first"]
    eventually(lambda: fields(kept, "offsets", group) == [f"2@{topic}@{group}"])
    assert fields(kept, "pop:next", group) == [f"2@{topic}@{group}"]


def test_a_group_that_begins_at_the_end_misses_nothing_that_comes_after_its_first_pop(wire: Wire) -> None:
    topic, group = wire.topic(queues=2), wire.group()
    wire.publish(topic, b"before", e=0)
    assert pop(wire, group, topic, initMode=1)[0].code == 210
    wire.publish(topic, b"after", e=0)
    wire.publish(topic, b"the first of its queue", e=1)
    assert bodies(wire, group, topic, initMode=1) == [b"after", b"the first of its queue"]


def test_the_state_of_a_queue_goes_when_it_says_no_more_than_the_offset(
    broker: BrokerProcess, wire: Wire, kept: redis.Redis
) -> None:
    topic, group = wire.topic(queues=1), wire.group()
    wire.publish(topic, b"one")
    wire.publish(topic, b"two")
    answer, (message,) = pop(wire, group, topic, maxMsgNums=1)
    assert acknowledge(wire, group, topic, answer, message) == 0
    assert fields(kept, "pop:next", group)
    eventually(lambda: not fields(kept, "pop:next", group), 30)
    assert kept.hget("gantry:broker-a:offsets", f"0@{topic}@{group}") == "1"
    broker.kill()
    broker.start()
    with Wire(broker.address) as after:
        assert bodies(after, group, topic) == [b"two"]


def test_positions_are_counted_for_the_account_of_the_group() -> None:
    table = TenantLimits()
    account, guest = Account("42", LimitRow()), table.account("43")
    table.accounts["42"] = account
    group = "MQ_INST_42_abcdefgh%GID_a"
    table.add_positions(guest, group, MOST_POSITIONS)
    assert (account.positions, guest.positions) == (MOST_POSITIONS, 0)
    with pytest.raises(LimitReached, match="account 42 keeps 200000 places of groups in queues; allowed are 200000"):
        table.add_positions(account, group, 1)
    table.add_positions(None, group, 1)  # the system key


@pytest.fixture
def own_broker() -> Iterator[BrokerProcess]:
    """A broker whose table of all offsets nobody else asks for."""
    with broker_process() as broker:
        yield broker


def test_an_account_keeps_so_many_places_of_groups_and_no_more(own_broker: BrokerProcess) -> None:
    uid, key = str(int.from_bytes(fresh().encode()[-5:])), (fresh("AK"), "secret")
    instance = f"MQ_INST_{uid}_positions"
    anything = {"Effect": "Allow", "Action": "*", "Resource": "*"}
    own_broker.allow(*key, {"tenant": uid, "boundary": [f"acs:mq:*:*:MQ_INST_{uid}_*"], "statements": [anything]})
    with Wire(own_broker.address, key) as wire:
        eventually(lambda: wire.call(Code.GET_BROKER_CLUSTER_INFO).code == 0)
        topics = [wire.topic(queues=QUEUES, name=f"{instance}%t{number}") for number in range(8)]
        first, *groups = [wire.group(f"{instance}%GID_{number}") for number in range(26)]
        for topic in topics:
            wire.ok(Code.INVOKE_BROKER_TO_RESET_OFFSET, {"topic": topic, "group": first, "timestamp": -1})
        answers = [wire.call(Code.CLONE_GROUP_OFFSET, {"srcGroup": first, "destGroup": group}) for group in groups]
        assert [answer.code for answer in answers[:23]] == [0] * 23
        assert answers[-1].code == ResponseCode.SYSTEM_BUSY
        assert f"account {uid} keeps" in str(answers[-1].remark)
        place = {"topic": topics[0], "queueId": 0}
        commit = place | {"consumerGroup": wire.group(f"{instance}%GID_new"), "commitOffset": 0}
        fill = [
            wire.call(
                Code.UPDATE_CONSUMER_OFFSET,
                {
                    "topic": topic,
                    "queueId": queue_id,
                    "consumerGroup": groups[-1],
                    "commitOffset": 0,
                },
            ).code
            for topic in topics
            for queue_id in range(QUEUES)
        ]
        assert ResponseCode.SYSTEM_BUSY in fill
        assert wire.call(Code.UPDATE_CONSUMER_OFFSET, commit).code == ResponseCode.SYSTEM_BUSY
        assert wire.call(Code.UPDATE_CONSUMER_OFFSET, commit | {"consumerGroup": first}).code == 0, "it has its place"
        wire.publish(topics[0], b"for nobody", e=0)
        assert pop(wire, str(commit["consumerGroup"]), topics[0])[0].code == ResponseCode.SYSTEM_BUSY
        assert bodies(wire, first, topics[0]) == [b"for nobody"]
        wire.ok(Code.DELETE_SUBSCRIPTIONGROUP, {"groupName": groups[0], "cleanOffset": "true"})
        eventually(lambda: wire.call(Code.UPDATE_CONSUMER_OFFSET, commit).code == 0, 20)


def test_an_account_has_so_many_messages_in_flight_and_no_more(own_broker: BrokerProcess) -> None:
    uid, key = str(int.from_bytes(fresh().encode()[-5:])), (fresh("AK"), "secret")
    instance = f"MQ_INST_{uid}_flights"
    anything = {"Effect": "Allow", "Action": "*", "Resource": "*"}
    own_broker.allow(*key, {"tenant": uid, "boundary": [f"acs:mq:*:*:MQ_INST_{uid}_*"], "statements": [anything]})
    messages, groups = 4_000, -(-MOST_IN_FLIGHT // 4_000) + 1
    with Wire(own_broker.address, key) as wire:
        eventually(lambda: wire.call(Code.GET_BROKER_CLUSTER_INFO).code == 0)
        topic = wire.topic(name=f"{instance}%flights")
        with wire.at_once():
            sent = [wire.start_publish(topic, b"%d" % number) for number in range(messages)]
        assert [wire.receive(opaque).code for opaque in sent] == [0] * messages
        names = [wire.group(f"{instance}%GID_{number}") for number in range(groups)]
        for name in names[:-1]:
            taken = sum(len(pop(wire, name, topic, maxMsgNums=32, invisibleTime=600_000)[1]) for _ in range(125))
            assert taken == messages
        refused, _ = pop(wire, names[-1], topic, maxMsgNums=32)
        assert refused.code == ResponseCode.SYSTEM_BUSY
        assert f"groups of account {uid} have popped {MOST_IN_FLIGHT} messages" in str(refused.remark)
        wire.ok(Code.DELETE_SUBSCRIPTIONGROUP, {"groupName": names[0], "cleanOffset": "true"})
        answer, found = pop(wire, names[-1], topic, maxMsgNums=32)
        assert (len(found), found[0].body) == (32, b"0"), "there is room at once"
        rest = sum(len(pop(wire, names[-1], topic, maxMsgNums=32)[1]) for _ in range(messages // 32 - 1))
        assert rest == messages - 32
        wire.publish(topic, b"one too many")
        assert pop(wire, names[-1], topic)[0].code == ResponseCode.SYSTEM_BUSY
        assert acknowledge(wire, names[-1], topic, answer, found[0]) == 0
        assert bodies(wire, names[-1], topic, maxMsgNums=32) == [b"one too many"], "as many as there is room for"
