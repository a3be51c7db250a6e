"""Rows of a synchronous statement reach the client piece by piece; the endpoint holds no more than a piece of them."""

from __future__ import annotations

import resource
import struct
from typing import Any

import pymysql
import pytest
from django.db.backends.signals import connection_created
from pymysql.cursors import SSCursor

from analytics import lake
from analytics.errors import LakeError
from analytics.specs import Column
from console.sql.mysql import shared
from console.sql.mysql.shared import Threads
from console.sql.mysql.variables import LIMITS
from mysqlwire.aio.results import PIECE_ROWS
from tests.console.sql.mysql.conftest import PASSWORD, Engine, connect, rows
from tests.support import mysql_endpoint
from tests.support.broker import eventually
from tests.support.mysql_endpoint import USER, RawClient, read_result, running_endpoint

pytestmark = pytest.mark.django_db(transaction=True)
COM_QUERY = 0x03
COM_STMT_PREPARE, COM_STMT_EXECUTE, COM_STMT_CLOSE, COM_STMT_FETCH = 0x16, 0x17, 0x19, 0x1C
SELECT = "select * from flights"


class Readings:
    """Counts the rows that were read of the result files, and the files that are open."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.read = self.closed = 0
        self.fail_at: int | None = None
        self._stock = lake.read_result
        monkeypatch.setattr(lake, "read_result", self._read)

    def _read(self, location: str) -> Any:
        names, cells = self._stock(location)
        return names, self._count(cells)

    def _count(self, cells: Any) -> Any:
        try:
            for row in cells:
                if self.read == self.fail_at:
                    raise LakeError("the disk is gone")
                self.read += 1
                yield row
        finally:
            self.closed += 1


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> Readings:
    return Readings(monkeypatch)


def numbers(spark: Engine, count: int, width: int = 0) -> None:
    """Make the next result `count` numbers, each with a text of so many characters."""
    spark.columns = [Column("n", "bigint"), Column("s", "string")]
    spark.content = "n,s\n" + "".join(f"{n},{'x' * width}\n" for n in range(count))


def test_all_rows_arrive_in_order(endpoint: int, spark: Engine, readings: Readings) -> None:
    numbers(spark, 25_000, 5)
    with connect(endpoint) as connection:
        assert [row[0] for row in rows(connection, SELECT)] == list(range(25_000))
        assert rows(connection, "select found_rows()") == [(25_000,)]
    assert readings.closed == 1


def test_a_value_is_never_cut(endpoint: int, spark: Engine) -> None:
    numbers(spark, 2, 17_000_000)  # more than a packet of the protocol
    with connect(endpoint) as connection, connection.cursor() as cursor:
        connection.max_allowed_packet = 2**30
        cursor.execute(SELECT)
        assert [(n, len(s)) for n, s in cursor.fetchall()] == [(n, 17_000_000) for n in range(2)]
        assert rows(connection, "select 1") == [(1,)]


def test_a_client_that_does_not_read_holds_back_the_file(endpoint: int, spark: Engine, readings: Readings) -> None:
    numbers(spark, 20_000, 1000)
    with connect(endpoint) as connection, connect(endpoint) as other:
        cursor = connection.cursor(SSCursor)
        cursor.execute(SELECT)
        assert cursor.fetchone() == (0, "x" * 1000)
        eventually(lambda: readings.read > 0)
        for _ in range(30):  # the endpoint is not held up: it goes on serving others
            assert rows(other, "select 1") == [(1,)]
        assert readings.read < 15_000  # what two sockets hold, not the 20 MB
        assert len(cursor.fetchall()) == 19_999
    assert readings.read == 20_000


def test_memory_does_not_grow_with_the_result(endpoint: int, spark: Engine) -> None:
    numbers(spark, 100_000, 500)
    content_size = len(spark.content)
    with connect(endpoint) as connection:
        cursor = connection.cursor(SSCursor)
        cursor.execute("select 1 from flights")
        spark.content = ""
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert sum(1 for _ in cursor) == 100_000
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert grown < content_size / 4


def test_a_client_that_reads_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LIMITS, "write_s", 0.3)
    mysql_endpoint.sessions.clear()
    with running_endpoint() as port, RawClient(port) as client:
        client.sign_in(USER, mysql_endpoint.PASSWORD)
        client.command(COM_QUERY, b"endless")
        session = mysql_endpoint.sessions[-1]
        assert session.closed.wait(20)
        eventually(lambda: not session.connection.control.connections)
        assert session.taken < 100_000


def test_net_write_timeout_is_the_clients_to_set(endpoint: int) -> None:
    with connect(endpoint) as connection:
        rows(connection, "set net_write_timeout = 600")
        assert rows(connection, "select @@net_write_timeout") == [(600,)]
        with pytest.raises(pymysql.err.MySQLError, match="1231"):
            rows(connection, "set net_write_timeout = 'long'")


def test_a_client_that_goes_away_in_the_middle_closes_the_file(
    endpoint: int, spark: Engine, readings: Readings
) -> None:
    numbers(spark, 20_000, 1000)
    connection = connect(endpoint)
    connection._execute_command(COM_QUERY, SELECT)
    eventually(lambda: readings.read > 0)
    connection._force_close()
    eventually(lambda: readings.closed == 1)
    assert readings.read < 20_000


def test_a_statement_killed_while_its_rows_are_sent_ends_with_an_error(
    endpoint: int, spark: Engine, readings: Readings
) -> None:
    numbers(spark, 20_000, 1000)
    with connect(endpoint) as connection, connect(endpoint) as other:
        number = rows(connection, "select connection_id()")[0][0]
        cursor = connection.cursor(SSCursor)
        cursor.execute(SELECT)
        rows(other, f"kill query {number}")
        with pytest.raises(pymysql.err.MySQLError, match="1317"):
            list(cursor.fetchall())
        assert rows(connection, "select 1") == [(1,)]
    assert readings.closed == 1


def test_a_file_that_breaks_off_is_an_error_not_a_short_result(
    endpoint: int, spark: Engine, readings: Readings
) -> None:
    numbers(spark, 5000)
    readings.fail_at = 4000
    with connect(endpoint) as connection:
        with pytest.raises(pymysql.err.MySQLError, match="cannot be read"):
            rows(connection, SELECT)
        assert rows(connection, "select 1") == [(1,)]


def test_sql_select_limit_ends_the_stream(endpoint: int, spark: Engine, readings: Readings) -> None:
    numbers(spark, 5000)
    with connect(endpoint) as connection:
        rows(connection, "set sql_select_limit = 1500")
        assert len(rows(connection, SELECT)) == 1500
        rows(connection, "set sql_select_limit = default")
        assert len(rows(connection, SELECT)) == 5000
    assert readings.closed == 2


def test_open_result_files_are_counted(endpoint: int, spark: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "MAX_OPEN", 1)
    numbers(spark, 20_000, 1000)
    with connect(endpoint) as connection, connect(endpoint) as other:
        cursor = connection.cursor(SSCursor)
        cursor.execute(SELECT)
        with pytest.raises(pymysql.err.MySQLError, match="try again"):
            rows(other, SELECT)
        list(cursor.fetchall())
        numbers(spark, 1)
        assert len(rows(other, SELECT)) == 1


def prepared(client: RawClient, text: str) -> int:
    client.command(COM_STMT_PREPARE, text.encode())
    number: int = struct.unpack_from("<I", client.read(), 1)[0]
    return number


def test_a_cursor_reads_as_it_is_fetched(endpoint: int, spark: Engine, readings: Readings) -> None:
    numbers(spark, 30_000)
    with RawClient(endpoint) as client:
        client.sign_in("demo", PASSWORD)
        client.command(COM_QUERY, b"use demo")
        client.read()
        number = prepared(client, SELECT)
        client.command(COM_STMT_EXECUTE, struct.pack("<IBI", number, 1, 1))
        read_result(client, 1)
        assert readings.read == 0
        client.command(COM_STMT_FETCH, struct.pack("<II", number, 10))
        assert len(read_result(client, 1)) == 11
        assert readings.read == 10
        client.command(COM_STMT_CLOSE, struct.pack("<I", number))
        eventually(lambda: readings.closed == 1)
        assert readings.read == 10


def test_cursors_end_with_their_connection_and_are_counted(endpoint: int, spark: Engine, readings: Readings) -> None:
    numbers(spark, 10)
    with RawClient(endpoint) as client:
        client.sign_in("demo", PASSWORD)
        client.command(COM_QUERY, b"use demo")
        client.read()
        for _ in range(16):
            number = prepared(client, SELECT)
            client.command(COM_STMT_EXECUTE, struct.pack("<IBI", number, 1, 1))
            read_result(client, 1)
            client.command(COM_STMT_FETCH, struct.pack("<II", number, 1))
            assert len(read_result(client, 1)) == 2
        client.command(COM_STMT_EXECUTE, struct.pack("<IBI", prepared(client, SELECT), 1, 1))
        assert client.read().startswith(struct.pack("<BH", 0xFF, 1461))
    eventually(lambda: readings.closed == 16)


def test_a_piece_ends_where_it_is_large(spark: Engine, endpoint: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "PIECE_CHARACTERS", 10)
    cells = iter([["x" * 6], ["x" * 6], ["x"]])
    rows = shared.FileRows(shared.ResultFiles(Threads("test-files", 1)), cells, None, "alice")  # type: ignore[arg-type]
    assert rows._piece(cells, PIECE_ROWS) == ([["x" * 6], ["x" * 6]], False)  # type: ignore[arg-type]
    assert rows._piece(cells, PIECE_ROWS) == ([["x"]], True)  # type: ignore[arg-type]


def test_threads_keep_their_database_connections(endpoint: int) -> None:
    opened: list[object] = []

    def note(connection: object, **_: object) -> None:
        opened.append(connection)

    connection_created.connect(note)
    try:
        with connect(endpoint) as connection:
            for _ in range(40):
                rows(connection, "show databases")
    finally:
        connection_created.disconnect(note)
    assert len(opened) <= 8  # one for each thread
