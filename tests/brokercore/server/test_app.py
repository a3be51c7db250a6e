"""The process: start, ready line, order of closing, refusals to start, crashes, and Redis going away."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from brokercore.protocol.command import Command
from brokercore.protocol.message import decode_stored
from brokercore.protocol.signature import sign
from tests.brokercore.server.wire import Wire, fresh, properties
from tests.support.broker import MASTER_KEY, ROOT, BrokerProcess, broker_process, eventually
from tests.support.redis_server import redis_server

pytestmark = pytest.mark.broker


@contextmanager
def own_broker(*redis_settings: str, **environment: str) -> Iterator[Wire]:
    """A connection to a broker that is this test's alone."""
    with redis_server(*redis_settings) as server, broker_process(server, **environment) as process:
        port = (process.namesrv if "gantry_broker_advertise" in environment else process.address).rpartition(":")[2]
        with Wire(f"127.0.0.1:{port}") as wire:
            yield wire


def start_and_fail(**environment: str) -> subprocess.CompletedProcess[str]:
    values = {name: value for name, value in os.environ.items() if not name.startswith("GANTRY_")}
    values |= {"GANTRY_NAMESRV_PORT": "0", "GANTRY_BROKER_PORT": "0", "GANTRY_MASTER_KEY": MASTER_KEY,
               "GANTRY_BROKER_ACCESS_KEY_ID": "a", "GANTRY_BROKER_ACCESS_KEY_SECRET": "b"} | environment  # fmt: skip
    return subprocess.run([sys.executable, "-m", "brokercore"], cwd=ROOT, env=values, capture_output=True, text=True,
                          timeout=60, check=False)  # fmt: skip


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ({"GANTRY_BROKER_PORT": "x"}, "GANTRY_BROKER_PORT is 'x'; allowed are whole numbers from 0 to 65535."),
        ({"GANTRY_CHECK_MESSAGE_TYPE": "maybe"}, "allowed are on and off"),
        ({"GANTRY_VIP_CHANNEL": "yes"}, "GANTRY_VIP_CHANNEL is 'yes'; allowed are on and off."),
        ({"GANTRY_LOG_FORMAT": "xml"}, "GANTRY_LOG_FORMAT is 'xml'; allowed are text and json."),
        ({"GANTRY_LOG_LEVEL": "loud"}, "allowed are DEBUG, INFO, WARNING, ERROR"),
        ({"REDIS_URL": "http://localhost"}, "it is unix:///path or redis://host:port"),
        ({"GANTRY_MASTER_KEY": "short"}, "GANTRY_MASTER_KEY is not a Fernet key"),
        ({"GANTRY_BROKER_ADVERTISE": "nowhere"}, "GANTRY_BROKER_ADVERTISE is 'nowhere'; it is host:port"),
        ({"GANTRY_BROKER_ACCESS_KEY_ID": "", "GANTRY_HOME": "/nonexistent"}, "cannot be read"),
    ],
)
def test_a_setting_that_makes_no_sense_ends_the_start_with_one_line(environment: dict[str, str], sentence: str) -> None:
    done = start_and_fail(**environment)
    assert done.returncode == 1
    assert sentence in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stdout == ""


def test_a_port_in_use_is_named(broker: BrokerProcess) -> None:
    port = broker.address.rpartition(":")[2]
    done = start_and_fail(GANTRY_BROKER_PORT=port, REDIS_URL=broker.redis_url)
    assert done.returncode == 1
    assert f"Port {port} on 127.0.0.1 is in use" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_both_roles_are_served_on_both_ports(broker: BrokerProcess, wire: Wire) -> None:
    topic = wire.topic()
    with Wire(broker.namesrv) as other:
        assert other.call(105, {"topic": topic}).code == 0
        assert other.publish(topic).code == 0
    assert wire.call(105, {"topic": topic}).code == 0


def test_it_closes_in_order_and_keeps_everything() -> None:
    with redis_server() as server, broker_process(server) as broker:
        with Wire(broker.address) as wire:
            topic, group = wire.topic(queues=2, message_type="FIFO"), wire.group(retryMaxTimes=5)
            wire.publish(topic, b"kept", properties(UNIQ_KEY="u", KEYS="k"), e="1")
            wire.ok(15, {"consumerGroup": group, "topic": topic, "queueId": 1, "commitOffset": 1})
            waiting = wire.start_pull(group, topic, 0, sysFlag=6, suspendTimeoutMillis=60_000)
            began = time.monotonic()
            broker.signal(signal.SIGTERM)
            assert wire.receive(waiting).code == 19, "a waiting pull gets its answer"
            assert broker.stop() == 0
            assert time.monotonic() - began < 10
        assert broker.log.rstrip().endswith("closed")
        broker.start()
        with Wire(broker.address) as wire:
            assert wire.ok(14, {"consumerGroup": group, "topic": topic, "queueId": 1}).ext["offset"] == "1"
            answer = wire.publish(topic, b"next", e="1")
            assert answer.ext["queueOffset"] == "1"
            assert wire.pull(group, topic, queueId=1).ext["maxOffset"] == "2"
            ext = {"topic": topic, "key": "k", "maxNum": 1, "beginTimestamp": 0, "endTimestamp": 1 << 62}
            assert b"kept" in wire.ok(12, ext).body


