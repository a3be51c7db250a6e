"""Peers that are slow, silent, greedy or many: each is bounded, and others are served."""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from brokercore.protocol.codes import RequestCode as Code
from brokercore.protocol.command import Command
from brokercore.server.connections import gate
from tests.brokercore.hostile.attack import GROUP, TENANT, TOPIC, frame, is_closed, raw
from tests.brokercore.server.wire import Wire, properties
from tests.support.broker import BrokerProcess, eventually

MEGABYTE = 1 << 20


@pytest.fixture(scope="module", autouse=True)
def scene(victim: BrokerProcess) -> None:
    with Wire(victim.address) as wire:
        wire.topic(name=TOPIC)
        wire.group(GROUP)


@pytest.fixture(scope="module", autouse=True)
def slow_peers(victim: BrokerProcess) -> Iterator[dict[str, socket.socket]]:
    """They are there from the start, so that their time passes while the other tests run."""
    with ExitStack() as stack:
        peers = {name: stack.enter_context(raw(victim.address)) for name in ("silent", "one byte", "TLS")}
        peers["one byte"].sendall(b"\x00")
        peers["TLS"].sendall(b"\x16\x03\x01")
        signed = stack.enter_context(Wire(victim.address))
        assert signed.call(Code.GET_BROKER_CLUSTER_INFO).code == 0
        signed.socket.sendall(b"\x00\x00\x10\x00half of a frame")
        yield peers | {"half of a frame": signed.socket}


@pytest.fixture
def stranger(victim: BrokerProcess) -> Iterator[socket.socket]:
    with raw(victim.address) as connection:
        yield connection


def resident(process: BrokerProcess) -> int:
    """Bytes of memory that the broker has."""
    pages = Path(f"/proc/{process.pid}/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * 4096


@pytest.mark.parametrize(
    "said",
    [
        struct.pack(">I", 0x7FFFFFFF),
        struct.pack(">I", 0xFFFFFFFF),
        struct.pack(">I", gate.STRANGER_FRAME + 1),
        struct.pack(">I", 3),
        frame(b"{}", header_length=1000),
        frame(b"{}", kind=7),
        frame(b"[" * 10_000),
        frame(b'{"code":34,"opaque":1,"flag":0,"version":1,"extFields":' + b'{"a":' * 5000),
        frame(b'{"extFields":{"a":"\xff\xfe"}}'),
        frame(b'{"code":"x"}'),
        frame(b'{"code":99999999999}'),
        frame(b"x" * 40, kind=1),
        frame(b'{"a":"' + b"b" * (300 << 10) + b'"}'),
    ],
    ids=lambda said: said[:12].hex(),
)
def test_what_is_no_command_closes_the_connection(stranger: socket.socket, said: bytes) -> None:
    stranger.sendall(said)
    assert is_closed(stranger, 10)


def test_strangers_hold_a_bounded_amount_and_the_slowest_is_turned_out(victim: BrokerProcess, bystander: Wire) -> None:
    before, part = resident(victim), bytes(4 * MEGABYTE)
    with ExitStack() as stack:
        greedy = [stack.enter_context(raw(victim.address)) for _ in range(40)]
        for connection in greedy:
            connection.sendall(struct.pack(">I", gate.STRANGER_FRAME) + part)
        assert is_closed(greedy[0], 10)
        assert not is_closed(greedy[-1], 0.1)
        assert resident(victim) - before < 3 * gate.STRANGERS_HOLD
        # A client whose first request is as large as a message can be is still taken
        with Wire(victim.address) as client:
            assert client.publish(TOPIC, bytes(4 * MEGABYTE)).code == 0
    assert bystander.call(Code.GET_BROKER_CLUSTER_INFO).code == 0


def test_a_header_of_millions_of_keys_is_not_read(stranger: socket.socket) -> None:
    header = b'{"extFields":{' + b",".join(b'"%d":""' % number for number in range(300_000)) + b"}}"
    stranger.sendall(frame(header))
    assert is_closed(stranger, 10)


def test_a_request_of_too_many_fields_is_refused(victim: BrokerProcess) -> None:
    with Wire(victim.address, TENANT) as wire:
        answer = wire.call(Code.GET_BROKER_CLUSTER_INFO, {f"field{number}": "" for number in range(200)})
        assert (answer.code, "header fields" in (answer.remark or "")) == (16, True)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b'{{"a":1}:' + b"1" * (20 << 10) + b"}", "is no standard JSON"),
        (b"[" * (1 << 20), "is no standard JSON"),
        (b'{"a":"' + b"b" * (5 * MEGABYTE) + b'"}', "allowed are"),
    ],
)
def test_a_body_that_costs_much_to_read_is_refused(victim: BrokerProcess, body: bytes, says: str) -> None:
    with Wire(victim.address, TENANT) as wire:
        wire.ok(Code.GET_BROKER_CLUSTER_INFO)
        for code in (Code.HEART_BEAT, Code.LOCK_BATCH_MQ, Code.UPDATE_AND_CREATE_TOPIC_LIST):
            answer = wire.call(code, body=body)
            assert (answer.code, says in (answer.remark or "")) == (1, True)


