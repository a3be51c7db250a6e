"""Change capture of MySQL and MariaDB: a snapshot of tables if wanted, and from there on what their binary log says.

A failure ends a capture; whoever uses it opens another at the last position that is durable. Without a position it
begins at the end of the log, so a new task keeps `capture.position` before anything else.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import pymysql
from pymysql.cursors import SSCursor

from analytics.inflow.changes import CaptureFailed, Change
from analytics.inflow.mysql_position import SNAPSHOT, Gtids, Position
from analytics.inflow.mysql_rows import RowReader, change_event, moment_text
from analytics.inflow.mysql_server import (
    CONNECT_SECONDS,
    Address,
    Server,
    Table,
    connect,
    faults,
    matcher,
    missing_right,
    translated,
)
from analytics.inflow.mysql_stream import LogStream
from analytics.inflow.mysql_values import selected, type_defined

#: Changes and bytes of the log that one call gives at most; an event of the log is the smallest piece.
PIECE_CHANGES = 1_000
PIECE_BYTES = 4 * 1024**2
#: A server without snapshots of its log holds all writes for a moment; it waits so long for those that run.
_LOCK_SECONDS = 10
_SNAPSHOT_SECONDS = 3600
"""How long the server waits for a reader of a snapshot whose consumer is slow."""
_SAVEPOINT = "before_table"
"""To go back to it lets a table that has been read be altered again."""


def open_capture(
    address: Address, tables: Sequence[str], position: str | None, *, snapshot: bool, source: str = ""
) -> MySqlCapture:
    """Begin after `position`, or at the end of the log with a snapshot of what is there, or without.

    `tables` are patterns such as `shop.orders` and `shop.*`. `source` is the events' own, `mysql://host:port` if empty.
    Raises CaptureFailed.
    """
    return MySqlCapture(address, tables, position, snapshot=snapshot, source=source)


def check(address: Address, tables: Sequence[str], position: str | None = None) -> list[CaptureFailed]:
    """All that keeps `open_capture` from working, each with what mends it; nothing is wrong when it is empty."""
    try:
        server = Server(address)
    except CaptureFailed as failed:
        return [failed]
    try:
        found = faults(server, tables)
        if any(failed.code == "LOG_OFF" for failed in found):
            return found
        try:
            at = _given(position) or _end_of_log(server)
            _probe(server, at)
        except CaptureFailed as failed:
            repeated = any((failed.code, failed.mend) == (other.code, other.mend) for other in found)
            found += [] if repeated else [failed]
        return found
    except CaptureFailed as failed:
        return [failed]
    finally:
        server.close()


def _probe(server: Server, position: Position) -> None:
    """Open the log at a position and leave it again."""
    stream, _ = _opened(server, position, lambda _schema, _table: False, "")
    stream.close()


def _given(position: str | None) -> Position | None:
    if position is None or position == SNAPSHOT:
        return None
    try:
        return Position.parse(position)
    except ValueError as error:
        raise CaptureFailed(f"{error}.", "LOG_UNREADABLE") from None


def _end_of_log(server: Server) -> Position:
    file, offset, gtids = server.status()
    return Position(file, offset, _gtids(server, file, offset, gtids))


def _gtids(server: Server, file: str, offset: int, gtids: str) -> Gtids:
    if server.is_mariadb:
        gtids = str(server.rows("SELECT BINLOG_GTID_POS(%s, %s)", file, offset)[0][0] or "")
    return Gtids.parse(gtids)


def _opened(
    server: Server, position: Position, wanted: Callable[[str, str], bool], source: str
) -> tuple[LogStream, RowReader]:
    stream = LogStream(server.address, position, is_mariadb=server.is_mariadb)
    rows = RowReader(position, server, wanted, source, is_mariadb=server.is_mariadb)
    try:
        while not rows.has_begun:
            packet = stream.packet(CONNECT_SECONDS)
            if packet is None:
                raise CaptureFailed(f"{server.address} does not begin to send its binary log.", "UNREACHABLE")
            rows.feed(packet)
    except CaptureFailed as failed:
        stream.close()
        if failed.code == "RIGHT_MISSING":
            raise missing_right(server.address, server.account, "REPLICATION SLAVE") from failed
        raise
    return stream, rows


class MySqlCapture:
    """A reader of the changes of one server; see `analytics.inflow.changes.Capture`."""

    def __init__(
        self, address: Address, tables: Sequence[str], position: str | None, *, snapshot: bool, source: str
    ) -> None:
        self._wanted = matcher(tables)
        self._source = source or f"mysql://{address}"
        self._stream: LogStream | None = None
        self._rows: RowReader | None = None
        self._snapshot: _Snapshot | None = None
        self.confirmed = ""
        """The last position that was confirmed. The server keeps its log by time, whoever has read it."""
        self._server = Server(address)
        try:
            for failed in faults(self._server, tables):
                raise failed
            at = _given(position)
            if at is None and (snapshot or position == SNAPSHOT):
                self._snapshot = _Snapshot(self._server, self._server.tables(tables), self._source)
            else:
                self._begin(at or _end_of_log(self._server))
        except BaseException:
            self.close()
            raise

    @property
    def position(self) -> str:
        """Where to go on when all changes so far are done. It moves on with changes of other tables too."""
        if self._rows is not None:
            return str(self._rows.position)
        return str(self._snapshot.position) if self._snapshot is not None and self._snapshot.has_ended else SNAPSHOT

    @property
    def last_ms(self) -> int:
        """Time of the last event that was read, ms since 1970; 0 before any."""
        return self._rows.last_ms if self._rows is not None else 0

    @property
    def remarks(self) -> list[str]:
        """What a user should know though it is no failure."""
        return self._rows.remarks if self._rows is not None else []

    def changes(self, wait_s: float) -> list[Change]:
        """What came since, in order; empty after `wait_s` seconds without any. Raises CaptureFailed."""
        if self._snapshot is not None:
            piece = [] if self._snapshot.has_ended else self._snapshot.piece()
            if piece:
                return piece
            self._begin(self._snapshot.position)
            self._snapshot = None
        return self._read(wait_s)

    def confirm(self, position: str) -> None:
        """All changes up to `position` are durable here."""
        self.confirmed = position

    def close(self) -> None:
        """End the connections."""
        if self._snapshot is not None:
            self._snapshot.close()
        if self._stream is not None:
            self._stream.close()
        self._server.close()

    def _begin(self, position: Position) -> None:
        self._stream, self._rows = _opened(self._server, position, self._wanted, self._source)

    def _read(self, wait_s: float) -> list[Change]:
        stream, rows = self._stream, self._rows
        if stream is None or rows is None:
            raise CaptureFailed("The capture has been closed.", "UNREACHABLE")
        deadline = time.monotonic() + wait_s
        taken = 0
        while len(rows.ready) < PIECE_CHANGES and taken < PIECE_BYTES:
            # What is there is given at once; only nothing waits.
            left = 0.0 if rows.ready else max(0.0, deadline - time.monotonic())
            packet = stream.packet(left)
            if packet is not None:
                taken += len(packet)
                rows.feed(packet)
            elif rows.ready or time.monotonic() >= deadline:
                break
        found, rows.ready = rows.ready, []
        return found


class _Snapshot:
    """All rows of tables as of one position of the log, read as the server sends them."""

    def __init__(self, server: Server, tables: list[Table], source: str) -> None:
        self._server = server
        self._source = source
        self._connection = connect(server.address, conv={}, cursorclass=SSCursor, read_timeout=_SNAPSHOT_SECONDS)
        self._cursor: Any = None
        self._held: Change | None = None
        self.has_ended = False
        try:
            with translated(server.address):
                self.position = self._consistent()
                self._execute(f"SAVEPOINT {_SAVEPOINT}")
        except BaseException:
            self.close()
            raise
        self._commit_ms = time.time_ns() // 1_000_000
        self._moment = moment_text(self._commit_ms)
        self._changes = self._read(tables)

    def piece(self) -> list[Change]:
        """The next rows; none at the end. Only the last has a position of the log: before, it has to begin again."""
        found: list[Change] = []
        with translated(self._server.address):
            for change in self._changes:
                if self._held is not None:
                    found.append(self._held)
                self._held = change
                if len(found) >= PIECE_CHANGES:
                    return found
        if self._held is not None:
            found.append(Change(str(self.position), self._held.commit_ms, self._held.event))
            self._held = None
        self.has_ended = True
        self.close()  # at once, since it keeps definitions from being changed
        return found

    def close(self) -> None:
        """End the connection, and with it the snapshot."""
        if self._cursor is not None and self._cursor._result is not None:
            # The driver would read all rows that are left, to end in order.
            self._cursor._result.unbuffered_active = False
            self._cursor.connection = None
        with suppress(pymysql.MySQLError):
            self._connection._force_close()

    def _consistent(self) -> Position:
        self._execute(f"SET SESSION net_write_timeout = {_SNAPSHOT_SECONDS}, wait_timeout = {_SNAPSHOT_SECONDS}")
        self._execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        if self._server.is_mariadb:
            self._execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            status = dict(self._execute("SHOW STATUS LIKE 'binlog_snapshot_%'"))
            names = {str(name).lower(): value for name, value in status.items()}
            file, offset = str(names["binlog_snapshot_file"]), int(names["binlog_snapshot_position"])
            return Position(file, offset, _gtids(self._server, file, offset, ""))
        self._server.rows(f"SET SESSION lock_wait_timeout = {_LOCK_SECONDS}")
        self._server.rows("FLUSH TABLES WITH READ LOCK")
        try:
            self._execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            return _end_of_log(self._server)
        finally:
            self._server.rows("UNLOCK TABLES")

    def _execute(self, statement: str) -> list[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    def _read(self, tables: list[Table]) -> Iterator[Change]:
        for table in tables:
            expressions, convert = zip(*(selected(column) for column in table.columns), strict=True)
            names = [column.name for column in table.columns]
            types = {column.name: kind for column in table.columns if (kind := type_defined(column))}
            self._cursor = self._connection.cursor()
            self._cursor.execute(f"SELECT {', '.join(expressions)} FROM {table.quoted}")  # noqa: S608 - quoted names
            for number, row in enumerate(self._cursor, 1):
                values = {
                    name: None if value is None else make(value)
                    for name, make, value in zip(names, convert, row, strict=True)
                }
                yield Change(SNAPSHOT, self._commit_ms, self._event(table, number, values, types))
            self._cursor.close()
            self._execute(f"ROLLBACK TO SAVEPOINT {_SAVEPOINT}")

    def _event(self, table: Table, number: int, values: dict[str, Any], types: dict[str, str]) -> dict[str, Any]:
        where = self.position.in_file
        return change_event(
            source=self._source,
            identity=f"{where}:{table.schema}.{table.name}:{number}",
            commit_ms=self._commit_ms,
            moment=self._moment,
            operation="READ",
            schema=table.schema,
            table=table.name,
            key={name: values[name] for name in table.key} or None,
            before=None,
            after=values,
            position=where,
            transaction=where,
            types=types,
        )