def test_a_broker_that_is_asked_to_end_again_and_again_ends_in_order() -> None:
    with broker_process() as broker:
        handle, over = os.pidfd_open(broker.pid), threading.Event()

        def ask() -> None:
            with suppress(ProcessLookupError):  # it has ended
                while not over.wait(0.0005):
                    signal.pidfd_send_signal(handle, signal.SIGTERM)

        asking = threading.Thread(target=ask)
        asking.start()
        try:
            assert broker.stop() == 0
        finally:
            over.set()
            asking.join()
            os.close(handle)


def test_nothing_acknowledged_is_lost_when_the_broker_is_killed() -> None:
    with redis_server() as server, broker_process(server) as broker:
        with Wire(broker.address) as wire:
            topic, group = wire.topic(), wire.group()
        acknowledged: list[bytes] = []
        sender = threading.Thread(target=_send_until_it_breaks, args=(broker.address, topic, acknowledged))
        sender.start()
        eventually(lambda: len(acknowledged) > 300)
        broker.kill()
        sender.join(20)
        broker.start()
        assert _stored(broker, group, topic) >= set(acknowledged)


def test_nothing_acknowledged_is_lost_when_redis_is_killed() -> None:
    with redis_server("--appendfsync", "always") as server, broker_process(server) as broker:
        with Wire(broker.address) as wire:
            topic, group = wire.topic(), wire.group()
        acknowledged: list[bytes] = []
        sender = threading.Thread(target=_send_until_it_breaks, args=(broker.address, topic, acknowledged))
        sender.start()
        eventually(lambda: len(acknowledged) > 300)
        server.kill()
        with Wire(broker.address) as wire:
            answer = wire.publish(topic)
            assert answer.code == 2
            assert "store is not available" in (answer.remark or "")
        sender.join(20)
        server.start()
        with Wire(broker.address) as wire:
            eventually(lambda: wire.publish(topic, b"after").code == 0)
        assert _stored(broker, group, topic) >= {*acknowledged, b"after"}


def _send_until_it_breaks(address: str, topic: str, acknowledged: list[bytes]) -> None:
    with Wire(address) as wire:
        for number in range(100_000):
            body = b"%d" % number
            try:
                if wire.publish(topic, body).code != 0:
                    return
            except (AssertionError, OSError):
                return
            acknowledged.append(body)


def _stored(broker: BrokerProcess, group: str, topic: str) -> set[bytes]:
    bodies: set[bytes] = set()
    with Wire(broker.address) as wire:
        offset = 0
        while True:
            answer = wire.pull(group, topic, offset)
            if answer.code != 0:
                return bodies
            bodies |= {message.body for message in decode_stored(answer.body)}
            offset = int(answer.ext["nextBeginOffset"])


def test_a_redis_that_hangs_is_waited_for() -> None:
    with redis_server() as server, broker_process(server) as broker, Wire(broker.address) as wire:
        topic = wire.topic()
        server.signal(signal.SIGSTOP)
        opaque = wire.send(310, {"b": topic, "e": "0", "f": "0", "g": "1", "h": "0"}, b"patient")
        with pytest.raises(TimeoutError):
            wire.receive(opaque, 1)
        server.signal(signal.SIGCONT)
        assert wire.receive(opaque).code == 0


def test_a_full_store_refuses_and_evicts_nothing() -> None:
    with own_broker(gantry_store_max_bytes=str(2 << 20)) as wire:
        topic, group = wire.topic(), wire.group()
        sent = 0
        while (answer := wire.publish(topic, bytes(50_000))).code == 0:
            sent += 1
            assert sent < 100
        assert answer.code == 2
        assert "the message store is full" in (answer.remark or "")
        assert "2097152" in (answer.remark or "")
        assert wire.pull(group, topic, sent - 1).code == 0
        wire.ok(215, {"topic": topic})
        assert wire.publish(wire.topic(), b"room again").code == 0


def test_redis_at_its_memory_limit_refuses_cleanly() -> None:
    with own_broker("--maxmemory", "6mb", "--maxmemory-policy", "noeviction") as wire:
        topic, group = wire.topic(), wire.group()
        sent = 0
        while (answer := wire.publish(topic, bytes(100_000))).code == 0:
            sent += 1
            assert sent < 100
        assert answer.code == 2
        assert "OOM" in (answer.remark or "")
        assert wire.ok(30, {"topic": topic, "queueId": 0}).ext["offset"] == str(sent)
        assert wire.pull(group, topic, sent - 1).code == 0


