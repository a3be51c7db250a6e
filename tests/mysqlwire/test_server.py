"""A server of the package with PyMySQL, which somebody else wrote, and with packets of our own."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import threading
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace

import pymysql
import pytest

from brokercore.certificates import server_context
from mysqlwire.aio.connection import Connection
from mysqlwire.aio.limits import Limits
from mysqlwire.aio.session import Client, Control, Kill
from mysqlwire.protocol.errors import SqlError
from tests.mysqlwire import client as wire
from tests.mysqlwire.client import CAPABILITIES, PASSWORD, USER, RawClient, native, running

QUIT, INIT_DB, QUERY, FIELD_LIST, STATISTICS, PING, CHANGE_USER = 1, 2, 3, 4, 9, 0x0E, 0x11
PREPARE, EXECUTE, LONG_DATA, CLOSE, RESET, SET_OPTION, FETCH, RESET_CONNECTION = *range(0x16, 0x1D), 0x1F
DENIED, MALFORMED, TOO_MANY = (struct.pack("<BH", 0xFF, code) for code in (1045, 1835, 1461))
UNKNOWN_STATEMENT, NOT_OFFERED = (struct.pack("<BH", 0xFF, code) for code in (1243, 1235))


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    return server_context(tmp_path_factory.mktemp("tls"), "wire", ["localhost", "127.0.0.1"])


@pytest.fixture
def port(context: ssl.SSLContext) -> Iterator[int]:
    with running(context) as port:
        yield port


@pytest.fixture
def client(port: int) -> Iterator[RawClient]:
    with RawClient(port) as client:
        assert client.sign_in()[:1] == b"\0"
        yield client


def connect(port: int, *, tls: bool = False, password: str = PASSWORD, **options: object) -> pymysql.Connection:
    secured = {"ssl": {"check_hostname": False}} if tls else {"ssl_disabled": True}
    return pymysql.connect(
        host="127.0.0.1", port=port, user=USER, password=password, read_timeout=10, **secured | options
    )


def rows(connection: pymysql.Connection, text: str) -> list[tuple[object, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(text)
        return list(cursor.fetchall())


# --- PyMySQL


@pytest.mark.parametrize("tls", [False, True])
def test_pymysql_signs_in_and_asks(port: int, tls: bool) -> None:
    with connect(port, tls=tls, database="demo") as connection:
        assert rows(connection, "grüße 😀") == [("grüße 😀", "()")]
        assert rows(connection, "rows 2500") == [(n,) for n in range(2500)]
        assert rows(connection, "schema") == [("demo",)]
        connection.select_db("other")
        assert rows(connection, "schema") == [("other",)]
        connection.ping(reconnect=False)
        assert bool(wire.sessions[-1].connection.stream.secure) == tls
        assert wire.sessions[-1].connection.stream.cipher[1].startswith("TLS") == tls


@pytest.mark.parametrize("tls", [False, True])
def test_a_row_larger_than_a_packet_arrives_whole(port: int, tls: bool) -> None:
    with connect(port, tls=tls) as connection:
        connection.max_allowed_packet = 2**30
        (large,), (small,) = rows(connection, "large")
        assert (len(str(large)), small) == (17_000_000, "y")
        assert rows(connection, "rows 1") == [(0,)]


@pytest.mark.parametrize("tls", [False, True])
def test_a_wrong_password_is_refused(port: int, tls: bool) -> None:
    with pytest.raises(pymysql.err.OperationalError, match="1045"):
        connect(port, tls=tls, password="wrong")


def test_a_client_hello_in_the_same_read_as_the_request_is_not_lost(port: int) -> None:
    def sign_in(_: int) -> object:
        with connect(port, tls=True) as connection:
            return rows(connection, "hello")

    with ThreadPoolExecutor(4) as pool:
        assert all(told == [("hello", "()")] for told in pool.map(sign_in, range(16)))


def test_packets_that_come_byte_by_byte_are_put_together(port: int) -> None:
    with RawClient(port) as client:
        client.sign_in()
        for byte in struct.pack("<I", 6) + bytes([QUERY]) + b"hello":
            client.socket.sendall(bytes([byte]))
        client.sequence = 1
        assert b"hello" in b"".join(client.rows(2))


# --- Sign-in


def test_the_greeting_says_what_there_is(port: int) -> None:
    with RawClient(port) as client:
        assert client.method == "caching_sha2_password"
        assert client.version.startswith(b"8.0")
        assert client.offered & (CAPABILITIES | wire.TLS) == CAPABILITIES | wire.TLS
        assert not client.offered & (0x20 | 0x80 | 1 << 26)  # no compression, no files of the client
        assert b"\0" not in client.nonce
        assert len(client.nonce) == 20


@pytest.mark.parametrize("method", ["mysql_native_password", "caching_sha2_password", "dialog"])
def test_each_method_signs_in_and_others_are_switched(port: int, method: str) -> None:
    with RawClient(port) as client:
        assert client.sign_in(method=method)[:1] == b"\0"
        assert client.ask(PING)[:1] == b"\0"
    for user, password in ((USER, "wrong"), ("nobody", PASSWORD)):
        with RawClient(port) as client:
            assert client.sign_in(user, password, method).startswith(DENIED)
            assert client.is_closed()


def test_who_has_not_signed_in_is_gone_in_time() -> None:
    with running(limits=Limits(sign_in_s=0.2)) as port, RawClient(port) as client:
        assert client.is_closed()


@pytest.mark.parametrize("early", [b"", b"\x16\x03\x01\x02\x00", b"no TLS at all"])
def test_a_handshake_of_tls_that_stalls_is_gone_in_time(context: ssl.SSLContext, early: bytes) -> None:
    with running(context, Limits(sign_in_s=0.3)) as port, RawClient(port) as client:
        client.send(struct.pack("<IIB23x", CAPABILITIES | wire.TLS, 1 << 24, 45))
        client.socket.sendall(early)
        while client.socket.recv(4096):  # an alert of TLS may come first
            pass


def test_a_change_of_user_needs_the_password_with_a_nonce_of_its_own(client: RawClient) -> None:
    request = USER.encode() + b"\0" + bytes([20]) + native(PASSWORD, client.nonce) + b"\0\x2d\0mysql_native_password\0"
    switch = client.ask(CHANGE_USER, request)
    nonce = switch.split(b"\0", 1)[1][:20]
    assert switch[:1] == b"\xfe"
    assert nonce != client.nonce
    client.send(native(PASSWORD, nonce))
    assert client.read()[:1] == b"\0"
    client.command(CHANGE_USER, request)
    client.read()
    client.send(native(PASSWORD, client.nonce))
    assert client.read().startswith(DENIED)
    assert client.is_closed()


NATIVE_METHOD = b"\0\0\x2d\0mysql_native_password\0"


def test_a_change_of_user_that_fails_inside_ends_the_connection(client: RawClient) -> None:
    assert client.ask(CHANGE_USER, b"broken\0" + NATIVE_METHOD).startswith(struct.pack("<BH", 0xFF, 1105))
    assert client.is_closed()


def test_a_change_of_user_that_is_killed_ends_the_connection(client: RawClient) -> None:
    connection = wire.sessions[-1].connection
    assert isinstance(connection, Connection)
    assert client.ask(CHANGE_USER, USER.encode() + b"\0" + NATIVE_METHOD)[:1] == b"\xfe"
    assert connection._task is not None
    connection._task.get_loop().call_soon_threadsafe(connection.kill, Kill.QUERY)
    assert client.read().startswith(struct.pack("<BH", 0xFF, 1317))
    assert client.is_closed()


# --- Commands


def test_small_commands_are_answered(client: RawClient) -> None:
    assert client.ask(PING)[:1] == b"\0"
    assert client.ask(INIT_DB, b"demo")[:1] == b"\0"
    assert client.ask(SET_OPTION, b"\1\0")[:1] == b"\xfe"
    assert client.ask(SET_OPTION, b"\0\0").startswith(NOT_OFFERED)
    assert client.ask(0x08).startswith(NOT_OFFERED)
    assert client.ask(STATISTICS) == b""
    client.command(FIELD_LIST, b"t\0")
    assert len(client.rows(1)) == 3
    assert client.ask(RESET_CONNECTION)[:1] == b"\0"
    client.command(QUIT)
    assert client.is_closed()


def test_a_statement_that_fails_inside_tells_nothing_and_goes_on(client: RawClient) -> None:
    answer = client.ask(QUERY, b"fail")
    assert answer.startswith(struct.pack("<BH", 0xFF, 1105))
    assert b"secret" not in answer
    assert client.ask(PING)[:1] == b"\0"


def test_changes_of_the_session_are_told_to_who_tracks_them(port: int) -> None:
    """It is not supported, so that the bit of a client alone has no effect."""
    with RawClient(port, CAPABILITIES | 1 << 23) as client:
        client.sign_in()
        assert client.ask(INIT_DB, b"demo") == b"\0\0\0\2\0\0\0"


def test_a_packet_out_of_order_ends_the_connection(client: RawClient) -> None:
    client.sequence = 3
    client.send(bytes([PING]))
    client.sequence = 1
    client.socket.settimeout(5)
    assert client.socket.recv(100)[4:].startswith(MALFORMED)
    assert client.is_closed()


def test_sizes_are_judged_when_they_are_announced(port: int) -> None:
    with RawClient(port) as client:
        client.socket.sendall(struct.pack("<I", 16 * 1024 + 1 | 1 << 24))
        assert client.is_closed()
    with RawClient(port) as client:
        client.sign_in()
        client.socket.sendall(struct.pack("<I", 0xFFFFFF))
        assert client.is_closed()


def test_a_packet_that_does_not_go_on_ends_the_connection() -> None:
    with running(limits=Limits(packet_s=0.2)) as port, RawClient(port) as client:
        client.sign_in()
        client.socket.sendall(struct.pack("<I", 5) + b"\3ab")
        assert client.is_closed()


def test_a_client_that_does_not_read_is_given_up() -> None:
    with running(limits=Limits(write_s=0.3)) as port, RawClient(port) as client:
        client.sign_in()
        began = time.monotonic()
        client.command(QUERY, b"large")
        while wire.sessions[0].connection.control.connections:
            assert time.monotonic() - began < 10
            time.sleep(0.05)


@pytest.mark.parametrize("kind", list(Kill))
def test_what_runs_can_be_killed(client: RawClient, kind: Kill) -> None:
    session = wire.sessions[-1]
    client.command(QUERY, b"wait")
    assert session.waiting.wait(10)
    connection = session.connection
    assert isinstance(connection, Connection)
    assert connection._task is not None
    connection._task.get_loop().call_soon_threadsafe(connection.kill, kind)
    assert client.read().startswith(struct.pack("<BH", 0xFF, 1317))
    if kind is Kill.CONNECTION:
        assert client.is_closed()
    else:
        assert client.ask(PING)[:1] == b"\0"


def test_stopping_tells_clients_that_wait_and_frees_the_port() -> None:
    told: list[bytes] = []
    with running() as port:
        client = RawClient(port)
        client.sign_in()
        client.command(QUERY, b"wait")
        assert wire.sessions[-1].waiting.wait(10)
        reader = threading.Thread(target=lambda: told.append(client.read()))
        reader.start()
    reader.join(10)
    client.socket.close()
    assert told[0].startswith(struct.pack("<BH", 0xFF, 1317))
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=1)


# --- Beside others


class Weighing(Control):
    """One connection at a time, with room for large packets when a test opens the gate, and nothing kept."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.sizes: list[int] = []
        self.turns = 0

    def add(self, connection: Client) -> int:
        if self.connections:
            raise SqlError(1040, "One is enough.")
        return super().add(connection)

    async def turn(self, connection: Client) -> None:
        self.turns += 1

    @asynccontextmanager
    async def room(self, connection: Client, size: int) -> AsyncIterator[None]:
        self.sizes.append(size)
        while not self.gate.is_set():  # noqa: ASYNC110 another thread opens it
            await asyncio.sleep(0.01)
        yield
        self.sizes.append(-size)

    def may_keep(self, connection: Client, size: int) -> bool:
        return False


