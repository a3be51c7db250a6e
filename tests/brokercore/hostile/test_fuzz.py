"""Whatever is sent: the connection is answered or closed, nothing fails unexpectedly, others are served."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokercore.protocol.codes import RequestCode as Code
from brokercore.server.handlers import HANDLERS
from tests.brokercore.hostile import attack
from tests.brokercore.hostile.attack import GROUP, TENANT, TOPIC, bounded, frame, raw
from tests.brokercore.server.wire import Wire
from tests.support.broker import BrokerProcess

#: They wait for a client's answer, which takes 10 s when there is none.
_ASKS_CLIENTS = {
    Code.GET_CONSUMER_RUNNING_INFO, Code.CONSUME_MESSAGE_DIRECTLY, Code.GET_CONSUMER_STATUS_FROM_CLIENT,
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
}  # fmt: skip
_DELETES = {Code.DELETE_TOPIC_IN_BROKER, Code.DELETE_SUBSCRIPTIONGROUP, Code.DELETE_TOPIC_IN_NAMESRV}
CODES = sorted(set(HANDLERS) - _ASKS_CLIENTS - _DELETES)
_SENDS = (Code.SEND_MESSAGE, Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE, Code.SEND_REPLY_MESSAGE_V2)


@pytest.fixture(scope="module", autouse=True)
def scene(victim: BrokerProcess) -> None:
    """A topic of every kind of message and a group, so that requests get further than a name."""
    with Wire(victim.address) as wire:
        wire.topic(2, "MIXED", name=TOPIC)
        wire.group(GROUP)
        for number in range(5):
            wire.publish(TOPIC, b"message %d" % number)


@pytest.fixture(scope="module")
def tenant(victim: BrokerProcess, scene: None) -> Iterator[Wire]:
    with Wire(victim.address, TENANT) as wire:
        yield wire


def say(wire: Wire, code: int, ext: dict[str, str], body: bytes, flag: int = 0) -> None:
    """Send one request and hear that the broker goes on with the next one of the same connection."""
    wire.send(code, ext, body, flag)
    assert wire.call(Code.GET_BROKER_CLUSTER_INFO).code == 0


@settings(bounded, max_examples=300)
@given(st.sampled_from(CODES), attack.fields, attack.bodies, st.sampled_from([0, 2]))
def test_requests_of_a_tenant(tenant: Wire, code: int, ext: dict[str, str], body: bytes, flag: int) -> None:
    say(tenant, code, ext, body, flag)


@settings(bounded, max_examples=200)
@given(st.sampled_from(CODES), attack.fields, attack.bodies)
def test_requests_of_the_system(bystander: Wire, code: int, ext: dict[str, str], body: bytes) -> None:
    say(bystander, code, {"topic": TOPIC, "consumerGroup": GROUP, "group": GROUP} | ext, body)


_SEND_FIELDS = {
    "a": "PG",
    "b": TOPIC,
    "c": "TBW102",
    "d": "4",
    "e": "0",
    "f": "0",
    "g": "1",
    "h": "0",
    "i": "",
    "j": "0",
}


@settings(bounded, max_examples=250)
@given(
    st.sampled_from(_SENDS),
    st.dictionaries(st.sampled_from(list(_SEND_FIELDS)), attack.values, max_size=2),
    attack.properties,
    st.binary(min_size=1, max_size=40),
)
def test_messages_with_odd_fields_and_properties(
    tenant: Wire, code: int, odd: dict[str, str], properties: str, body: bytes
) -> None:
    say(tenant, code, _SEND_FIELDS | {"i": properties} | odd | {"topic": TOPIC}, body)


_MESSAGE = st.tuples(
    st.integers(-(2**31), 2**31 - 1),
    st.binary(max_size=20),
    st.one_of(attack.properties.map(str.encode), st.binary(max_size=20)),
)


@settings(bounded, max_examples=100)
@given(st.lists(_MESSAGE, max_size=4), st.integers(0, 10), st.booleans())
def test_batches(tenant: Wire, messages: list[tuple[int, bytes, bytes]], cut: int, shuffle: bool) -> None:
    body = attack.batch_body(*messages, cut=cut)
    body = body[4:] + body[:4] if shuffle else body
    say(tenant, Code.SEND_BATCH_MESSAGE, _SEND_FIELDS | {"m": "true"}, body)


@settings(bounded, max_examples=150)
@given(attack.objects)
def test_heartbeats_and_what_others_are_shown_of_them(tenant: Wire, beat: dict[str, object]) -> None:
    consumer = {"groupName": GROUP, "subscriptionDataSet": [{"topic": TOPIC} | beat], "consumeType": beat.get("topic")}
    body = {"clientID": "c", "consumerDataSet": [consumer, beat], "producerDataSet": [beat]}
    tenant.send(Code.HEART_BEAT, body=json.dumps(body).encode())
    tenant.send(Code.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": GROUP})
    say(tenant, Code.QUERY_SUBSCRIPTION_BY_CONSUMER, {"group": GROUP, "topic": TOPIC}, b"")


@settings(bounded, max_examples=40)
@given(st.sampled_from(sorted(_DELETES)), attack.fields, attack.odd_texts)
def test_deletions_of_what_is_not_there(bystander: Wire, code: int, ext: dict[str, str], name: str) -> None:
    say(bystander, code, ext | dict.fromkeys(("topic", "group", "groupName", "consumerGroup"), f"{name}!"), b"")


def test_what_was_stored_of_all_that_can_be_read_back(victim: BrokerProcess) -> None:
    with Wire(victim.address) as wire:
        wire.topic(2, "MIXED", name=TOPIC)
        wire.group(GROUP)
        wire.call(Code.UPDATE_AND_GET_GROUP_FORBIDDEN, {"group": GROUP, "topic": TOPIC, "readable": "true"})
        for queue_id in range(2):
            end = int(wire.ok(Code.GET_MAX_OFFSET, {"topic": TOPIC, "queueId": queue_id}).ext["offset"])
            offset = 0
            while offset < end:
                answer = wire.pull(GROUP, TOPIC, offset, queueId=queue_id)
                assert answer.code in (0, 20, 21), answer.remark
                offset = int(answer.ext["nextBeginOffset"])


_HEADER = b'{"code":%d,"opaque":%d,"flag":%d,"version":%d}'
_BYTES = st.one_of(
    st.binary(max_size=200),
    st.binary(max_size=60).map(frame),
    st.binary(max_size=60).map(lambda header: frame(header, kind=1)),
    st.tuples(attack.numbers, attack.numbers, attack.numbers, attack.numbers).map(lambda four: frame(_HEADER % four)),
    attack.json_values.map(
        lambda value: frame(json.dumps({"code": 34, "opaque": 1, "flag": 0, "extFields": value}).encode())
    ),
    st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**24 - 1)).map(
        lambda sizes: frame(b"{}", length=sizes[0], header_length=sizes[1])
    ),
    attack.fields.map(lambda ext: frame(json.dumps({"code": 11, "flag": 1, "opaque": 7, "extFields": ext}).encode())),
)


@settings(bounded, max_examples=200)
@given(st.lists(_BYTES, min_size=1, max_size=3))
def test_bytes_of_a_stranger(victim: BrokerProcess, said: list[bytes]) -> None:
    with raw(victim.address) as connection:
        try:
            for data in said:
                connection.sendall(data)
        except ConnectionError:
            return  # closed at what came first


@settings(bounded, max_examples=40)
@given(st.binary(max_size=300), st.booleans())
def test_requests_for_figures(victim: BrokerProcess, said: bytes, whole: bool) -> None:
    with raw(f"127.0.0.1:{attack.metrics_port(victim)}") as connection:
        connection.sendall((b"GET /" + said + b" HTTP/1.1\r\n\r\n") if whole else said)
