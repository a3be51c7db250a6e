"""The port: TLS and plain, what is no HTTP/2, and the inner port that is nobody's business."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import grpc
import pytest

from brokercore.protocol.grpc import messaging_pb2 as pb
from brokercore.protocol.grpc.messaging_pb2 import Code
from tests.brokercore.server.grpc.caller import Caller, message
from tests.brokercore.server.grpc.test_calls import route
from tests.brokercore.server.wire import Wire
from tests.support.broker import ROOT, BrokerProcess, broker_process, eventually


def test_tls_and_plain_are_taken_on_one_port(broker: BrokerProcess, wire: Wire, certificate: bytes) -> None:
    topic = wire.topic()
    with Caller(broker.grpc, certificate=certificate) as secure, Caller(broker.grpc) as plain:
        for caller in (secure, plain):
            assert caller.send(message(topic, bytes(1 << 20))).status.code == Code.OK
            (received,) = caller.receive(wire.group(), topic, batch_size=1)[1]
            assert received.body == bytes(1 << 20)


def test_conditions_see_whether_a_call_came_by_tls_and_from_where(
    broker: BrokerProcess, wire: Wire, certificate: bytes
) -> None:
    topic = wire.topic()
    condition = {"Bool": {"acs:SecureTransport": "true"}, "IpAddress": {"acs:SourceIp": "127.0.0.1"}}
    statement = {"Effect": "Allow", "Action": ["mq:PUB"], "Resource": ["*"], "Condition": condition}
    broker.allow("AKsecure", "secret", {"boundary": ["*"], "statements": [statement], "grants": []})
    key = "AKsecure", "secret"
    with Caller(broker.grpc, key, certificate) as secure, Caller(broker.grpc, key) as plain:
        eventually(lambda: route(secure, topic).status.code == Code.OK)
        assert secure.send(message(topic)).status.code == Code.OK
        assert plain.send(message(topic)).status.code == Code.FORBIDDEN


def test_what_is_no_http_2_is_closed(broker: BrokerProcess) -> None:
    host, _, port = broker.grpc.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
        while connection.recv(4096):
            pass


def test_the_inner_port_serves_nobody(broker: BrokerProcess, wire: Wire) -> None:
    topic, known = wire.topic(), {broker.namesrv, broker.address, broker.grpc}
    (inner,) = {f"127.0.0.1:{port}" for port in listening(broker.pid)} - known
    with Caller(inner) as caller:
        answer = caller.send(message(topic))
        assert (answer.status.code, "GANTRY_GRPC_PORT" in answer.status.message) == (Code.UNAUTHORIZED, True)


def listening(pid: int) -> set[int]:
    """The TCP ports that a process listens on."""
    links = [os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd")]
    inodes = {found[1] for link in links if (found := re.match(r"socket:\[(\d+)\]", link))}
    tables = [Path(f"/proc/net/{name}").read_text() for name in ("tcp", "tcp6")]
    rows = [line.split() for table in tables for line in table.splitlines()[1:]]
    return {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == "0A" and row[9] in inodes}


def test_a_port_in_use_is_one_clear_line(broker: BrokerProcess) -> None:
    port = broker.grpc.rpartition(":")[2]
    environment = os.environ | {
        "REDIS_URL": broker.redis_url, "GANTRY_NAMESRV_PORT": "0", "GANTRY_BROKER_PORT": "0", "GANTRY_GRPC_PORT": port,
        "GANTRY_MASTER_KEY": broker.master_key, "GANTRY_BROKER_ACCESS_KEY_ID": broker.access_key_id,
        "GANTRY_BROKER_ACCESS_KEY_SECRET": broker.access_key_secret,
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "brokercore"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert f"Port {port} on 127.0.0.1 is in use" in line


@pytest.mark.parametrize("mode", ["enforcing", "disabled"])
def test_the_mode_of_tls_is_that_of_the_broker(mode: str, tmp_path: Path) -> None:
    with broker_process(gantry_grpc_port="0", gantry_home=str(tmp_path), gantry_broker_tls=mode) as broker:
        with Caller(broker.grpc) as plain:
            try:
                code = route(plain, "t").status.code
            except grpc.RpcError:  # the line is closed
                code = 0
            assert code == (Code.TOPIC_NOT_FOUND if mode == "disabled" else 0)
        if mode == "enforcing":
            with Caller(broker.grpc, certificate=(tmp_path / "tls/broker.crt").read_bytes()) as secure:
                assert route(secure, "t").status.code == Code.TOPIC_NOT_FOUND


def test_nothing_of_grpc_is_loaded_when_it_is_not_wanted(redis: object) -> None:
    code = "import sys, brokercore.server.app; print(any(m.split('.')[0] in ('grpc', 'google') for m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
    assert pb.Code.OK


def test_a_line_counts_as_a_connection_of_its_account(broker: BrokerProcess, wire: Wire) -> None:
    # In this order: a broker that knows the key knows the limit, which counts for lines that come after.
    broker.limit("77", connections=1)
    broker.allow("AKlimited", "secret", {"tenant": "77", "boundary": ["*"], "statements": [], "grants": []})
    key = "AKlimited", "secret"
    with Caller(broker.grpc, key) as first:
        eventually(lambda: route(first, "t").status.code == Code.TOPIC_NOT_FOUND)
        with Caller(broker.grpc, key) as second:
            eventually(lambda: route(second, "t").status.code == Code.TOO_MANY_REQUESTS)
        assert route(first, "t").status.code == Code.TOPIC_NOT_FOUND
    with Caller(broker.grpc, key) as third:
        eventually(lambda: route(third, "t").status.code == Code.TOPIC_NOT_FOUND)


def test_rates_are_those_of_remoting_clients(broker: BrokerProcess, wire: Wire) -> None:
    topic, statement = wire.topic(), {"Effect": "Allow", "Action": "mq:PUB", "Resource": "*"}
    broker.allow("AKslow", "secret", {"tenant": "78", "boundary": ["*"], "statements": [statement], "grants": []})
    broker.limit("78", messages_per_second=1)
    with Caller(broker.grpc, ("AKslow", "secret")) as caller:
        eventually(lambda: caller.send(message(topic)).status.code == Code.TOO_MANY_REQUESTS)
