"""Connections to the MySQL endpoint that say nothing, or do not go on: nobody else waits for them."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pymysql
import pytest

from brokercore.certificates import server_context
from console.accounts import services as accounts
from console.accounts.models import TenantLimits
from console.rights import limits
from console.sql.mysql import server
from console.sql.mysql.server import MySqlEndpoint
from console.sql.mysql.variables import LIMITS
from tests.support import mysql_endpoint
from tests.support.broker import eventually
from tests.support.cast import Cast
from tests.support.mysql_endpoint import OTHER, PASSWORD, USER, EchoEndpoint, RawClient, running_endpoint

TOO_MANY = struct.pack("<BH", 0xFF, 1040)
TOO_MANY_OF_YOURS = struct.pack("<BH", 0xFF, 1203)
COM_QUERY, COM_CHANGE_USER = 0x03, 0x11
SSL_REQUEST = struct.pack("<IIB23x", RawClient.CAPABILITIES | 0x800, 1 << 24, 45)


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(server, "MAX_UNSIGNED", 20)
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 10)
    monkeypatch.setattr(mysql_endpoint, "most_connections", {USER: 3})
    mysql_endpoint.sessions.clear()
    with running_endpoint() as port:
        yield port


def ended(client: socket.socket) -> bool:
    """True when the server has closed it; what it said before is read over."""
    try:
        while client.recv(4096):
            pass
    except ConnectionError:
        return True
    return True


def test_silent_connections_keep_nobody_out_and_make_room_for_those_that_come(endpoint: int) -> None:
    with ExitStack() as stack:
        silent = [stack.enter_context(socket.create_connection(("127.0.0.1", endpoint), timeout=15)) for _ in range(60)]
        with RawClient(endpoint) as client:
            assert client.sign_in(USER, PASSWORD)[:1] == b"\0"
        assert all(ended(client) for client in silent[:40])


def test_the_address_with_the_most_makes_room(endpoint: int) -> None:
    with ExitStack() as stack:
        neighbour = stack.enter_context(
            socket.create_connection(("127.0.0.1", endpoint), timeout=15, source_address=("127.0.0.9", 0))
        )
        neighbour.recv(4096)
        for _ in range(60):
            stack.enter_context(socket.create_connection(("127.0.0.1", endpoint), timeout=15))
        stack.enter_context(RawClient(endpoint))
        neighbour.settimeout(0.3)
        with pytest.raises(TimeoutError):
            neighbour.recv(1)


def test_signed_in_connections_do_not_make_room(endpoint: int) -> None:
    with RawClient(endpoint) as client, ExitStack() as stack:
        client.sign_in(USER, PASSWORD)
        for _ in range(60):
            stack.enter_context(socket.create_connection(("127.0.0.1", endpoint), timeout=15))
        client.command(COM_QUERY, b"hello")
        assert client.read() == b"\2"


def test_one_account_takes_its_share_and_no_more(endpoint: int) -> None:
    with ExitStack() as stack:
        signed = [stack.enter_context(RawClient(endpoint)) for _ in range(5)]
        told = [client.sign_in(USER, PASSWORD) for client in signed]
        assert [word[:1] for word in told[:3]] == [b"\0"] * 3
        assert all(word.startswith(TOO_MANY_OF_YOURS) for word in told[3:])
        assert all(client.is_closed() for client in signed[3:])
        with RawClient(endpoint) as other:
            assert other.sign_in(OTHER, PASSWORD)[:1] == b"\0"
        signed[0].socket.close()
        eventually(lambda: mysql_endpoint.control().used()[USER] == 2)
        with RawClient(endpoint) as again:
            assert again.sign_in(USER, PASSWORD)[:1] == b"\0"


def test_one_address_takes_its_share_and_no_more(endpoint: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_OF_A_PEER", 2)
    with ExitStack() as stack:
        clients = [stack.enter_context(RawClient(endpoint)) for _ in range(3)]
        told = [client.sign_in(OTHER, PASSWORD) for client in clients]
        assert told[2].startswith(TOO_MANY_OF_YOURS)
        assert b"from 127.0.0.1" in told[2]


def test_the_endpoint_as_a_whole_has_a_bound_too(endpoint: int) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(RawClient(endpoint)) for _ in range(11)]
        told = [client.sign_in(OTHER, PASSWORD) for client in clients]
        assert told[10].startswith(TOO_MANY)


def test_a_wrong_password_takes_no_place(endpoint: int) -> None:
    for _ in range(5):
        with RawClient(endpoint) as client:
            assert client.sign_in(USER, "wrong").startswith(struct.pack("<BH", 0xFF, 1045))
    with RawClient(endpoint) as client:
        assert client.sign_in(USER, PASSWORD)[:1] == b"\0"


def test_a_handshake_of_tls_that_stalls_has_the_time_of_a_sign_in(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LIMITS, "sign_in_s", 0.5)
    context = server_context(tmp_path_factory.mktemp("tls"), "sql", ["localhost", "127.0.0.1"])
    with running_endpoint(lambda: EchoEndpoint(context)) as port:
        for early in (b"", b"\x16\x03\x01\x02\x00", b"no TLS at all"):
            with RawClient(port) as client:
                with suppress(ConnectionError):  # on a slow machine its time is over already
                    client.send(SSL_REQUEST)
                    client.socket.sendall(early)
                assert ended(client.socket)


def test_a_stalled_handshake_of_tls_makes_room_too(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MAX_UNSIGNED", 3)
    context = server_context(tmp_path_factory.mktemp("tls"), "sql", ["localhost", "127.0.0.1"])
    with running_endpoint(lambda: EchoEndpoint(context)) as port, ExitStack() as stack:
        stalled = [stack.enter_context(RawClient(port)) for _ in range(3)]
        for client in stalled:
            client.send(SSL_REQUEST)
        with RawClient(port) as client:
            assert client.sign_in(USER, PASSWORD)[:1] == b"\0"
        assert ended(stalled[0].socket)


@pytest.mark.parametrize("size", [1, LIMITS.packet])
def test_a_packet_that_is_announced_and_never_sent_ends_the_connection(
    endpoint: int, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(LIMITS, "packet_s", 0.5)
    with RawClient(endpoint) as client:
        client.sign_in(USER, PASSWORD)
        client.socket.sendall(struct.pack("<I", size))
        assert client.is_closed()


def test_sixteen_mebibytes_are_refused_when_they_are_announced(endpoint: int) -> None:
    with RawClient(endpoint) as client:
        client.sign_in(USER, PASSWORD)
        client.socket.sendall(struct.pack("<I", 0xFFFFFF))
        assert client.is_closed()


def test_a_number_that_is_still_in_use_is_not_given_again(endpoint: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with RawClient(endpoint) as client, ExitStack() as stack:
        client.sign_in(OTHER, PASSWORD)
        control = mysql_endpoint.control()
        first = mysql_endpoint.sessions[0].connection.connection_id
        numbers = iter([first, first, first + 1])
        monkeypatch.setattr(control, "_new_connection_id", lambda: next(numbers))
        stack.enter_context(RawClient(endpoint))
        assert control.connections[first].session.username == OTHER
        assert set(control.connections) == {first, first + 1}


# --- With accounts --------------------------------------------------------------------------------------------------
@pytest.fixture
def real_endpoint(transactional_db: None, cast: Cast, monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[int]:
    monkeypatch.setattr(server, "TELL_EVERY_S", 0.05)
    settings.TENANT_LIMITS = settings.TENANT_LIMITS | {"sql_connections": 2}
    accounts.set_database_password(user=cast.alice, name="demo", password=PASSWORD)
    accounts.set_database_password(user=cast.charlie, name="other", password=PASSWORD)
    with running_endpoint(lambda: MySqlEndpoint(None)) as port:
        yield port


def connect(port: int, user: str, password: str = PASSWORD) -> pymysql.Connection:
    return pymysql.connect(
        host="127.0.0.1", port=port, user=user, password=password, ssl_disabled=True, read_timeout=20
    )


def test_the_limit_is_of_the_account_however_its_people_sign_in_and_shown_with_what_is_used(
    real_endpoint: int, cast: Cast
) -> None:
    key = accounts.create_access_key(actor=cast.actor("alice"), user=cast.alice)
    with connect(real_endpoint, "demo"), connect(real_endpoint, key.access_key_id, key.access_key_secret):
        for user, password in (("demo", PASSWORD), (key.access_key_id, key.access_key_secret)):
            with pytest.raises(pymysql.err.Error, match=r"1203.*has 2 connections open"):
                connect(real_endpoint, user, password)
        with connect(real_endpoint, "other"):
            pass
        eventually(lambda: _line(cast).used == 2)
        assert "Connections to each MySQL endpoint" in cast.client("alice").get("/overview/limits").content.decode()
    eventually(lambda: _line(cast).used == 0)
    TenantLimits.objects.create(tenant=cast.acme, sql_connections=1)
    with connect(real_endpoint, "demo"), pytest.raises(pymysql.err.Error, match=r"1203.*has 1 connections open"):
        connect(real_endpoint, "demo")


def _line(cast: Cast) -> limits.Line:
    return next(line for line in limits.lines(cast.acme)[0] if line.kind.name == "sql_connections")
