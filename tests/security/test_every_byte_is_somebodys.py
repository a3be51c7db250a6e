"""Every byte in the store is some account's, and nobody's bytes make the store refuse an account within its share."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Iterator

import pytest

from brokercore.names import TRACE_TOPIC
from brokercore.protocol.codes import RequestCode as Code
from brokercore.protocol.codes import ResponseCode
from brokercore.protocol.command import Command
from brokercore.server.delivery.traces import TRACES_SHARE
from tests.brokercore.hostile.attack import metrics_port
from tests.brokercore.server.wire import Wire, fresh, properties
from tests.support.broker import BrokerProcess, broker_process, eventually

STORE = 48 << 20
"""A small store, so that an attack fills it in a second."""

ATTACKER, VICTIM = "71", "72"


@pytest.fixture(scope="module")
def small() -> Iterator[BrokerProcess]:
    with broker_process(gantry_metrics_port="0", gantry_store_max_bytes=str(STORE)) as process:
        process.limit("*", stored_bytes=STORE * 4 // 5)
        for uid in (ATTACKER, VICTIM):
            allow(process, uid, ["mq:*"])
            with account(process, uid) as wire:
                eventually(lambda wire=wire: wire.call(Code.GET_BROKER_CLUSTER_INFO).code == 0)
        eventually(lambda: figure(process, "stored_limit_bytes", ATTACKER) == STORE * 4 // 5)
        yield process


@pytest.fixture
def attacker(small: BrokerProcess) -> Iterator[Wire]:
    with account(small, ATTACKER) as wire:
        yield wire


@pytest.fixture
def victim(small: BrokerProcess) -> Iterator[Wire]:
    with account(small, VICTIM) as wire:
        yield wire


def allow(process: BrokerProcess, uid: str, actions: list[str], key: str = "") -> None:
    """Publish an AccessKey of an account that may do this in all its instances."""
    statements = [{"Effect": "Allow", "Action": actions, "Resource": "*"}]
    row = {"tenant": uid, "boundary": [f"acs:mq:*:*:MQ_INST_{uid}_*"], "statements": statements}
    process.allow(key or f"LTAI{uid}", f"secret of {uid}", row)


def account(process: BrokerProcess, uid: str, key: str = "") -> Wire:
    return Wire(process.address, (key or f"LTAI{uid}", f"secret of {uid}"))


def topic_of(uid: str) -> str:
    return f"MQ_INST_{uid}_bytes001%{fresh()}"


def figure(process: BrokerProcess, name: str, uid: str) -> float:
    """One of an account's figures."""
    with urllib.request.urlopen(f"http://127.0.0.1:{metrics_port(process)}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    begin = f'gantry_tenant_{name}{{tenant="{uid}"}} '
    return float(next((line[len(begin) :] for line in text.splitlines() if line.startswith(begin)), "0"))


def flood(wire: Wire, topic: str, count: int, body: bytes) -> list[Command]:
    """Send as fast as it goes; the answers."""
    ext = {
        "a": "PG", "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0", "j": "0",
        "k": "false", "m": "false",
    }  # fmt: skip
    answers = []
    for start in range(0, count, 8):
        sent = [
            wire.send(Code.SEND_MESSAGE_V2, ext | {"i": properties(UNIQ_KEY=fresh("F"))}, body)
            for _ in range(min(8, count - start))
        ]
        answers += [wire.receive(opaque) for opaque in sent]
    return answers


def test_a_flood_of_traces_fills_the_share_of_its_account_and_nobody_elses(
    small: BrokerProcess, attacker: Wire, victim: Wire
) -> None:
    theirs = victim.topic(name=topic_of(VICTIM))
    before = figure(small, "stored_bytes", ATTACKER)
    answers = flood(attacker, TRACE_TOPIC, 40, bytes(2 << 20))  # 80 MiB, the store has 48
    assert answers[0].code == 0
    refused = [answer for answer in answers if answer.code]
    assert {answer.code for answer in refused} == {ResponseCode.SYSTEM_BUSY}
    assert "message traces of this account" in str(refused[0].remark)
    assert figure(small, "stored_bytes", ATTACKER) > before + (1 << 20), "they are bytes of who sent them"
    assert victim.publish(theirs, bytes(1 << 20)).code == 0
    assert victim.publish(TRACE_TOPIC, b"traces of the other one").code == 0
    with Wire(small.address) as system:
        table = eventually(lambda: system.ok(Code.GET_BROKER_RUNTIME_INFO))
        assert table.code == 0
    eventually(lambda: attacker.publish(TRACE_TOPIC, b"there is room again").code == 0, 20)
    eventually(lambda: figure(small, "stored_bytes", ATTACKER) - before < STORE // TRACES_SHARE * 2, 20)


def test_traces_still_count_for_their_account_after_a_restart() -> None:
    with broker_process(gantry_metrics_port="0", gantry_store_max_bytes=str(STORE)) as process:
        allow(process, ATTACKER, ["mq:*"])
        with account(process, ATTACKER) as wire:
            eventually(lambda: wire.call(Code.GET_BROKER_CLUSTER_INFO).code == 0)
            assert wire.publish(TRACE_TOPIC, bytes(1 << 20), properties(KEYS="m1", UNIQ_KEY=fresh("T"))).code == 0
        process.stop()
        process.start()
        eventually(lambda: figure(process, "stored_bytes", ATTACKER) > 900_000)
        with Wire(process.address) as system:
            query = {"topic": TRACE_TOPIC, "key": "m1", "maxNum": 8, "beginTimestamp": 0, "endTimestamp": 1 << 60}
            assert len(system.ok(Code.QUERY_MESSAGE, query).body) > 1 << 20, "and the platform finds them"


def test_a_key_that_may_publish_nowhere_writes_no_traces(small: BrokerProcess) -> None:
    allow(small, ATTACKER, ["mq:SUB", "mq:Query*"], "LTAIreads")
    allow(small, ATTACKER, ["mq:PUB"], "LTAIsends")
    with account(small, ATTACKER, "LTAIreads") as reads, account(small, ATTACKER, "LTAIsends") as sends:
        eventually(lambda: sends.call(Code.GET_BROKER_CLUSTER_INFO).code == 0)
        eventually(lambda: reads.call(Code.GET_BROKER_CLUSTER_INFO).code == 0)
        assert sends.publish(TRACE_TOPIC, b"traces").code == 0
        for code in (Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE):
            ext = {"b": TRACE_TOPIC, "e": "0", "f": "0", "g": "1", "h": "0"}
            assert reads.call(code, ext, b"traces").code == ResponseCode.NO_PERMISSION


def test_an_account_that_fills_the_store_leaves_the_others_their_share(
    small: BrokerProcess, attacker: Wire, victim: Wire
) -> None:
    mine, theirs = attacker.topic(name=topic_of(ATTACKER)), victim.topic(name=topic_of(VICTIM))
    answers = flood(attacker, mine, 70, bytes(1 << 20))
    assert answers[-1].code == ResponseCode.SYSTEM_BUSY
    assert "what is left of the store is others'" in str(answers[-1].remark)
    assert all(answer.code == 0 for answer in flood(victim, theirs, 8, bytes(1 << 20))), "a sixth of the store"
    attacker.ok(Code.DELETE_TOPIC_IN_BROKER, {"topic": mine})
    again = attacker.topic(name=topic_of(ATTACKER))
    eventually(lambda: attacker.publish(again, bytes(1 << 20)).code == 0, 20)


def test_what_a_topic_without_a_namespace_holds_is_its_accounts_too(small: BrokerProcess, attacker: Wire) -> None:
    """The boundary of an account has every name that begins as its instances do."""
    name = f"MQ_INST_{ATTACKER}_{fresh()}"
    with Wire(small.address) as system:
        before = figure(small, "stored_bytes", ATTACKER)
        ext = {
            "topic": name, "defaultTopic": "TBW102", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6,
            "topicFilterType": "SINGLE_TAG", "order": "false",
        }  # fmt: skip
        if system.call(Code.UPDATE_AND_CREATE_TOPIC, ext).code == 0:
            assert attacker.publish(name, bytes(1 << 20)).code == 0
            deadline = time.monotonic() + 10
            while figure(small, "stored_bytes", ATTACKER) < before + (1 << 20):
                assert time.monotonic() < deadline, "its bytes are nobody's"
