"""What a broker refuses: in its log as fields, a bounded number of lines, without secrets; told to the console."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from brokercore.protocol.codes import RequestCode as Code
from brokercore.server.rights.refusals import ALL_LINES, LOG_LINES, MOST_TOLD_OF_A_TENANT, Throttle
from tests.brokercore.server.grpc.caller import Caller, message
from tests.brokercore.server.wire import Wire, fresh, properties
from tests.support.broker import MASTER_KEY, SYSTEM_SECRET, BrokerProcess, broker_process, eventually
from tests.support.redis_server import RedisServer, redis_server

MINE = "MQ_INST_77_refusals"
BODY, TOKEN = "body-that-nobody-logs", "token-that-nobody-logs"


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with redis_server() as running:
        yield running


@pytest.fixture(scope="module")
def logging_broker(server: RedisServer) -> Iterator[BrokerProcess]:
    with broker_process(server, gantry_log_format="json", gantry_log_level="DEBUG", gantry_grpc_port="0") as broker:
        yield broker


def rows(broker: BrokerProcess) -> list[dict[str, Any]]:
    """Every line of the log; each one is JSON."""
    return [json.loads(line) for line in broker.log.splitlines()]


def refused(broker: BrokerProcess, **wanted: object) -> list[dict[str, Any]]:
    return [row for row in rows(broker) if wanted.items() <= row.items()]


def noted(broker: BrokerProcess, **wanted: object) -> list[dict[str, Any]]:
    """The refusals with these fields, once there is one: the log is written beside the answer, not before it."""
    found: list[dict[str, Any]] = eventually(lambda: refused(broker, **wanted))
    return found


def key_for(broker: BrokerProcess, *actions: str, **more: object) -> tuple[str, str]:
    key = fresh("AK"), "secret-" + fresh()
    statements = [{"Effect": "Allow", "Action": list(actions), "Resource": "*"}]
    row = {
        "tenant": more.pop("tenant", "77"),
        "principal": "bob@acme",
        "boundary": [f"acs:mq:*:*:{MINE}%*"],
        "statements": statements,
    }
    broker.allow(*key, row | more)
    with Wire(broker.address, key) as wire:
        eventually(lambda: "is unknown or disabled" not in str(wire.call(Code.GET_BROKER_CLUSTER_INFO).remark))
    return key


def test_each_refusal_is_a_line_with_who_what_and_why(logging_broker: BrokerProcess) -> None:
    broker, topic = logging_broker, f"{MINE}%orders"
    with Wire(broker.address) as system:
        system.topic(name=topic)
    reader = key_for(broker, "mq:Query*")
    with Wire(broker.address, reader) as wire:
        wire.heartbeat("10.0.0.9@1#client", "GID")
        wire.publish(topic)
    (line,) = noted(broker, reason="permission", request="SEND_MESSAGE_V2")
    assert line["event"] == "request refused"
    assert line["level"] == "warning"
    assert (line["tenant"], line["access_key_id"], line["resource"], line["code"]) == ("77", reader[0], topic, 16)
    assert line["connection"].startswith("127.0.0.1:")
    assert "has no permission mq:PUB" in line["remark"]
    with Wire(broker.address, (reader[0], "wrong")) as wire:
        wire.publish(topic)
    assert noted(broker, reason="wrong_signature", tenant="77", access_key_id=reader[0])


def test_calls_by_grpc_are_noted_in_the_same_way(logging_broker: BrokerProcess) -> None:
    broker, topic = logging_broker, f"{MINE}%by-grpc"
    with Wire(broker.address) as system:
        system.topic(name=topic)
    reader = key_for(broker, "mq:Query*")
    with Caller(broker.grpc, (reader[0], "wrong")) as forger, Caller(broker.grpc, reader) as caller:
        forger.send(message(topic))
        caller.send(message(topic))
    (forged,) = noted(broker, access_key_id=reader[0], reason="wrong_signature")
    assert (forged["tenant"], forged["request"]) == ("77", "gRPC call")
    (denied,) = noted(broker, access_key_id=reader[0], reason="permission")
    assert (denied["tenant"], denied["resource"]) == ("77", topic)
    assert denied["client_id"].startswith("client-")


def test_secrets_and_bodies_are_in_no_line(logging_broker: BrokerProcess) -> None:
    broker, topic = logging_broker, f"{MINE}%secrets"
    with Wire(broker.address) as system:
        system.topic(name=topic)
    key = key_for(broker, "mq:PUB", "mq:Query*")
    temporary = key_for(broker, "mq:PUB", token=TOKEN, expires_ms=1)
    with Wire(broker.address, key) as wire:
        for code in Code:
            wire.call(code, {"topic": topic, "group": "g", "Passwd": BODY}, BODY.encode())
        wire.publish(topic, BODY.encode(), properties(KEYS="key-that-nobody-logs"))
    for pair in (temporary, (key[0], "bad-secret"), (temporary[0], "bad-secret")):
        with Wire(broker.address, pair) as wire:
            wire.call(Code.GET_BROKER_CLUSTER_INFO, {"SecurityToken": TOKEN})
            wire.call(Code.GET_BROKER_CLUSTER_INFO, {"SecurityToken": TOKEN + "-wrong"})
    for hostile in (f"GET /{BODY} HTTP/1.1\r\n\r\n".encode(), b"\x00\x00\x00\x10\x00\x00\x00\x0c" + BODY.encode()):
        with socket.create_connection(("127.0.0.1", int(broker.address.rpartition(":")[2])), timeout=10) as broken:
            broken.sendall(hostile)
            broken.settimeout(10)
            assert broken.recv(10) == b""
    text = broker.log
    assert noted(broker, reason="malformed")
    for secret in (key[1], temporary[1], TOKEN, BODY, SYSTEM_SECRET, MASTER_KEY, "key-that-nobody-logs", "bad-secret"):
        assert secret not in text
    assert all(row["time"] and row["level"] and row["event"] for row in rows(broker))


def test_names_that_a_client_chose_stay_in_their_line(logging_broker: BrokerProcess) -> None:
    broker, name = logging_broker, 'GID\r\n{"level":"forged"}\u202e'
    key = key_for(broker, "mq:Query*")
    with Wire(broker.address, key) as wire:
        wire.heartbeat(name)
        wire.call(Code.GET_MAX_OFFSET, {"topic": name + "x" * 10_000, "queueId": 0})
    (line,) = noted(broker, access_key_id=key[0], request="GET_MAX_OFFSET")
    assert line["resource"].startswith(name)
    assert len(line["resource"]) == 255
    assert not refused(broker, level="forged")


def test_a_flood_of_refusals_is_a_few_lines_and_a_count(logging_broker: BrokerProcess) -> None:
    broker = logging_broker
    key = key_for(broker, "mq:Query*")
    with Wire(broker.address, key) as wire:
        for _ in range(300):
            wire.publish(f"{MINE}%flood")
    assert 1 <= len(noted(broker, access_key_id=key[0], reason="permission")) <= LOG_LINES


def test_the_console_is_told_of_each_sort_once(logging_broker: BrokerProcess, server: RedisServer) -> None:
    broker, client = logging_broker, redis.Redis.from_url(server.url, decode_responses=True)
    key = key_for(broker, "mq:Query*", tenant="78")

    def told() -> list[dict[str, Any]]:
        entries: Any = client.xrange("gantry:acl:refused")
        return [row for _, fields in entries if (row := json.loads(fields["r"]))["key"] == key[0]]

    with Wire(broker.address, key) as wire, Wire(broker.address, (key[0], "wrong")) as forger:
        for _ in range(20):
            wire.publish(f"{MINE}%told")
            forger.publish(f"{MINE}%told")
        found = {row["kind"]: row for row in eventually(lambda: told() if len(told()) > 1 else [])}
    assert set(found) == {"permission", "wrong_signature"}
    row = found["permission"]
    assert (row["tenant"], row["name"], row["action"]) == ("78", "bob@acme", "mq:PUB")
    assert (row["request"], row["resource"], row["address"]) == ("SEND_MESSAGE_V2", f"{MINE}%told", "127.0.0.1")
    assert 1 <= row["count"] <= 20
    assert row["first_ms"] <= row["last_ms"]
    assert found["wrong_signature"]["resource"] == ""


def test_what_is_too_much_to_tell_is_told_by_key_and_kind(logging_broker: BrokerProcess, server: RedisServer) -> None:
    broker, client = logging_broker, redis.Redis.from_url(server.url, decode_responses=True)
    key = key_for(broker, "mq:Query*", tenant="79")
    with Wire(broker.address, key) as wire:
        for number in range(MOST_TOLD_OF_A_TENANT + 30):
            wire.publish(f"{MINE}%many-{number}")

    def told() -> dict[str, int]:
        entries: Any = client.xrange("gantry:acl:refused")
        found = [json.loads(fields["r"]) for _, fields in entries]
        return {row["resource"]: row["count"] for row in found if row["key"] == key[0]}

    found = eventually(lambda: told() if "" in told() else {})
    assert found[""] <= 30
    assert len(found) == MOST_TOLD_OF_A_TENANT + 1


def test_many_peers_together_do_not_fill_the_log() -> None:
    throttle = Throttle()
    passed = [throttle.passes(f"permission 10.0.{number >> 8}.{number & 255}") for number in range(20_000)]
    written = sum(1 for before in passed if before is not None)
    assert written == ALL_LINES
    assert throttle.suppressed == 20_000 - written
