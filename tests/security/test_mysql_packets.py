"""Packets of a signed-in client, within every size, that cost the MySQL endpoint memory or everybody's time."""

from __future__ import annotations

import asyncio
import io
import socket
import struct
import threading
import time
import zlib
from collections.abc import Iterator
from datetime import date

import pytest

from analytics import lake
from console.accounts import services as accounts
from console.sql.mysql import server, shared
from console.sql.mysql.errors import EndpointError
from console.sql.mysql.server import MySqlEndpoint, Room, Turns
from console.sql.mysql.shared import ResultFiles, Threads
from console.sql.mysql.variables import LIMITS, SessionVariables
from console.statements import LONGEST_STATEMENT
from mysqlwire.protocol import commands, texts
from tests.support import mysql_endpoint
from tests.support.cast import Cast
from tests.support.mysql_endpoint import OTHER, PASSWORD, USER, RawClient, read_result, running_endpoint

COM_QUERY, COM_STATISTICS, COM_PING = 0x03, 0x09, 0x0E
COM_STMT_PREPARE, COM_STMT_EXECUTE, COM_STMT_SEND_LONG_DATA, COM_STMT_CLOSE, COM_STMT_RESET = range(0x16, 0x1B)
QUERY_ATTRIBUTES = 1 << 27
MALFORMED, TOO_MANY_PLACEHOLDERS, TOO_MANY_STATEMENTS = (struct.pack("<BH", 0xFF, code) for code in (1835, 1390, 1461))
SYNTAX, NOT_OFFERED = struct.pack("<BH", 0xFF, 1064), struct.pack("<BH", 0xFF, 1235)
#: What holds the loop for longer than this is felt by everybody.
MOMENT_S = 0.5


@pytest.fixture
def endpoint() -> Iterator[int]:
    mysql_endpoint.sessions.clear()
    with running_endpoint() as port:
        yield port


@pytest.fixture
def client(endpoint: int) -> Iterator[RawClient]:
    """A client that has signed in, and says that its statements have attributes."""
    with RawClient(endpoint) as client:
        client.CAPABILITIES |= QUERY_ATTRIBUTES
        assert client.sign_in(USER, PASSWORD)[:1] == b"\0"
        yield client


