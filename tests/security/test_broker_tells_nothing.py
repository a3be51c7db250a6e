"""What the broker answers does not depend on what the caller may not know, and names that mean something are kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from brokercore.policy.table import LimitRow
from brokercore.protocol.codes import RequestCode as Code
from brokercore.protocol.codes import ResponseCode
from brokercore.protocol.command import Command
from brokercore.server.delivery.replies import MOST, AwaitedReplies
from brokercore.server.rights.account import Account
from tests.brokercore.server.wire import Wire, fresh, properties
from tests.support.broker import BrokerProcess, eventually

OWNER, STRANGER = "81", "82"
MINE = f"MQ_INST_{STRANGER}_tellsaaa"


@pytest.fixture(scope="module")
def stranger(broker: BrokerProcess) -> Iterator[Wire]:
    """A key of another account, which may do everything in its own."""
    row = {
        "tenant": STRANGER,
        "boundary": [f"acs:mq:*:*:MQ_INST_{STRANGER}_*"],
        "statements": [{"Effect": "Allow", "Action": ["*"], "Resource": "*"}],
    }
    key = fresh("LTAI"), "secret"
    broker.allow(*key, row)
    with Wire(broker.address, key) as wire:
        eventually(lambda: wire.call(Code.GET_BROKER_CLUSTER_INFO).code == 0)
        yield wire


@pytest.fixture(scope="module")
def theirs(broker: BrokerProcess) -> str:
    """A topic of the other account, with a message and a group that has read it."""
    with Wire(broker.address) as system:
        topic = system.topic(name=f"MQ_INST_{OWNER}_tellsbbb%{fresh()}")
        assert system.publish(topic, b"secret").code == 0
        return topic


@pytest.fixture(scope="module")
def group(stranger: Wire) -> str:
    return stranger.group(f"{MINE}%{fresh('GID')}")


def asked(group: str, topic: str) -> dict[str, tuple[int, dict[str, Any], bytes]]:
    """Requests about a group of the caller's own, or about nothing, that name a topic."""
    at = {"consumerGroup": group, "group": group, "topic": topic, "queueId": 0}
    named = json.dumps({"consumerGroup": group, "topic": topic, "mode": "POP", "clientId": "c"}).encode()
    return {
        "route": (Code.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}, b""),
        "consume stats": (Code.GET_CONSUME_STATS, {"consumerGroup": group, "topic": topic}, b""),
        "consume stats of a list": (Code.GET_CONSUME_STATS, {"consumerGroup": group, "topicList": topic}, b""),
        "time span": (Code.QUERY_CONSUME_TIME_SPAN, at, b""),
        "offset": (Code.QUERY_CONSUMER_OFFSET, at, b""),
        "commit": (Code.UPDATE_CONSUMER_OFFSET, at | {"commitOffset": 1}, b""),
        "reset": (Code.INVOKE_BROKER_TO_RESET_OFFSET, at | {"timestamp": 0, "isForce": "true"}, b""),
        "clone": (Code.CLONE_GROUP_OFFSET, {"srcGroup": group, "destGroup": group, "topic": topic}, b""),
        "forbid": (Code.UPDATE_AND_GET_GROUP_FORBIDDEN, at | {"readable": "false"}, b""),
        "mode": (Code.SET_MESSAGE_REQUEST_MODE, {}, named),
        "assignment": (Code.QUERY_ASSIGNMENT, {}, named),
        "pull": (Code.PULL_MESSAGE, at | {"queueOffset": 0, "sysFlag": 4, "subscription": "*"}, b""),
        "offsets": (Code.GET_MAX_OFFSET, at, b""),
        "topic": (Code.GET_TOPIC_CONFIG, at, b""),
        "delete": (Code.DELETE_TOPIC_IN_BROKER, at, b""),
    }


@pytest.mark.parametrize("request_of", asked("", ""))
def test_a_foreign_topic_and_one_that_does_not_exist_are_answered_alike(
    stranger: Wire, theirs: str, group: str, request_of: str
) -> None:
    nothing = theirs[:-1] + ("x" if theirs[-1] != "x" else "y")
    answers = []
    for topic in (theirs, nothing):
        answer = stranger.call(*asked(group, topic)[request_of])
        answers.append((answer.code, str(answer.remark).replace(topic, "…"), answer.ext, answer.body))
    assert answers[0] == answers[1]
    assert answers[0][0] != ResponseCode.SUCCESS


def test_a_message_that_is_named_by_its_place_alone_is_not_there(broker: BrokerProcess, stranger: Wire) -> None:
    with Wire(broker.address) as system:
        name = system.topic(name=f"MQ_INST_{OWNER}_tellsbbb%{fresh()}", message_type="MIXED")
        sent = system.publish(name, b"secret")
        half = system.publish(name, b"secret", properties(TRAN_MSG="true", PGROUP="PG"), f="4")
    stored, prepared = (int(answer.ext["msgId"][16:], 16) for answer in (sent, half))
    own = stranger.group(f"{MINE}%{fresh('GID')}")
    for place, code, ext in (
        (stored, Code.VIEW_MESSAGE_BY_ID, {}),
        (stored, Code.CONSUMER_SEND_MSG_BACK, {"group": own, "delayLevel": 1}),
        (
            prepared,
            Code.END_TRANSACTION,
            {"producerGroup": "PG", "commitOrRollback": 8, "tranStateTableOffset": half.ext["queueOffset"]},
        ),
    ):
        answers = []
        for offset in (place, place + (1 << 30)):
            answer = stranger.call(code, ext | {"offset": offset, "commitLogOffset": offset})
            answers.append((answer.code, str(answer.remark).replace(str(offset), "…")))
        assert answers[0] == answers[1]
        assert answers[0][0] != 0


