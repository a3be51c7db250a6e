"""Every request code × everybody: who gets past the permission check. A code that is not listed fails the test."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from brokercore.protocol.codes import OwnRequestCode, ResponseCode
from brokercore.protocol.codes import RequestCode as Code
from brokercore.protocol.signature import sign
from brokercore.server.handlers import HANDLERS
from brokercore.server.rights.permissions import NEEDS
from brokercore.server.unsupported import REFUSED
from tests.brokercore.server.wire import Wire, fresh
from tests.support.broker import SYSTEM_KEY, SYSTEM_SECRET, BrokerProcess, eventually

MINE, OTHERS = "MQ_INST_5_matrixaa", "MQ_INST_6_matrixbb"
TOPIC, GROUP = f"{MINE}%orders", f"{MINE}%GID_orders"

#: Statements of each caller, by one letter; all but `other` belong to the account of the topic and the group.
CALLERS: dict[str, tuple[str, ...]] = {
    "other account's administrator": ("*",),
    "no policy": (),
    "reader": ("mq:Query*",),
    "publisher": ("mq:PUB", "mq:QueryInstance", "mq:QueryTopic"),
    "subscriber": ("mq:SUB", "mq:QueryInstance", "mq:QueryTopic", "mq:QueryGroup"),
    "full access": ("mq:*",),
    "administrator": ("*",),
    "system": (),
}
ANYBODY = frozenset(CALLERS)
SYSTEM = frozenset({"system"})
OWNERS = SYSTEM | {"full access", "administrator"}
READ_TOPIC = OWNERS | {"reader", "publisher", "subscriber"}
READ_GROUP = OWNERS | {"reader", "subscriber"}
READ_MESSAGE = READ_GROUP
SUBSCRIBE = OWNERS | {"subscriber"}
PUBLISH = OWNERS | {"publisher"}
STATS = READ_TOPIC
NAMES = {int(code): code.name for kind in (Code, OwnRequestCode) for code in kind}


@dataclass(frozen=True)
class Case:
    """One request on the topic and the group, and who is let through."""

    allowed: frozenset[str]
    ext: dict[str, Any] = field(default_factory=dict)
    body: Any = None


_BOTH = {"topic": TOPIC, "consumerGroup": GROUP, "queueId": 0}
_SEND = {"a": "PG", "b": TOPIC, "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0, "i": "", "j": 0, "k": "false"}
_PULL = _BOTH | {"queueOffset": 0, "maxMsgNums": 1, "sysFlag": 4, "subscription": "*", "commitOffset": 0}
_RECEIPT = _BOTH | {"offset": 0, "extraInfo": "0 1 1000 0 0 broker-a 0 0"}
_TOPIC_CONFIG = {
    "topic": TOPIC, "defaultTopic": "TBW102", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6,
    "topicFilterType": "SINGLE_TAG", "order": "false",
}  # fmt: skip

CASES: dict[int, Case] = {
    Code.SEND_MESSAGE: Case(PUBLISH, {"producerGroup": "PG", "topic": TOPIC, "queueId": 0, "sysFlag": 0, "flag": 0}),
    Code.SEND_MESSAGE_V2: Case(PUBLISH, _SEND),
    Code.SEND_BATCH_MESSAGE: Case(PUBLISH, _SEND | {"m": "true"}),
    Code.SEND_REPLY_MESSAGE: Case(ANYBODY, {"topic": "DefaultCluster_REPLY_TOPIC"}),
    Code.SEND_REPLY_MESSAGE_V2: Case(ANYBODY, {"b": "DefaultCluster_REPLY_TOPIC"}),
    Code.RECALL_MESSAGE: Case(PUBLISH, {"topic": TOPIC, "recallHandle": "bm9uZQ=="}),
    Code.END_TRANSACTION: Case(ANYBODY, {"commitLogOffset": 1 << 40, "commitOrRollback": 8, "producerGroup": "PG"}),
    Code.PULL_MESSAGE: Case(SUBSCRIBE, _PULL),
    Code.LITE_PULL_MESSAGE: Case(SUBSCRIBE, _PULL),
    Code.POP_MESSAGE: Case(SUBSCRIBE, _BOTH | {"invisibleTime": 1000, "pollTime": 0}),
    Code.ACK_MESSAGE: Case(SUBSCRIBE, _RECEIPT),
    Code.CHANGE_MESSAGE_INVISIBLETIME: Case(SUBSCRIBE, _RECEIPT | {"invisibleTime": 1000}),
    Code.PEEK_MESSAGE: Case(SUBSCRIBE, _BOTH),
    Code.BATCH_ACK_MESSAGE: Case(
        SUBSCRIBE,
        body={"brokerName": "broker-a", "acks": [{"c": GROUP, "t": TOPIC, "q": 0, "so": 0, "pt": 1, "b": "AQ=="}]},
    ),
    Code.GET_ALL_MESSAGE_REQUEST_MODE: Case(ANYBODY),
    Code.NOTIFICATION: Case(SUBSCRIBE, _BOTH | {"pollTime": 0}),
    Code.POLLING_INFO: Case(SUBSCRIBE, _BOTH),
    Code.SET_MESSAGE_REQUEST_MODE: Case(OWNERS, body={"consumerGroup": GROUP, "topic": TOPIC, "mode": "PULL"}),
    Code.QUERY_ASSIGNMENT: Case(READ_GROUP, body={"consumerGroup": GROUP, "topic": TOPIC, "clientId": "c"}),
    Code.QUERY_CONSUMER_OFFSET: Case(SUBSCRIBE, _BOTH),
    Code.UPDATE_CONSUMER_OFFSET: Case(SUBSCRIBE, _BOTH | {"commitOffset": 0}),
    Code.SEARCH_OFFSET_BY_TIMESTAMP: Case(READ_TOPIC, _BOTH | {"timestamp": 0}),
    Code.GET_MAX_OFFSET: Case(READ_TOPIC, _BOTH),
    Code.GET_MIN_OFFSET: Case(READ_TOPIC, _BOTH),
    Code.GET_EARLIEST_MSG_STORETIME: Case(READ_TOPIC, _BOTH),
    Code.HEART_BEAT: Case(ANYBODY, body={"clientID": "c", "consumerDataSet": [], "producerDataSet": []}),
    Code.UNREGISTER_CLIENT: Case(ANYBODY, {"clientID": "c"}),
    Code.CHECK_CLIENT_CONFIG: Case(ANYBODY, body={"clientId": "c", "group": GROUP, "subscriptionData": {}}),
    Code.GET_CONSUMER_LIST_BY_GROUP: Case(READ_GROUP, _BOTH),
    Code.CONSUMER_SEND_MSG_BACK: Case(SUBSCRIBE, {"group": GROUP, "offset": 1 << 40, "delayLevel": 1}),
    Code.LOCK_BATCH_MQ: Case(SUBSCRIBE, body={"consumerGroup": GROUP, "clientId": "c", "mqSet": []}),
    Code.UNLOCK_BATCH_MQ: Case(SUBSCRIBE, body={"consumerGroup": GROUP, "clientId": "c", "mqSet": []}),
    Code.GET_ROUTEINFO_BY_TOPIC: Case(ANYBODY, {"topic": TOPIC}),
    Code.GET_BROKER_CLUSTER_INFO: Case(ANYBODY),
    Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: Case(ANYBODY),
    Code.GET_TOPICS_BY_CLUSTER: Case(ANYBODY, {"cluster": "DefaultCluster"}),
    Code.GET_SYSTEM_TOPIC_LIST_FROM_NS: Case(ANYBODY),
    Code.PUT_KV_CONFIG: Case(OWNERS, {"namespace": "ORDER_TOPIC_CONFIG", "key": TOPIC, "value": "broker-a:1"}),
    Code.DELETE_KV_CONFIG: Case(OWNERS, {"namespace": "ORDER_TOPIC_CONFIG", "key": TOPIC}),
    Code.GET_KV_CONFIG: Case(READ_TOPIC, {"namespace": "ORDER_TOPIC_CONFIG", "key": TOPIC}),
    Code.GET_KVLIST_BY_NAMESPACE: Case(SYSTEM, {"namespace": "ORDER_TOPIC_CONFIG"}),
    Code.DELETE_TOPIC_IN_NAMESRV: Case(OWNERS, {"topic": f"{MINE}%gone"}),
    Code.UPDATE_AND_CREATE_TOPIC: Case(OWNERS, _TOPIC_CONFIG),
    Code.UPDATE_AND_CREATE_TOPIC_LIST: Case(
        OWNERS, body={"topicConfigList": [{"topicName": TOPIC, "readQueueNums": 1, "writeQueueNums": 1, "perm": 6}]}
    ),
    Code.DELETE_TOPIC_IN_BROKER: Case(OWNERS, {"topic": f"{MINE}%gone"}),
    Code.GET_ALL_TOPIC_CONFIG: Case(ANYBODY),
    Code.GET_TOPIC_CONFIG: Case(READ_TOPIC, {"topic": TOPIC}),
    Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: Case(ANYBODY),
    Code.GET_TOPIC_STATS_INFO: Case(READ_TOPIC, {"topic": TOPIC}),
    Code.QUERY_TOPIC_CONSUME_BY_WHO: Case(READ_TOPIC, {"topic": TOPIC}),
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: Case(OWNERS, body={"groupName": GROUP}),
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: Case(OWNERS, body={"groupConfigList": [{"groupName": GROUP}]}),
    Code.DELETE_SUBSCRIPTIONGROUP: Case(OWNERS, {"groupName": f"{MINE}%GID_gone"}),
    Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: Case(ANYBODY),
    Code.GET_SUBSCRIPTIONGROUP_CONFIG: Case(READ_GROUP, {"group": GROUP}),
    Code.UPDATE_AND_GET_GROUP_FORBIDDEN: Case(OWNERS, {"group": GROUP, "topic": TOPIC}),
    Code.GET_CONSUME_STATS: Case(READ_GROUP, _BOTH),
    Code.GET_BROKER_CONSUME_STATS: Case(SYSTEM, {"isOrder": "false"}),
    OwnRequestCode.GET_ALL_TOPIC_OFFSETS: Case(SYSTEM),
    Code.GET_CONSUMER_CONNECTION_LIST: Case(READ_GROUP, _BOTH),
    Code.GET_PRODUCER_CONNECTION_LIST: Case(READ_TOPIC | READ_GROUP, {"producerGroup": GROUP}),
    Code.GET_ALL_PRODUCER_INFO: Case(SYSTEM),
    Code.GET_CONSUMER_RUNNING_INFO: Case(READ_GROUP, _BOTH | {"clientId": "c", "jstackEnable": "false"}),
    Code.CONSUME_MESSAGE_DIRECTLY: Case(SUBSCRIBE, _BOTH | {"clientId": "c", "msgId": "0" * 32}),
    Code.GET_CONSUMER_STATUS_FROM_CLIENT: Case(READ_GROUP, {"topic": TOPIC, "group": GROUP}),
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: Case(READ_GROUP, {"topic": TOPIC, "group": GROUP}),
    Code.INVOKE_BROKER_TO_RESET_OFFSET: Case(OWNERS, {"topic": TOPIC, "group": GROUP, "timestamp": 0}),
    Code.CLONE_GROUP_OFFSET: Case(OWNERS, {"srcGroup": GROUP, "destGroup": GROUP, "topic": TOPIC}),
    Code.QUERY_TOPICS_BY_CONSUMER: Case(READ_GROUP, {"group": GROUP}),
    Code.QUERY_SUBSCRIPTION_BY_CONSUMER: Case(READ_GROUP, {"group": GROUP, "topic": TOPIC}),
    Code.QUERY_CONSUME_TIME_SPAN: Case(READ_GROUP, {"group": GROUP, "topic": TOPIC}),
    Code.GET_ALL_CONSUMER_OFFSET: Case(ANYBODY),
    Code.GET_ALL_DELAY_OFFSET: Case(SYSTEM),
    Code.QUERY_MESSAGE: Case(
        READ_MESSAGE, {"topic": TOPIC, "key": "k", "maxNum": 1, "beginTimestamp": 0, "endTimestamp": 1 << 60}
    ),
    Code.VIEW_MESSAGE_BY_ID: Case(READ_MESSAGE, {"topic": TOPIC, "offset": 1 << 40}),
    Code.QUERY_CONSUME_QUEUE: Case(READ_MESSAGE, _BOTH | {"index": 0, "count": 1}),
    Code.GET_BROKER_RUNTIME_INFO: Case(SYSTEM),
    Code.VIEW_BROKER_STATS_DATA: Case(STATS, {"statsName": "TOPIC_PUT_NUMS", "statsKey": TOPIC}),
    Code.GET_BROKER_CONFIG: Case(SYSTEM),
    Code.UPDATE_BROKER_CONFIG: Case(SYSTEM),
    Code.GET_NAMESRV_CONFIG: Case(SYSTEM),
    Code.UPDATE_NAMESRV_CONFIG: Case(SYSTEM),
    Code.WIPE_WRITE_PERM_OF_BROKER: Case(SYSTEM, {"brokerName": "another"}),
    Code.ADD_WRITE_PERM_OF_BROKER: Case(SYSTEM, {"brokerName": "another"}),
    Code.GET_BROKER_HA_STATUS: Case(SYSTEM),
    Code.CLEAN_EXPIRED_CONSUMEQUEUE: Case(SYSTEM),
    Code.CLEAN_UNUSED_TOPIC: Case(SYSTEM),
    Code.DELETE_EXPIRED_COMMITLOG: Case(SYSTEM),
    Code.GET_UNIT_TOPIC_LIST: Case(ANYBODY),
    Code.GET_HAS_UNIT_SUB_TOPIC_LIST: Case(ANYBODY),
    Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: Case(ANYBODY),
    **{code: Case(ANYBODY) for code in REFUSED},
}


@pytest.fixture(scope="module")
def callers(broker: BrokerProcess) -> Iterator[dict[str, Wire]]:
    """A connection of everybody, and the topic and the group that are asked about."""
    connections: dict[str, Wire] = {}
    for name, actions in CALLERS.items():
        if name == "system":
            connections[name] = Wire(broker.address)
            continue
        key = fresh("AK"), "secret of " + fresh()
        instance = OTHERS if name.startswith("other") else MINE
        statements = [{"Effect": "Allow", "Action": list(actions), "Resource": "*"}] if actions else []
        broker.allow(*key, {"boundary": [f"acs:mq:*:*:{instance}%*"], "statements": statements})
        connections[name] = Wire(broker.address, key)
    for connection in connections.values():
        eventually(lambda c=connection: c.call(Code.GET_BROKER_CLUSTER_INFO).code == 0)
    connections["system"].topic(name=TOPIC)
    connections["system"].group(GROUP)
    yield connections
    for connection in connections.values():
        connection.socket.close()


def test_every_request_code_is_in_the_matrix() -> None:
    assert set(CASES) == set(NEEDS) == set(HANDLERS)


@pytest.mark.parametrize("code", CASES, ids=lambda code: NAMES[code])
def test_who_gets_past_the_permission_check(broker: BrokerProcess, callers: dict[str, Wire], code: int) -> None:
    case = CASES[code]
    body = json.dumps(case.body).encode() if case.body is not None else b""
    passed = {
        name
        for name, connection in callers.items()
        if connection.call(code, case.ext, body).code != ResponseCode.NO_PERMISSION
    }
    assert passed == case.allowed
    with Wire(broker.address, None) as anonymous:
        assert anonymous.call(code, case.ext, body).code == ResponseCode.NO_PERMISSION


@pytest.fixture(scope="module")
def impostors(broker: BrokerProcess) -> Iterator[dict[str, tuple[Wire, dict[str, str], str]]]:
    """Who has a key that could do everything, but not all that belongs to it; and what they are told."""
    token, secret = "token of " + fresh(), "secret of " + fresh()
    statements = [{"Effect": "Allow", "Action": "*", "Resource": "*"}]
    row = {"boundary": ["*"], "statements": statements}
    good, temporary, expired = fresh("AK"), fresh("STS"), fresh("STS")
    broker.allow(good, secret, row)
    broker.allow(temporary, secret, row | {"token": token})
    broker.allow(expired, secret, row | {"token": token, "expires_ms": 1_000})
    known = {"SecurityToken": token}
    found = {
        "wrong signature": (
            Wire(broker.address, (good, "another secret")),
            {},
            f"AccessKey {good} is unknown or disabled, or the signature",
        ),
        "unknown key": (Wire(broker.address, ("AK-nobody", secret)), {}, "AK-nobody is unknown or disabled, or the"),
        "expired temporary key": (Wire(broker.address, (expired, secret)), known, "has expired"),
        "temporary key without its token": (Wire(broker.address, (temporary, secret)), {}, "missing or wrong"),
        "temporary key with another token": (
            Wire(broker.address, (temporary, secret)),
            {"SecurityToken": token + "x"},
            "missing or wrong",
        ),
    }
    with Wire(broker.address, (expired, secret)) as wire:
        eventually(lambda: "has expired" in str(wire.call(Code.GET_BROKER_CLUSTER_INFO, known).remark))
    yield found
    for wire, _, _ in found.values():
        wire.socket.close()


IMPOSTORS = (
    "wrong signature", "unknown key", "expired temporary key", "temporary key without its token",
    "temporary key with another token",
)  # fmt: skip


@pytest.mark.parametrize("name", IMPOSTORS)
def test_no_request_passes_without_all_that_belongs_to_a_key(
    impostors: dict[str, tuple[Wire, dict[str, str], str]], name: str
) -> None:
    wire, more, told = impostors[name]
    for code, case in CASES.items():
        body = json.dumps(case.body).encode() if case.body is not None else b""
        answer = wire.call(code, case.ext | more, body)
        assert (answer.code, told in str(answer.remark)) == (ResponseCode.NO_PERMISSION, True), NAMES[code]


def test_no_request_passes_that_was_changed_after_it_was_signed(broker: BrokerProcess) -> None:
    with Wire(broker.address, None) as wire:
        for code, case in CASES.items():
            body = json.dumps(case.body).encode() if case.body is not None else b""
            fields = {name: str(value) for name, value in case.ext.items()} | {"AccessKey": SYSTEM_KEY}
            signature = sign(fields, body, SYSTEM_SECRET)
            for changed, sent in (({"topic": "another"}, body), ({}, body + b" ")):
                answer = wire.call(code, fields | {"Signature": signature} | changed, sent)
                assert answer.code == ResponseCode.NO_PERMISSION, NAMES[code]
