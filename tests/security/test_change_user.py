"""COM_CHANGE_USER: a sign-in of its own. Nothing of who it was is left, and a failure ends the connection."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from console.accounts import services as accounts
from console.sql.mysql.server import MySqlEndpoint
from console.sql.mysql.variables import LIMITS
from tests.support import mysql_endpoint
from tests.support.cast import Cast
from tests.support.mysql_endpoint import (
    OTHER,
    PASSWORD,
    USER,
    RawClient,
    native_scramble,
    read_result,
    running_endpoint,
)

COM_QUERY, COM_PING, COM_CHANGE_USER = 0x03, 0x0E, 0x11
COM_STMT_PREPARE, COM_STMT_EXECUTE = 0x16, 0x17
NATIVE = b"\0\x2d\0mysql_native_password\0"
OK, ERROR = b"\0", b"\xff"


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(mysql_endpoint, "most_connections", {USER: 1, OTHER: 1})
    mysql_endpoint.sessions.clear()
    with running_endpoint() as port:
        yield port


def change(client: RawClient, user: str, password: str = PASSWORD) -> bytes:
    """Ask to be `user`; returns the server's last word."""
    client.command(COM_CHANGE_USER, user.encode() + b"\0\0" + NATIVE)
    answer = client.read()
    if answer[:1] == b"\xfe":
        client.send(native_scramble(password, answer.split(b"\0", 1)[1][:20]))
        answer = client.read()
    return answer


def test_every_change_asks_for_the_password_with_a_nonce_of_its_own(endpoint: int) -> None:
    with RawClient(endpoint) as client:
        client.sign_in(USER, PASSWORD)
        nonces = {client.nonce}
        for user in (OTHER, USER):
            client.command(COM_CHANGE_USER, user.encode() + b"\0\0" + NATIVE)
            nonce = client.read().split(b"\0", 1)[1][:20]
            nonces.add(nonce)
            client.send(native_scramble(PASSWORD, nonce))
            assert client.read()[:1] == OK
        assert len(nonces) == 3


def test_an_answer_to_the_greeting_is_no_answer_to_a_change(endpoint: int) -> None:
    with RawClient(endpoint) as client:
        client.sign_in(USER, PASSWORD)
        replayed = native_scramble(PASSWORD, client.nonce)
        client.command(COM_CHANGE_USER, OTHER.encode() + b"\0" + bytes([20]) + replayed + NATIVE)
        assert client.read()[:1] == b"\xfe"
        client.send(replayed)
        assert client.read()[:1] == ERROR
        assert client.is_closed()


@pytest.mark.parametrize("user", [USER, OTHER, "nobody", ""])
def test_a_change_that_fails_ends_the_connection_even_to_oneself(endpoint: int, user: str) -> None:
    with RawClient(endpoint) as client:
        client.sign_in(USER, PASSWORD)
        assert change(client, user, "wrong")[:1] == ERROR
        assert client.is_closed()


@pytest.mark.parametrize(
    "packet",
    [b"", b"bob", b"bob\0", b"bob\0\xff", b"bob\0\x14short", b"bob\0\0", b"\xff" * 100, b"x" * 20_000],
    ids=["empty", "no end", "no scramble", "long scramble", "short scramble", "no schema", "garbage", "too long"],
)
def test_a_change_that_cannot_be_read_ends_the_connection(endpoint: int, packet: bytes) -> None:
    with RawClient(endpoint) as client:
        client.sign_in(USER, PASSWORD)
        client.command(COM_CHANGE_USER, packet)
        client.socket.settimeout(20)
        answer = client.read()
        assert answer[:1] in (ERROR, b"\xfe")
        if answer[:1] == b"\xfe":
            client.send(b"")
            assert client.read()[:1] == ERROR
        assert client.is_closed()


def test_a_change_that_is_not_finished_ends_the_connection(endpoint: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with RawClient(endpoint) as client:
        client.sign_in(USER, PASSWORD)
        monkeypatch.setattr(LIMITS, "sign_in_s", 0.3)
        client.command(COM_CHANGE_USER, OTHER.encode() + b"\0\0" + NATIVE)
        assert client.read()[:1] == b"\xfe"
        assert client.is_closed()


def test_prepared_statements_are_gone(endpoint: int) -> None:
    with RawClient(endpoint) as client:
        client.sign_in(USER, PASSWORD)
        client.command(COM_STMT_PREPARE, b"secret of alice")
        statement = client.read()[1:5]
        assert change(client, OTHER)[:1] == OK
        client.command(COM_STMT_EXECUTE, statement + b"\0\1\0\0\0")
        assert client.read().startswith(struct.pack("<BH", 0xFF, 1243))


def test_the_place_goes_from_one_account_to_the_other(endpoint: int) -> None:
    with RawClient(endpoint) as client, RawClient(endpoint) as second:
        client.sign_in(USER, PASSWORD)
        control = mysql_endpoint.control()
        assert control.used() == {USER: 1}
        assert change(client, OTHER)[:1] == OK
        assert control.used() == {OTHER: 1}
        assert second.sign_in(USER, PASSWORD)[:1] == OK
        # Both are full now: there is no way back, and none around the limit.
        assert change(client, USER).startswith(struct.pack("<BH", 0xFF, 1203))
        assert client.is_closed()
        assert change(second, USER)[:1] == OK


def test_nothing_of_the_session_is_left(transactional_db: None, cast: Cast) -> None:
    accounts.set_database_password(user=cast.alice, name="demo", password=PASSWORD)
    accounts.set_database_password(user=cast.charlie, name="other", password=PASSWORD)
    with running_endpoint(lambda: MySqlEndpoint(None)) as port, RawClient(port) as client:
        assert client.sign_in("demo", PASSWORD)[:1] == OK
        for text in (b"set @mine = 'alices secret'", b"set net_write_timeout = 3000", b"set sql_select_limit = 1"):
            client.command(COM_QUERY, text)
            assert client.read()[:1] == OK
        client.command(COM_QUERY, b"show columns from alices_table")
        assert client.read()[:1] == ERROR
        assert change(client, "other")[:1] == OK
        client.command(COM_QUERY, b"select @mine, @@net_write_timeout, @@sql_select_limit, user(), database()")
        row = b"".join(read_result(client, 2))
        assert b"alices" not in row
        assert b"3000" not in row
        assert b"other@" in row
        client.command(COM_QUERY, b"show warnings")
        assert b"alices" not in b"".join(read_result(client, 2))
