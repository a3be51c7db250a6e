"""What strangers and careless clients may send: the endpoint answers, or closes that one connection, and goes on."""

from __future__ import annotations

import resource
import socket
import struct
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from console.sql.mysql import server
from console.statements import select
from mysqlwire.protocol import texts
from mysqlwire.protocol.commands import Value
from tests.console.sql.mysql.test_hardening import connect, first_row
from tests.support import mysql_endpoint
from tests.support.broker import eventually
from tests.support.mysql_endpoint import PASSWORD, USER, RawClient, running_endpoint

COM_QUERY, COM_STMT_PREPARE, COM_STMT_EXECUTE = 0x03, 0x16, 0x17
FUZZ = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
COMMANDS = st.sampled_from([*range(0x20), 0x7F, 0xFF])


@pytest.fixture(scope="module")
def endpoint() -> Iterator[int]:
    with running_endpoint() as port:
        yield port


@FUZZ
@given(st.lists(st.binary(max_size=200), max_size=3))
def test_no_handshake_harms_the_endpoint(endpoint: int, packets: list[bytes]) -> None:
    with RawClient(endpoint) as client:
        try:
            for packet in packets:
                client.send(packet)
            client.socket.shutdown(socket.SHUT_WR)
            while client.socket.recv(4096):
                pass
        except OSError:  # closed by the endpoint before we are done
            return


@FUZZ
@given(st.lists(st.tuples(COMMANDS, st.binary(max_size=120)), min_size=1, max_size=4))
def test_no_command_harms_the_endpoint(endpoint: int, commands: list[tuple[int, bytes]]) -> None:
    with RawClient(endpoint) as client:
        assert client.sign_in(USER, PASSWORD)[:1] == b"\0"
        try:
            for code, data in commands:
                client.command(code, b"rows 1" if data.startswith(b"wait") else data)
            client.socket.shutdown(socket.SHUT_WR)
            while client.socket.recv(65536):
                pass
        except OSError:  # closed by the endpoint before we are done
            return


@FUZZ
@given(st.binary(max_size=60), st.integers(0, 3))
def test_no_execution_packet_harms_the_endpoint(endpoint: int, data: bytes, flags: int) -> None:
    with RawClient(endpoint) as client:
        client.sign_in(USER, PASSWORD)
        client.command(COM_STMT_PREPARE, b"select ?, ?")
        for _ in range(4):
            client.read()
        client.command(COM_STMT_EXECUTE, struct.pack("<IBI", 1, flags, 1) + data)
        assert client.read()


def test_it_still_serves_after_all_this(endpoint: int) -> None:
    with connect(endpoint) as connection:
        assert first_row(connection, "hello") == ("hello", "()")


def test_a_thousand_idle_connections_cost_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_OF_A_PEER", 1000)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    before_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192) if hard > 0 else 8192, hard))
    mysql_endpoint.sessions.clear()
    clients: list[RawClient] = []
    try:
        with running_endpoint() as port:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            for _ in range(999):
                clients.append(RawClient(port))
                assert clients[-1].sign_in(USER, PASSWORD)[:1] == b"\0"
            grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
            with connect(port) as connection:
                assert first_row(connection, "hello")
                with RawClient(port) as refused:
                    assert refused.sign_in(USER, PASSWORD).startswith(struct.pack("<BH", 0xFF, 1040))
            assert grown < 200 * 1024**2
            for client in clients:
                client.socket.close()
            eventually(lambda: not mysql_endpoint.sessions[0].connection.control.connections)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before_limit)


# --- Texts


@given(st.text(alphabet="'\"`/*-#?;\\ \nax", max_size=60))
def test_reading_texts_front_to_back_never_fails(text: str) -> None:
    count = texts.count_placeholders(text)
    assert texts.bound(text, (1,) * count).count("1") == count
    statement = texts.single(text)
    assert statement is None or text.startswith(statement)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("piece", ["/*", "'", '"', "`", "-", "?'", "/* ?", "'\\", "a;"])
def test_no_text_of_a_megabyte_takes_long(piece: str) -> None:
    text = "select " + piece * (1024 * 1024 // len(piece))
    texts.count_placeholders(text)  # the test's time limit is the judge: going back would take hours
    texts.single(text)


@pytest.mark.parametrize(
    ("text", "several"),
    [
        ("select 1", False),
        ("select 1;", False),
        ("select 1 ; -- done\n /* really; */ ; ", False),
        ("select ';', \"a;b\", `c;d` -- ;\n", False),
        ("select 1; select 2", True),
        ("select 1;;select 2;", True),
        ("select 'it''s;' ; x", True),
    ],
)
def test_a_second_statement_is_found(text: str, several: bool) -> None:
    assert (texts.single(text) is None) == several


@pytest.mark.parametrize(
    "value", ["", "it's", 'say "hi"', "back\\slash", "nul\0", "line\nfeed", "😀", None, True, -5, "?", "a'; drop--"]
)
def test_a_bound_literal_is_read_back_as_the_value(value: Value) -> None:
    items = select.parse_select(texts.bound("select ?", (value,)))
    assert items is not None
    assert items[0].value == (int(value) if isinstance(value, bool) else value)