def test_a_redis_that_starts_later_is_waited_for() -> None:
    with redis_server() as server:
        server.kill()
        broker = BrokerProcess(server.url)
        starter = threading.Thread(target=broker.start)
        starter.start()
        eventually(lambda: "trying again" in broker.log)
        server.start()
        starter.join(20)
        assert broker.namesrv
        broker.close()


@pytest.mark.parametrize(
    "data",
    [
        b"\x7f\xff\xff\xff\x00",
        b"\x00\x00\x00\x03abc",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x00\x00\x00\x08\x00\xff\xff\xff{}{}",
        b"\x00\x00\x00\x06\x07\x00\x00\x02{}",
        b"\x00\x00\x00\x06\x00\x00\x00\x02[]",
    ],
)
def test_a_broken_frame_closes_its_connection_only(broker: BrokerProcess, wire: Wire, data: bytes) -> None:
    before = len(broker.log)
    with socket.create_connection(("127.0.0.1", wire.socket.getpeername()[1]), timeout=10) as broken:
        broken.sendall(data)
        try:
            assert broken.recv(100) == b""
        except ConnectionResetError:
            assert True
        port = broken.getsockname()[1]
    lines = [line for line in broker.log[before:].splitlines() if "connection closed" in line and f":{port} " in line]
    assert len(lines) == 1
    assert wire.call(106).code == 0


def test_a_frame_may_come_byte_by_byte(broker: BrokerProcess) -> None:
    with Wire(broker.address) as wire:
        frame = Command(9999, 1, ext={"a": "b"}).encode()
        for byte in frame:
            wire.socket.sendall(bytes([byte]))
        assert wire.receive(1).code == 3


def test_a_client_that_does_not_read_is_not_read_from(broker: BrokerProcess, wire: Wire) -> None:
    topic, group = wire.topic(), wire.group()
    for _ in range(8):
        wire.publish(topic, bytes(200_000))
    with Wire(broker.address) as slow:
        slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        slow.socket.settimeout(1)
        with pytest.raises(TimeoutError):
            for _ in range(200_000):
                slow.start_pull(group, topic, 0, maxMsgNums=8, maxMsgBytes=262144)
        resident = int(re.search(r"VmRSS:\s+(\d+)", _status(broker.pid)).group(1))  # type: ignore[union-attr]
        assert resident < 400_000, "kB: answers are not piled up"
    assert wire.call(106).code == 0


def _status(pid: int) -> str:
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return file.read()


def test_binary_headers_are_understood(broker: BrokerProcess, wire: Wire) -> None:
    topic = wire.topic()
    ext = {"topic": topic, "AccessKey": broker.access_key_id}
    ext["Signature"] = sign(ext, b"", broker.access_key_secret)
    wire.socket.sendall(Command(105, 777, language="JAVA", ext=ext, serialize=1).encode())
    assert wire.receive(777).code == 0


def test_the_advertised_address_stands_in_routes_and_message_ids() -> None:
    with own_broker(gantry_broker_advertise="127.0.0.9:5555") as wire:
        topic = wire.topic()
        assert b'"0":"127.0.0.9:5555"' in wire.ok(105, {"topic": topic}).body
        assert wire.publish(topic).ext["msgId"].startswith("7F000009000015B3")


def test_message_kinds_are_not_checked_when_told_so() -> None:
    with own_broker(gantry_check_message_type="off") as wire:
        text = properties(UNIQ_KEY=fresh(), __SHARDINGKEY="s")
        assert wire.publish(wire.topic(message_type="NORMAL"), text=text).code == 0


def test_clients_with_a_vip_channel_find_a_port_two_below() -> None:
    """The default of clients up to 4.4.0, and of the classic dashboard."""
    with broker_process(gantry_broker_port=str(_port_with_one_two_below()), gantry_vip_channel="on") as process:
        host, _, port = process.address.rpartition(":")
        with Wire(f"{host}:{int(port) - 2}") as wire:
            assert wire.publish(wire.topic()).code == 0


def test_a_port_two_below_that_is_taken_costs_a_line_in_the_log() -> None:
    port = _port_with_one_two_below()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port - 2))
        taken.listen()
        with (
            broker_process(gantry_broker_port=str(port), gantry_vip_channel="on") as process,
            Wire(process.address) as wire,
        ):
            assert wire.publish(wire.topic()).code == 0
            assert f"clients with a VIP channel (port {port - 2}) are not served" in process.log


def _port_with_one_two_below() -> int:
    """A port that is free now, as the one two below it is."""
    for _ in range(100):
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = int(first.getsockname()[1])
            with suppress(OSError):
                second.bind(("127.0.0.1", port - 2))
                return port
    raise AssertionError("no two free ports that lie two apart")