def test_a_client_may_not_be_in_thousands_of_groups(victim: BrokerProcess) -> None:
    groups = [{"groupName": f"GID_{number}"} for number in range(5000)]
    with Wire(victim.address, TENANT) as wire:
        for member in ("producerDataSet", "consumerDataSet"):
            answer = wire.call(Code.HEART_BEAT, body=json.dumps({"clientID": "c", member: groups}).encode())
            assert (answer.code, "allowed are 1000" in (answer.remark or "")) == (1, True)
        many = {"topicConfigList": [{"topicName": f"MQ_INST_1_hostile1%t{number}"} for number in range(20_000)]}
        assert wire.call(Code.UPDATE_AND_CREATE_TOPIC_LIST, body=json.dumps(many).encode()).code == 29


def test_answers_nobody_waits_for_and_used_numbers_do_no_harm(victim: BrokerProcess) -> None:
    with Wire(victim.address, TENANT) as wire:
        for opaque in (0, 1, 2**31 - 1, -1):
            wire.socket.sendall(Command(0, opaque, 1, body=b"nobody asked").encode())
        first = wire.send(Code.GET_BROKER_CLUSTER_INFO)
        wire._opaque -= 1
        assert wire.send(Code.GET_BROKER_CLUSTER_INFO) == first
        assert [wire.receive(first).code, wire.receive(first).code] == [0, 0]


def test_a_client_that_does_not_read_is_not_read_either(victim: BrokerProcess, bystander: Wire) -> None:
    bystander.topic(name="unread")
    bystander.group("GID_unread")
    for _ in range(8):
        bystander.publish("unread", bytes(MEGABYTE // 4))
    before = resident(victim)
    with Wire(victim.address) as silent:
        silent.socket.settimeout(1)
        sent = 0
        try:
            while sent < 20_000:  # each of them asks for a quarter of a megabyte
                silent.start_pull("GID_unread", "unread", sent % 8)
                sent += 1
        except TimeoutError:
            pass
        assert sent < 20_000, "the broker reads requests whose answers nobody takes"
        assert resident(victim) - before < 150 * MEGABYTE
        assert bystander.call(Code.GET_BROKER_CLUSTER_INFO).code == 0


def test_waiting_pulls_of_a_client_that_does_not_read_are_answered_later(
    victim: BrokerProcess, bystander: Wire
) -> None:
    bystander.topic(name="woken")
    bystander.group("GID_woken")
    with Wire(victim.address) as deaf:
        with deaf.at_once():
            for _ in range(400):  # a message of a megabyte wakes all of them
                last = deaf.start_pull("GID_woken", "woken", 0, sysFlag=6, suspendTimeoutMillis=60_000)
        eventually(lambda: _waiting(bystander) >= 400)
        before = resident(victim)
        assert bystander.publish("woken", bytes(MEGABYTE)).code == 0
        assert bystander.pull("GID_woken", "woken").code == 0
        assert resident(victim) - before < 100 * MEGABYTE
        assert deaf.receive(last, seconds=60).code == 0  # who reads again gets them all


def _waiting(bystander: Wire) -> int:
    return int(json.loads(bystander.ok(Code.GET_BROKER_RUNTIME_INFO).body)["table"]["gantryWaitingPulls"])


def test_a_flood_of_one_way_requests_does_not_starve_others(victim: BrokerProcess, bystander: Wire) -> None:
    ext = {
        "a": "PG",
        "b": TOPIC,
        "c": "TBW102",
        "d": "4",
        "e": "0",
        "f": "0",
        "g": "1",
        "h": "0",
        "j": "0",
        "k": "false",
    }
    with Wire(victim.address, TENANT) as flood:
        for number in range(3000):
            flood.send(Code.SEND_MESSAGE_V2, ext | {"i": properties(UNIQ_KEY=f"flood{number}")}, b"x" * 200, flag=2)
            if not number % 500:
                assert bystander.call(Code.GET_BROKER_CLUSTER_INFO).code == 0
        assert flood.call(Code.GET_BROKER_CLUSTER_INFO).code == 0
    eventually(lambda: int(bystander.ok(Code.GET_MAX_OFFSET, {"topic": TOPIC, "queueId": 0}).ext["offset"]) >= 3000)


def test_waiting_pulls_of_one_connection_are_bounded(victim: BrokerProcess) -> None:
    with Wire(victim.address) as wire:
        wire.topic(name="patient")
        wire.group("GID_patient")
        last = 0
        for _ in range(10_050):
            last = wire.start_pull("GID_patient", "patient", 0, sysFlag=6, suspendTimeoutMillis=60_000)
        assert wire.receive(last).code == 19


def test_slow_and_silent_peers_were_closed_in_time(slow_peers: dict[str, socket.socket], bystander: Wire) -> None:
    deadline = time.monotonic() + gate.STRANGER_SECONDS + gate.FRAME_SECONDS
    for name, connection in slow_peers.items():
        assert is_closed(connection, max(0.1, deadline - time.monotonic())), name
    assert bystander.call(Code.GET_BROKER_CLUSTER_INFO).code == 0