def test_a_guest_of_a_full_topic_is_not_told_whose_it_is(broker: BrokerProcess) -> None:
    with Wire(broker.address) as system:
        topic = system.topic(name=f"MQ_INST_{OWNER}_tellsbbb%{fresh()}")
    resource = f"acs:mq:*:*:{topic}"
    grant = {"Effect": "Allow", "Action": ["mq:PUB"], "Resource": [resource]}
    key = fresh("LTAI"), "secret"
    broker.allow(*key, {"tenant": STRANGER, "boundary": [], "statements": [], "grants": [grant]})
    broker.limit(OWNER, stored_bytes=1)
    with Wire(broker.address, key) as guest:
        eventually(lambda: guest.publish(topic).code == ResponseCode.SYSTEM_BUSY)
        remark = str(guest.publish(topic).remark)
    broker.limit(OWNER, stored_bytes=0)
    assert "there is no room for further messages of this topic" in remark
    assert f"account {OWNER}" not in remark


OF_THE_BROKER = [
    "TBW102", "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "rmq_sys_wheel_timer",
]  # fmt: skip
OF_ITS_OPERATORS = [
    "DefaultCluster", "broker-a", "broker-f", "DefaultCluster_REPLY_TOPIC", "DefaultCluster_broker-a_REPLY_TOPIC",
    "MQ_INST_7_abcdefgh", "MQ_INST_7_abcdefgh%", "MQ_INST_7_abcdefgh%a%b", f"MQ_INST_{STRANGER}_x",
]  # fmt: skip


@pytest.fixture(scope="module")
def unbounded(broker: BrokerProcess) -> Iterator[Wire]:
    """A key of an account whose names nothing bounds: what it may not make, no account may."""
    row = {
        "tenant": STRANGER,
        "boundary": ["acs:mq:*:*:*"],
        "statements": [{"Effect": "Allow", "Action": ["*"], "Resource": "*"}],
    }
    key = fresh("LTAI"), "secret"
    broker.allow(*key, row)
    with Wire(broker.address, key) as wire:
        eventually(lambda: wire.call(Code.GET_BROKER_CLUSTER_INFO).code == 0)
        yield wire


def create(wire: Wire, name: str) -> Command:
    ext = {
        "topic": name, "defaultTopic": "TBW102", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6,
        "topicFilterType": "SINGLE_TAG", "order": "false",
    }  # fmt: skip
    return wire.call(Code.UPDATE_AND_CREATE_TOPIC, ext)


@pytest.mark.parametrize("name", OF_THE_BROKER + OF_ITS_OPERATORS)
def test_names_that_mean_something_are_no_topics_of_an_account(unbounded: Wire, name: str) -> None:
    assert create(unbounded, name).code == ResponseCode.INVALID_PARAMETER


@pytest.mark.parametrize("name", OF_THE_BROKER)
def test_names_of_the_brokers_own_topics_are_not_even_for_operators(broker: BrokerProcess, name: str) -> None:
    with Wire(broker.address) as system:
        assert create(system, name).code == ResponseCode.INVALID_PARAMETER


def test_operators_make_the_topics_that_tools_expect_of_a_broker_and_a_cluster(broker: BrokerProcess) -> None:
    with Wire(broker.address) as system:
        for name in ("DefaultCluster", "broker-a"):
            assert create(system, name).code == 0


class Peer(SimpleNamespace):
    """A connection of an account, as far as the table of awaited replies looks at it."""

    is_open = True


def request_of(number: int, client: str = "client") -> dict[str, str]:
    return {"CORRELATION_ID": str(number), "REPLY_TO_CLIENT": client, "TTL": "60000"}


def test_a_flood_of_requests_forgets_none_of_another_account() -> None:
    table = AwaitedReplies()
    victim = cast(Any, Peer(account=Account(OWNER, LimitRow())))
    attacker = cast(Any, Peer(account=Account(STRANGER, LimitRow())))
    table.expect(request_of(1, "victim"), "orders", victim)
    for number in range(130_000):
        table.expect(request_of(number), "mine", attacker)
    found = table.find(request_of(1, "victim"))
    assert found is not None
    assert found.connection is victim
    assert table.find(request_of(130_000 - MOST)) is not None, "an account has its share"
    assert table.find(request_of(130_000 - MOST - 1)) is None, "and no more"


def test_nobody_takes_over_a_request_that_waits() -> None:
    table = AwaitedReplies()
    victim = cast(Any, Peer(account=Account(OWNER, LimitRow())))
    attacker = cast(Any, Peer(account=Account(STRANGER, LimitRow())))
    table.expect(request_of(1), "orders", victim)
    table.expect(request_of(1), "mine", attacker)
    found = table.find(request_of(1))
    assert found is not None
    assert found.topic == "orders"
    table.done(request_of(1))
    table.expect(request_of(1), "mine", attacker)
    assert table.find(request_of(1)) is not None
