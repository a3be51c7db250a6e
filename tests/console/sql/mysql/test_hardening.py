"""What the endpoint withstands: refused, damaged, silent and greedy clients."""

from __future__ import annotations

import resource
import socket
import struct
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pymysql
import pytest

from brokercore.certificates import server_context
from console.sql.mysql import server
from console.sql.mysql.variables import LIMITS
from mysqlwire.aio.session import Kill
from tests.support import mysql_endpoint
from tests.support.broker import eventually
from tests.support.mysql_endpoint import (
    OTHER,
    PASSWORD,
    USER,
    EchoEndpoint,
    RawClient,
    native_scramble,
    read_result,
    running_endpoint,
)

COM_QUERY, COM_FIELD_LIST, COM_CHANGE_USER = 0x03, 0x04, 0x11
COM_STMT_PREPARE, COM_STMT_EXECUTE, COM_STMT_SEND_LONG_DATA, COM_STMT_FETCH = 0x16, 0x17, 0x18, 0x1C
DENIED = struct.pack("<BH", 0xFF, 1045)


@pytest.fixture
def endpoint() -> Iterator[int]:
    mysql_endpoint.sessions.clear()
    with running_endpoint() as port:
        yield port


def connect(port: int, user: str = USER, password: str = PASSWORD, **options: object) -> pymysql.Connection:
    return pymysql.connect(
        host="127.0.0.1", port=port, user=user, password=password, connect_timeout=10, read_timeout=10,
        **{"ssl_disabled": True} | options,
    )  # fmt: skip


def first_row(connection: pymysql.Connection, text: str) -> tuple[object, ...] | None:
    with connection.cursor() as cursor:
        cursor.execute(text)
        row: tuple[object, ...] | None = cursor.fetchone()
        return row


# --- Sign-in


@pytest.mark.parametrize(("user", "password"), [(USER, "wrong"), ("nobody", PASSWORD), (USER, "")])
def test_a_refused_client_is_not_served(endpoint: int, user: str, password: str) -> None:
    with RawClient(endpoint) as client:
        assert client.sign_in(user, password).startswith(DENIED)
        try:
            client.command(COM_QUERY, b"select secret")
        except ConnectionError:
            return
        assert client.is_closed()


def test_an_unknown_user_and_a_wrong_password_get_the_same_answer(endpoint: int) -> None:
    answers = []
    for user in (USER, "alicf"):
        with RawClient(endpoint) as client:
            answers.append(client.sign_in(user, "wrong").replace(user.encode(), b"?"))
    assert answers[0] == answers[1]


def test_it_announces_caching_sha2_password(endpoint: int) -> None:
    with RawClient(endpoint) as client:
        assert client.plugin == "caching_sha2_password"
    with connect(endpoint) as connection:
        assert first_row(connection, "hello") == ("hello", "()")


def test_clients_with_the_native_method_only_sign_in(endpoint: int) -> None:
    with RawClient(endpoint) as client:
        assert client.sign_in(USER, PASSWORD)[:1] == b"\0"


def test_a_client_with_another_method_is_switched(endpoint: int) -> None:
    with connect(endpoint, auth_plugin_map={}) as connection:
        assert first_row(connection, "hello")
    with RawClient(endpoint) as client:
        client.send(struct.pack("<IIB23x", RawClient.CAPABILITIES, 1 << 24, 45) + USER.encode() + b"\0\0dialog\0")
        assert client.read().startswith(b"\xfecaching_sha2_password\0")


def test_an_unknown_schema_is_refused_at_sign_in(endpoint: int) -> None:
    with pytest.raises(pymysql.err.OperationalError, match=r"1049.*no schema"):
        connect(endpoint, database="unknown")


def test_a_change_of_user_needs_a_password_and_forgets_who_it_was(endpoint: int) -> None:
    with RawClient(endpoint) as client:
        assert client.sign_in(USER, PASSWORD)[:1] == b"\0"
        wrong = native_scramble("wrong", client.nonce)
        client.command(
            COM_CHANGE_USER, OTHER.encode() + b"\0" + bytes([20]) + wrong + b"\0\x2d\0mysql_native_password\0"
        )
        answer = client.read()
        if answer[:1] == b"\xfe":
            client.send(native_scramble("wrong", answer.split(b"\0", 1)[1][:20]))
            answer = client.read()
        assert answer.startswith(DENIED)
        assert client.is_closed()


def test_a_change_of_user_with_the_password_goes_on(endpoint: int) -> None:
    with RawClient(endpoint) as client:
        client.sign_in(USER, PASSWORD)
        client.command(COM_CHANGE_USER, OTHER.encode() + b"\0\0\0\x2d\0mysql_native_password\0")
        switch = client.read()
        client.send(native_scramble(PASSWORD, switch.split(b"\0", 1)[1][:20]))
        assert client.read()[:1] == b"\0"
        assert mysql_endpoint.sessions[-1].username == OTHER


def test_signing_in_has_a_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LIMITS, "sign_in_s", 0.2)
    with running_endpoint() as port, RawClient(port) as client:
        client.socket.settimeout(20)
        assert client.is_closed()


# --- TLS


