"""Prepared statements."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from console.sql.mysql.variables import LIMITS
from tests.console.sql.mysql.test_hardening import connect, first_row
from tests.support.mysql_endpoint import PASSWORD, USER, RawClient, read_result, running_endpoint

COM_QUERY = 0x03
COM_STMT_PREPARE, COM_STMT_EXECUTE, COM_STMT_SEND_LONG_DATA, COM_STMT_FETCH = 0x16, 0x17, 0x18, 0x1C


@pytest.fixture
def endpoint() -> Iterator[int]:
    with running_endpoint() as port:
        yield port


def prepare(client: RawClient, text: bytes) -> tuple[int, int]:
    """Returns the statement's id and the number of packets of its answer behind the first."""
    client.command(COM_STMT_PREPARE, text)
    ok = client.read()
    statement_id, _, count = struct.unpack_from("<IHH", ok, 1)
    for _ in range(count + (1 if count else 0)):
        client.read()
    return statement_id, count


def execute(client: RawClient, statement_id: int, values: list[bytes], flags: int = 0) -> list[bytes]:
    """Execute with texts as parameters; returns the packets up to the last EOF."""
    data = struct.pack("<IBI", statement_id, flags, 1)
    if values:
        data += bytes((len(values) + 7) // 8) + b"\1" + b"\xfd\0" * len(values)
        data += b"".join(bytes([len(v)]) + v for v in values)
    client.command(COM_STMT_EXECUTE, data)
    return read_result(client, 1 if flags else 2)


def test_parameters_are_values_not_text(endpoint: int) -> None:
    hostile = b"' or 1=1 -- \\ ?"
    with RawClient(endpoint) as client:
        client.sign_in(USER, PASSWORD)
        statement_id, count = prepare(client, b"select * from t where a = ? and b = '?' -- ?")
        assert count == 1
        answer = b"".join(execute(client, statement_id, [hostile]))
        assert b"select * from t where a = ? and b = '?' -- ?" in answer
        assert repr((hostile.decode(),)).encode() in answer


def test_the_types_are_remembered_between_executions(endpoint: int) -> None:
    with RawClient(endpoint) as client:
        client.sign_in(USER, PASSWORD)
        statement_id, _ = prepare(client, b"select ?")
        execute(client, statement_id, [b"one"])
        client.command(COM_STMT_EXECUTE, struct.pack("<IBI", statement_id, 0, 1) + b"\0\0\3two")
        assert b"('two',)" in b"".join(read_result(client, 2))


def test_no_eof_follows_the_parameters_when_the_client_does_without(endpoint: int) -> None:
    with RawClient(endpoint) as client:
        client.CAPABILITIES |= 1 << 24  # CLIENT_DEPRECATE_EOF
        client.sign_in(USER, PASSWORD)
        client.command(COM_STMT_PREPARE, b"select ?")
        client.read()
        client.read()
        client.command(COM_QUERY, b"hello")
        assert client.read() == b"\2"


def test_a_cursor_loses_no_row(endpoint: int) -> None:
    with RawClient(endpoint) as client:
        client.sign_in(USER, PASSWORD)
        statement_id, _ = prepare(client, b"rows 10")
        execute(client, statement_id, [], flags=1)
        rows = 0
        for _ in range(4):
            client.command(COM_STMT_FETCH, struct.pack("<II", statement_id, 3))
            rows += len(read_result(client, 1)) - 1
        assert rows == 10


def test_long_data_has_a_limit(endpoint: int) -> None:
    with RawClient(endpoint) as client:
        client.sign_in(USER, PASSWORD)
        statement_id, _ = prepare(client, b"select ?")
        chunk = struct.pack("<IH", statement_id, 0) + b"x" * 3_000_000
        for _ in range(3):
            client.command(COM_STMT_SEND_LONG_DATA, chunk)
        assert client.is_closed()


def test_prepared_statements_are_counted(endpoint: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LIMITS, "statements", 1)
    with RawClient(endpoint) as client:
        client.sign_in(USER, PASSWORD)
        prepare(client, b"select 1")
        client.command(COM_STMT_PREPARE, b"select 1")
        assert client.read().startswith(struct.pack("<BH", 0xFF, 1461))


def test_counting_placeholders_of_hostile_text_is_fast(endpoint: int) -> None:
    with connect(endpoint) as connection, RawClient(endpoint) as client:
        client.sign_in(USER, PASSWORD)
        client.command(COM_STMT_PREPARE, b"select " + b"?'" * 50_000)
        assert first_row(connection, "hello")
