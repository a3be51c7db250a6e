"""TLS and plain connections on the same ports."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from brokercore.client import Admin, Credentials, Message, Producer
from brokercore.client.errors import BrokerUnreachable, NoPermission, TopicNotExist
from brokercore.protocol.codes import ResponseCode
from tests.brokercore.server.wire import Wire, fresh
from tests.support.broker import BrokerProcess, broker_process, eventually
from tests.support.redis_server import RedisServer

SECURE_ONLY = {
    "Effect": "Allow", "Action": ["mq:PUB"], "Resource": ["*"], "Condition": {"Bool": {"acs:SecureTransport": "true"}},
}  # fmt: skip


@dataclass(frozen=True)
class Taking:
    """A broker that takes TLS, the certificate that it shows, and whether it takes plain connections too."""

    process: BrokerProcess
    certificate: Path
    plain: bool


@pytest.fixture(scope="module", params=["permissive", "enforcing"])
def taking(
    request: pytest.FixtureRequest, redis: RedisServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Taking]:
    """A broker in each mode."""
    home = tmp_path_factory.mktemp("home")
    with broker_process(gantry_home=str(home), gantry_broker_tls=request.param) as process:
        yield Taking(process, home / "tls" / "broker.crt", plain=request.param == "permissive")


def admin(process: BrokerProcess, certificate: Path | None) -> Admin:
    tls = ssl.create_default_context(cafile=str(certificate)) if certificate else None
    return Admin(process.namesrv, Credentials(process.access_key_id, process.access_key_secret), tls=tls)


def test_our_client_speaks_tls_on_both_ports(taking: Taking) -> None:
    process, certificate = taking.process, taking.certificate
    topic = fresh()
    with admin(process, certificate) as client:
        client.topics.create(topic, queues=1, message_type="NORMAL")
        tls = ssl.create_default_context(cafile=str(certificate))
        keys = Credentials(process.access_key_id, process.access_key_secret)
        with Producer(process.namesrv, keys, "GID_tls", tls=tls) as producer:
            for size in (1, 200_000, 3 << 20):
                producer.send(Message(topic, b"x" * size))
        assert sum(queue.max_offset for queue in client.topics.stats(topic).values()) == 3


def test_plain_connections_are_taken_unless_tls_is_required(taking: Taking) -> None:
    with admin(taking.process, None) as client:
        if taking.plain:
            assert client.brokers.cluster().brokers
            return
        with pytest.raises(BrokerUnreachable, match="closed the connection"):
            client.brokers.cluster()
        assert "does not speak TLS" in taking.process.log


def test_a_client_that_does_not_know_the_certificate_does_not_connect(taking: Taking) -> None:
    process = taking.process
    keys = Credentials(process.access_key_id, process.access_key_secret)
    with (
        Admin(process.namesrv, keys, tls=ssl.create_default_context()) as client,
        pytest.raises(BrokerUnreachable, match="not trusted"),
    ):
        client.brokers.cluster()


def test_broken_tls_closes_the_connection_and_harms_nobody(taking: Taking) -> None:
    process, certificate = taking.process, taking.certificate
    host, _, port = process.address.rpartition(":")
    for rubbish in (b"\x16\x03\x01\x00\x05hello", b"\x16" + bytes(70_000)):
        with socket.create_connection((host, int(port)), timeout=20) as connection:
            connection.sendall(rubbish)
            assert eventually(lambda open=connection: not drained(open))
    with admin(process, certificate) as client:
        assert client.brokers.cluster().brokers


def drained(connection: socket.socket) -> bool:
    """False once the peer has closed."""
    try:
        return bool(connection.recv(65536))
    except ConnectionError:
        return False


def test_policies_see_whether_a_connection_is_secure(taking: Taking) -> None:
    process, certificate = taking.process, taking.certificate
    topic, key = fresh(), ("LTAI" + fresh("k"), "secret")
    with admin(process, certificate) as client:
        client.topics.create(topic, queues=1, message_type="NORMAL")
    process.allow(*key, {"tenant": "t", "boundary": ["*"], "statements": [SECURE_ONLY]})

    def attempt(certificate: Path | None) -> None:
        tls = ssl.create_default_context(cafile=str(certificate)) if certificate else None
        with Producer(process.namesrv, Credentials(*key), "GID_tls", tls=tls) as producer:
            producer.send(Message(topic, b"x"))

    eventually(lambda: not raises(lambda: attempt(certificate)))
    if taking.plain:
        with pytest.raises(TopicNotExist):  # who may not publish to it is not told that it is there
            attempt(None)
        with Wire(process.address, key) as wire:
            assert wire.publish(topic).code == ResponseCode.NO_PERMISSION


def raises(act: object) -> bool:
    """Whether the key is still unknown to the broker."""
    assert callable(act)
    try:
        act()
    except NoPermission:
        return True
    return False