def test_a_control_weighs_connections_against_each_other() -> None:
    control = Weighing()
    with running(control=control) as port, RawClient(port) as client:
        client.sign_in()
        with socket.create_connection(("127.0.0.1", port), timeout=10) as another:
            assert another.recv(100)[3:] == b"\0" + struct.pack("<BH", 0xFF, 1040) + b"One is enough."
            assert another.recv(1) == b""
        assert client.ask(PREPARE, b"select 1").startswith(TOO_MANY)
        client.socket.settimeout(0.3)
        with pytest.raises(TimeoutError):
            client.ask(QUERY, b"x" * 100_000)
        assert control.sizes == [100_001]
        control.gate.set()
        client.socket.settimeout(10)
        client.sequence = 1
        client.rows(2)
        assert client.ask(PING)[:1] == b"\0"
        assert control.sizes == [100_001, -100_001]
        assert control.turns == 3


def test_large_packets_that_find_no_room_end_their_connection() -> None:
    with running(control=Weighing(), limits=Limits(packet_s=0.2)) as port, RawClient(port) as client:
        client.sign_in()
        client.command(QUERY, b"x" * 100_000)
        assert client.is_closed()


# --- Prepared statements


def prepare(client: RawClient, text: bytes) -> tuple[bytes, int]:
    """The statement's number as it is sent, and how many parameters it has."""
    answer = client.ask(PREPARE, text)
    assert answer[:1] == b"\0", answer
    count: int = struct.unpack_from("<H", answer, 7)[0]
    for _ in range(count + (1 if count and not client.capabilities & wire.DEPRECATE_EOF else 0)):
        client.read()
    return answer[1:5], count