@pytest.fixture(scope="module")
def tls_endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    context = server_context(tmp_path_factory.mktemp("tls"), "sql", ["localhost", "127.0.0.1"])
    with running_endpoint(lambda: EchoEndpoint(context)) as port:
        yield port


def test_a_client_hello_in_the_same_read_as_the_ssl_request_is_not_lost(tls_endpoint: int) -> None:
    def sign_in(_: int) -> object:
        with connect(tls_endpoint, ssl_disabled=False, ssl={"check_hostname": False}) as connection:
            return first_row(connection, "hello")

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(sign_in, range(60))) == {("hello", "()")}


def test_tls_is_offered_not_demanded(tls_endpoint: int) -> None:
    with connect(tls_endpoint) as connection:
        assert first_row(connection, "hello")


def test_the_key_is_private_and_the_pair_is_kept(tmp_path: Path) -> None:
    server_context(tmp_path / "tls", "sql", ["localhost", "10.0.0.1"])
    key = tmp_path / "tls" / "sql.key"
    before = key.read_bytes()
    assert key.stat().st_mode & 0o777 == 0o600
    server_context(tmp_path / "tls", "sql", ["localhost"])
    assert key.read_bytes() == before


# --- Packets


def test_packets_before_sign_in_are_small(endpoint: int) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(4):
        with RawClient(endpoint) as client:
            size = LIMITS.packet_before_sign_in + 1
            client.socket.sendall(struct.pack("<I", size | 1 << 24))
            assert client.is_closed()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16 * 1024


def test_packets_after_sign_in_have_a_limit(endpoint: int) -> None:
    with connect(endpoint) as connection:
        assert first_row(connection, "x" * 1_000_000)
        with pytest.raises(pymysql.err.OperationalError):
            first_row(connection, "x" * LIMITS.packet)


def test_a_text_without_end_does_not_freeze_the_endpoint(endpoint: int) -> None:
    with RawClient(endpoint) as client:
        client.send(struct.pack("<IIB23x", RawClient.CAPABILITIES, 1 << 24, 45) + b"alice without end")
        assert client.read().startswith(struct.pack("<BH", 0xFF, 1835))
        assert client.is_closed()
    with connect(endpoint) as connection:
        assert first_row(connection, "hello")


@pytest.mark.parametrize(
    "packet", [b"", b"\0" * 3, b"\xff" * 40, struct.pack("<IIB23x", 0xFFFFFFFF, 1, 255) + b"x" * 10]
)
def test_a_damaged_handshake_closes_that_connection_only(endpoint: int, packet: bytes) -> None:
    with connect(endpoint) as other, RawClient(endpoint) as client:
        client.send(packet)
        while not client.is_closed():
            pass
        assert first_row(other, "hello")


@pytest.mark.parametrize("packet", [b"\x17", b"\x1c\1", b"\x16\xff\xfe", b"\x99", b"\x04", b"\x03\xff\xff\xff"])
def test_a_damaged_command_is_answered_with_an_error(endpoint: int, packet: bytes) -> None:
    with RawClient(endpoint) as client:
        client.sign_in(USER, PASSWORD)
        client.sequence = 0
        client.send(packet)
        assert client.read()[:1] in (b"\xff", b"\0")
        client.command(COM_QUERY, b"hello")
        assert client.read() == b"\2"


def test_connections_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 1)
    with running_endpoint() as port, connect(port), pytest.raises(pymysql.err.OperationalError, match="1040"):
        connect(port)


# --- Running statements


def start_waiting(connection: pymysql.Connection) -> threading.Thread:
    def wait() -> None:
        try:
            first_row(connection, "wait")
        except pymysql.err.MySQLError as error:
            waits.append(error.args[0])

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


waits: list[int] = []


def test_killing_an_idle_connections_statement_does_nothing(endpoint: int) -> None:
    with connect(endpoint) as connection:
        idle = mysql_endpoint.connection(-1)
        eventually(lambda: not idle._busy)
        assert idle._task is not None
        idle._task.get_loop().call_soon_threadsafe(idle.kill, Kill.QUERY)
        assert first_row(connection, "hello")


def test_the_field_list_has_a_packet_a_column(endpoint: int) -> None:
    with RawClient(endpoint) as client:
        client.sign_in(USER, PASSWORD)
        client.command(COM_FIELD_LIST, b"t\0")
        names = [packet.split(b"\3def")[-1] for packet in read_result(client, 1)[:-1]]
        assert len(names) == 2


def test_stopping_tells_clients_that_wait() -> None:
    waits.clear()
    mysql_endpoint.sessions.clear()
    with running_endpoint() as port:
        thread = start_waiting(connect(port))
        assert mysql_endpoint.sessions[-1].waiting.wait(10)
    thread.join(10)
    assert waits == [1317]
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=1)


def test_stopping_does_not_wait_for_clients_that_keep_their_connection(tls_context: Any) -> None:
    clients = []
    with running_endpoint(lambda: EchoEndpoint(tls_context)) as port:  # fails at the end when asyncio has a complaint
        clients.append(connect(port))
        clients.append(connect(port, ssl_disabled=False, ssl={"check_hostname": False}))
        assert all(first_row(client, "hello") for client in clients)
    for client in clients:
        client._force_close()