def attributes(count: int) -> bytes:
    """So many nulls without a name, as COM_QUERY and COM_STMT_EXECUTE have them."""
    return b"\xfe" + struct.pack("<Q", count) + b"\1" + b"\xff" * ((count + 7) // 8) + b"\1" + b"\6\0\0" * count


def prepare(client: RawClient, text: bytes) -> bytes:
    """The first packet of the answer; the definitions of parameters are read over."""
    client.command(COM_STMT_PREPARE, text)
    answer = client.read()
    if answer[:1] == b"\0":
        count = struct.unpack_from("<H", answer, 7)[0]
        for _ in range(count + (1 if count else 0)):
            client.read()
    return answer


# --- One packet that is worked on for seconds ------------------------------------------------------------------------
@pytest.mark.parametrize("count", [commands.MOST_ATTRIBUTES + 1, 1_300_000, 2**63])
def test_a_statement_has_few_attributes(client: RawClient, count: int) -> None:
    packet = attributes(min(count, 1_300_000)) + b"hello"
    began = time.monotonic()
    client.command(COM_QUERY, b"\xfe" + struct.pack("<Q", count) + packet[9:])
    assert client.read().startswith(MALFORMED)
    assert time.monotonic() - began < MOMENT_S
    client.command(COM_QUERY, b"\0\1hello")
    assert b"hello" in b"".join(read_result(client, 2))


def test_an_execution_has_few_attributes_too(client: RawClient) -> None:
    statement = prepare(client, b"select 1")[1:5]
    head = statement + b"\x08\1\0\0\0"
    given = attributes(1_000_000)
    client.command(COM_STMT_EXECUTE, head + given[:9] + given[10:])  # no number of sets here
    assert client.read().startswith(MALFORMED)


@pytest.mark.parametrize("count", [commands.MOST_PARAMETERS + 1, 70_000, LONGEST_STATEMENT - 10])
def test_a_statement_with_too_many_parameters_is_not_prepared(client: RawClient, count: int) -> None:
    began = time.monotonic()
    assert prepare(client, b"select " + b"?" * count).startswith(TOO_MANY_PLACEHOLDERS)
    assert time.monotonic() - began < MOMENT_S
    assert not mysql_endpoint.connection().prepared.statements


def test_a_statement_that_could_not_be_run_is_not_prepared(client: RawClient) -> None:
    assert prepare(client, b"select '" + b"x" * LONGEST_STATEMENT).startswith(SYNTAX)
    assert not mysql_endpoint.connection().prepared.statements


@pytest.mark.parametrize("piece", ["?", ";", "''", "'';", "``", "/**/", "-- \n", "a ", "-", "/"])
def test_texts_are_gone_over_without_stopping_at_each_piece(piece: str) -> None:
    text = piece * (LONGEST_STATEMENT // len(piece))
    for read in (texts.single, texts.count_placeholders):
        began = time.process_time()
        read(text)
        assert time.process_time() - began < MOMENT_S


# --- Memory that a connection keeps ----------------------------------------------------------------------------------
def test_prepared_texts_have_a_bound_together(client: RawClient) -> None:
    text = b"select '" + b"x" * (LONGEST_STATEMENT - 100) + b"'"
    kept: list[bytes] = []
    while (answer := prepare(client, text))[:1] == b"\0":
        kept.append(answer)
    assert answer.startswith(TOO_MANY_STATEMENTS)
    assert 1 < len(kept) <= LIMITS.kept // len(text)
    client.command(COM_STMT_CLOSE, kept[0][1:5])
    assert prepare(client, text)[:1] == b"\0"


def test_long_data_has_a_bound_over_all_statements(client: RawClient) -> None:
    statements = [prepare(client, b"select ?")[1:5] for _ in range(3)]
    for statement in statements:
        client.command(COM_STMT_SEND_LONG_DATA, statement + b"\0\0" + b"x" * 3_000_000)
    assert client.is_closed()


def test_what_the_connections_of_an_account_keep_has_a_bound(endpoint: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST_KEPT_OF_ACCOUNT", 3_000_000)
    text = b"select '" + b"x" * 1_000_000 + b"'"
    with RawClient(endpoint) as first, RawClient(endpoint) as second, RawClient(endpoint) as other:
        for client, user in ((first, USER), (second, USER), (other, OTHER)):
            client.sign_in(user, PASSWORD)
        assert prepare(first, text)[:1] == prepare(first, text)[:1] == b"\0"
        assert prepare(second, text).startswith(TOO_MANY_STATEMENTS)
        assert prepare(second, b"select ?")[:1] == b"\0"
        assert prepare(other, text)[:1] == b"\0"


def test_what_was_executed_reset_and_closed_is_kept_no_more(client: RawClient) -> None:
    (session,) = mysql_endpoint.sessions
    piece = b"\0\0" + b"x" * 1_000_000
    for ending in (COM_STMT_EXECUTE, COM_STMT_RESET, COM_STMT_CLOSE):
        statement = prepare(client, b"select ?")[1:5]
        client.command(COM_STMT_SEND_LONG_DATA, statement + piece)
        if ending == COM_STMT_EXECUTE:
            client.command(ending, statement + b"\0\1\0\0\0" + b"\1" + b"\0\1" + b"\xfd\0\0")
            read_result(client, 2)
        elif ending == COM_STMT_RESET:
            client.command(ending, statement)
            client.read()
        client.command(COM_STMT_CLOSE, statement)
    client.command(COM_PING)
    client.read()
    assert session.connection.kept == 0


def test_long_data_is_kept_for_parameters_that_there_are(client: RawClient) -> None:
    statement = prepare(client, b"select ?")[1:5]
    client.socket.sendall(
        b"".join(
            struct.pack("<I", 8) + bytes([COM_STMT_SEND_LONG_DATA]) + statement + struct.pack("<HB", number, 0x61)
            for number in range(20_000)
        )
    )
    client.command(COM_PING)
    assert client.read()[:1] == b"\0"
    (kept,) = mysql_endpoint.connection().prepared.statements.values()
    assert set(kept.binding.long_data) == {0}


def test_large_packets_of_one_account_have_room_one_after_the_other(
    endpoint: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is announced by the first keeps the second waiting, and nobody of another account."""
    monkeypatch.setattr(server, "MOST_OF_ACCOUNT", 3_000_000)
    large = b"\0\1" + b"x" * 2_000_000
    with RawClient(endpoint) as first, RawClient(endpoint) as second, RawClient(endpoint) as other:
        for client, user in ((first, USER), (second, USER), (other, OTHER)):
            client.CAPABILITIES |= QUERY_ATTRIBUTES
            client.sign_in(user, PASSWORD)
        first.socket.sendall(struct.pack("<I", len(large) + 1) + bytes([COM_QUERY]) + large[:100])
        second.socket.settimeout(0.5)
        with pytest.raises(TimeoutError):
            second.command(COM_QUERY, large)
            second.read()
        other.command(COM_QUERY, large)
        assert other.read()
        first.socket.sendall(large[100:])
        assert first.read()


def test_room_that_was_taken_by_a_connection_that_ended_is_free_again() -> None:
    async def run() -> None:
        shared = Room()
        async with shared.of("mallory", server.MOST_OF_ACCOUNT):
            waiting = asyncio.create_task(_reserved(shared, "mallory"))
            await asyncio.sleep(0.05)
            assert not waiting.done()
            waiting.cancel()
            await asyncio.wait([waiting])
            await asyncio.wait_for(_reserved(shared, "bob"), 1)
        await asyncio.wait_for(_reserved(shared, "mallory"), 1)

    asyncio.run(run())


async def _reserved(shared: Room, account: str) -> None:
    async with shared.of(account, server.MOST_OF_ACCOUNT):
        pass


# --- Everybody's time ------------------------------------------------------------------------------------------------
def test_commands_that_are_sent_all_at_once_are_answered_by_turns(
    endpoint: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    real = mysql_endpoint.EchoSession.execute

    async def execute(self: mysql_endpoint.EchoSession, text: str, values: tuple[object, ...]) -> object:
        order.append(text)
        return await real(self, text, values)

    monkeypatch.setattr(mysql_endpoint.EchoSession, "execute", execute)
    with RawClient(endpoint) as mallory, RawClient(endpoint) as bob:
        mallory.sign_in(USER, PASSWORD)
        bob.sign_in(OTHER, PASSWORD)
        packet = struct.pack("<I", 9) + bytes([COM_QUERY]) + b"set a =1"
        reader = threading.Thread(target=_read_over, args=(mallory, 8_000), daemon=True)
        reader.start()
        mallory.socket.sendall(packet * 8_000)
        bob.command(COM_QUERY, b"set bob=1")
        assert bob.read()[:1] == b"\0"
        reader.join(60)
    assert order.count("set a =1") == 8_000
    assert order.index("set bob=1") < 4_000


def _read_over(client: RawClient, packets: int) -> None:
    for _ in range(packets):
        client.read()


def test_however_many_connections_an_account_has_one_of_them_begins_in_a_round() -> None:
    begun: list[str] = []

    async def ask(turns: Turns, account: str, times: int) -> None:
        for _ in range(times):
            await turns.wait(account)
            begun.append(account)

    async def run() -> None:
        turns = Turns()
        many = [asyncio.create_task(ask(turns, "mallory", 10)) for _ in range(200)]
        await asyncio.sleep(0)
        await ask(turns, "bob", 5)
        assert begun.count("mallory") <= 20
        await asyncio.gather(*many)
        assert not turns.waiting

    asyncio.run(run())


def test_one_account_leaves_threads_for_the_others() -> None:
    """Blocking calls that do not end stand for definitions over files that take long to look at."""
    gate = threading.Event()

    async def run() -> None:
        threads = Threads("test-endpoint", 4)
        held = [asyncio.create_task(threads.run_for("mallory", gate.wait)) for _ in range(50)]
        await asyncio.sleep(0.05)
        for _ in range(3):
            assert await asyncio.wait_for(threads.run_for("bob", lambda: "served"), 5) == "served"
        held[-1].cancel()
        gate.set()
        assert all(await asyncio.gather(*held[:-1]))
        await asyncio.to_thread(threads.close)

    asyncio.run(run())


def test_rows_of_megabytes_that_nobody_takes_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that does not read holds its row for as long as it has asked for time to take it."""
    monkeypatch.setattr(shared, "MOST_LARGE", 5_000_000)
    location = lake.result_location("1000001", "mq-private", "q2", date(2026, 1, 15))
    lake.write_file(location, io.BytesIO(b"n\n" + (b"x" * 3_000_000 + b"\n") * 2))

    async def run() -> None:
        threads = Threads("test-files", 2)
        files = ResultFiles(threads)
        first, second = [await files.rows(location, None, "mallory") for _ in range(2)]
        other = await files.rows(location, None, "bob")
        assert len(await first.fetch(10)) == 1
        with pytest.raises(EndpointError, match="wait for clients"):
            await second.fetch(10)
        assert len(await other.fetch(10)) == 1
        assert len(await first.fetch(10)) == 1  # the one before was taken
        for rows in (first, second, other):
            await rows.close()
        third = await files.rows(location, None, "mallory")
        assert len(await third.fetch(10)) == 1
        await third.close()
        await asyncio.to_thread(threads.close)

    asyncio.run(run())


def test_what_a_connection_has_set_and_was_told_is_kept_in_short() -> None:
    variables = SessionVariables()
    with pytest.raises(EndpointError, match="together"):
        for number in range(100):
            variables.assign(f"set @v{number} = '{'x' * 4000}'")
    variables.assign("set @v0 = 1")


def test_types_of_parameters_are_kept_in_two_bytes_each(client: RawClient) -> None:
    count = 1000
    statement = prepare(client, b"select " + b"?," * count)[1:5]
    head = statement + b"\x08\1\0\0\0" + b"\xfc" + struct.pack("<H", count)
    client.command(COM_STMT_EXECUTE, head + b"\xff" * (count // 8) + b"\1" + b"\x08\x80\0" * count)
    read_result(client, 2)
    (kept,) = mysql_endpoint.connection().prepared.statements.values()
    assert kept.binding.types == b"\x08\x80" * count


def test_one_account_leaves_results_for_the_others_to_read(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Cursors hold files for as long as a connection may be idle."""
    location = lake.result_location("1000001", "mq-private", "q1", date(2026, 1, 15))
    lake.write_file(location, io.BytesIO(b"n\n1\n"))

    async def run() -> None:
        threads = Threads("test-files", 2)
        files = ResultFiles(threads)
        opened = []
        with pytest.raises(EndpointError, match="try again"):
            while True:
                opened.append(await files.rows(location, None, "mallory"))
        assert len(opened) == shared.MAX_OPEN // 2
        for account in ("bob", "carol", "dave"):
            opened.append(await files.rows(location, None, account))
        for rows in opened:
            await rows.close()
            await rows.close()
        assert files.open == 0
        opened = [await files.rows(location, None, "mallory")]
        await opened[0].close()
        await asyncio.to_thread(threads.close)

    asyncio.run(run())


# --- With accounts --------------------------------------------------------------------------------------------------
@pytest.fixture
def real_endpoint(transactional_db: None, cast: Cast) -> Iterator[int]:
    accounts.set_database_password(user=cast.alice, name="demo", password=PASSWORD)
    accounts.set_database_password(user=cast.charlie, name="other", password=PASSWORD)
    with running_endpoint(lambda: MySqlEndpoint(None)) as port:
        yield port


def test_what_a_character_set_does_not_have_does_not_end_the_connection(real_endpoint: int) -> None:
    with RawClient(real_endpoint) as client:
        client.sign_in("demo", PASSWORD)
        client.command(COM_QUERY, b"set names latin1")
        assert client.read()[:1] == b"\0"
        client.command(COM_QUERY, b"create table t as x")  # its error has a sign that latin1 does not
        assert b"CREATE TABLE ? AS" in client.read()
        client.command(COM_PING)
        assert client.read()[:1] == b"\0"


def test_how_much_another_account_asks_is_not_told(real_endpoint: int) -> None:
    with RawClient(real_endpoint) as client, RawClient(real_endpoint) as other:
        client.sign_in("demo", PASSWORD)
        other.sign_in("other", PASSWORD)
        for _ in range(3):
            client.command(COM_QUERY, b"set @a = 1")
            client.read()
        other.command(COM_STATISTICS)
        assert b"Questions: 0" in other.read()
        client.command(COM_STATISTICS)
        assert b"Questions: 3" in client.read()


@pytest.mark.parametrize("code", [*range(0x20), 0xFE, 0xFF])
@pytest.mark.parametrize("data", [b"", b"\0", b"\xff" * 9, b"a" * 60_000], ids=["empty", "nul", "ones", "long"])
def test_no_command_tells_or_changes_anything_of_another_account(client: RawClient, code: int, data: bytes) -> None:
    """Replication, threads, shutdown, debug and all that nobody has given a meaning are refused."""
    client.command(code, data)
    client.command(COM_PING)
    try:
        answer = client.read()
    except (EOFError, ConnectionError):
        return
    served = {0x01, 0x02, 0x03, 0x04, 0x09, 0x0C, 0x0E, 0x11, *range(0x16, 0x1D), 0x1F}
    if code not in served:
        assert answer.startswith(NOT_OFFERED)
        assert client.read()[:1] == b"\0"


@pytest.mark.parametrize("code", range(0x21))
def test_no_command_is_answered_before_a_sign_in(endpoint: int, code: int) -> None:
    for sequence, rest in ((0, b"select 1"), (1, b"select 1"), (1, b"\0" * 40), (1, b"\xff" * 15_000)):
        with RawClient(endpoint) as stranger:
            stranger.sequence = sequence
            stranger.send(bytes([code]) + rest)
            try:
                answer = stranger.read()
                assert answer[:1] in (b"\xff", b"\xfe")
                if answer[:1] == b"\xfe":
                    stranger.send(b"")
                    assert stranger.read()[:1] == b"\xff"
                assert stranger.is_closed()
            except (EOFError, ConnectionError):
                continue
    assert all(session.username is None for session in mysql_endpoint.sessions)


@pytest.mark.parametrize("sequence", [1, 2, 7, 255])
@pytest.mark.parametrize("flags", [0, 0x20, 0x20 | 1 << 26, 0x80 | 1 << 16], ids=["plain", "zlib", "zstd", "local"])
def test_a_command_out_of_order_ends_the_connection_whatever_was_announced(
    endpoint: int, sequence: int, flags: int
) -> None:
    with RawClient(endpoint) as client:
        client.CAPABILITIES |= flags
        assert client.sign_in(USER, PASSWORD)[:1] == b"\0"
        client.sequence = sequence
        client.send(bytes([COM_QUERY]) + b"hello")
        assert client.read().startswith(MALFORMED)
        assert client.is_closed()


def test_what_is_compressed_is_read_as_it_is(endpoint: int) -> None:
    """Compression is not supported: who sends it all the same sends garbage."""
    inner = struct.pack("<I", 6) + bytes([COM_QUERY]) + b"hello"
    with RawClient(endpoint) as client:
        client.CAPABILITIES |= 0x20
        client.sign_in(USER, PASSWORD)
        packed = zlib.compress(inner * 100_000)
        client.socket.sendall(struct.pack("<I", len(packed))[:3] + b"\0" + struct.pack("<I", len(inner) * 100_000)[:3])
        client.socket.sendall(packed)
        client.socket.shutdown(socket.SHUT_WR)
        said = b""
        try:
            while piece := client.socket.recv(65536):
                said += piece
        except ConnectionError:
            said += b""
        assert b"hello" not in said