def test_values_stay_values(client: RawClient) -> None:
    hostile = b"' or 1=1 -- \\ ?"
    number, count = prepare(client, b"select * from t where a = ? and b = '?' -- ?")
    assert count == 1
    client.command(EXECUTE, number + b"\0\1\0\0\0" + b"\0\1" + b"\xfd\0" + bytes([len(hostile)]) + hostile)
    answer = b"".join(client.rows(2))
    assert b"a = ? and b = '?' -- ?" in answer
    assert repr((hostile.decode(),)).encode() in answer
    client.command(EXECUTE, number + b"\0\1\0\0\0" + b"\0\0" + b"\3two")  # types are remembered
    assert b"('two',)" in b"".join(client.rows(2))


def test_long_data_is_a_value_once(client: RawClient) -> None:
    number, _ = prepare(client, b"select ?")
    for piece in (b"long ", b"data"):
        client.command(LONG_DATA, number + b"\0\0" + piece)
    client.command(LONG_DATA, number + b"\7\0" + b"for no parameter")
    client.command(EXECUTE, number + b"\0\1\0\0\0" + b"\0\1" + b"\xfc\0")
    assert b"('long data',)" in b"".join(client.rows(2))
    assert client.ask(EXECUTE, number + b"\0\1\0\0\0" + b"\0\1" + b"\xfc\0").startswith(MALFORMED)


def test_a_cursor_gives_every_row_once(client: RawClient) -> None:
    number, _ = prepare(client, b"rows 10")
    client.command(EXECUTE, number + b"\1\1\0\0\0")
    client.rows(1)
    got: list[int] = []
    for _ in range(5):
        client.command(FETCH, number + struct.pack("<I", 3))
        *packets, end = client.rows(1)
        got += [struct.unpack("<q", packet[2:])[0] for packet in packets]
        last = struct.unpack_from("<H", end, 3)[0] & 0x80
    assert got == list(range(10))
    assert last
    assert client.ask(RESET, number)[:1] == b"\0"
    assert client.ask(FETCH, number + struct.pack("<I", 3)).startswith(UNKNOWN_STATEMENT)


def test_what_is_kept_has_bounds() -> None:
    limits = Limits(statements=2, cursors=1, kept=100_000, statement_characters=60_000)
    with running(limits=limits) as port, RawClient(port) as client:
        client.sign_in()
        first, _ = prepare(client, b"rows 1")
        second, _ = prepare(client, b"rows 1" + b" " * 50_000)
        assert client.ask(PREPARE, b"rows 1").startswith(TOO_MANY)
        client.command(EXECUTE, first + b"\1\1\0\0\0")
        client.rows(1)
        assert client.ask(EXECUTE, second + b"\1\1\0\0\0").startswith(TOO_MANY)
        client.command(CLOSE, first)
        assert client.ask(PREPARE, b"x" * 55_000).startswith(TOO_MANY)
        assert client.ask(PREPARE, b"x" * 60_001).startswith(struct.pack("<BH", 0xFF, 1064))
        assert client.ask(PREPARE, b"?" * 20_000).startswith(struct.pack("<BH", 0xFF, 1390))
        client.command(CLOSE, second)
        client.ask(PING)
        assert wire.sessions[-1].connection.kept == 0
        third, _ = prepare(client, b"select ?")
        client.command(LONG_DATA, third + b"\0\0" + b"x" * 100_000)
        assert client.is_closed()


def test_no_eof_for_clients_that_do_without(port: int) -> None:
    with RawClient(port, CAPABILITIES | wire.DEPRECATE_EOF) as client:
        client.sign_in()
        prepare(client, b"select ?")
        client.command(QUERY, b"rows 1")
        packets = [client.read() for _ in range(4)]
        assert packets[0] == b"\1"
        assert packets[2] == b"\x010"
        assert packets[3] == b"\xfe\0\0\2\0\0\0"


def test_limits_may_be_changed_while_it_serves() -> None:
    limits = replace(Limits())
    with running(limits=limits) as port, RawClient(port) as client:
        client.sign_in()
        limits.statements = 0
        assert client.ask(PREPARE, b"select 1").startswith(TOO_MANY)
