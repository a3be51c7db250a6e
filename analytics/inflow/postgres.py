"""Capture of the changes of a PostgreSQL database by logical replication: slot, publication, plugin pgoutput.

The server keeps its log from the slot's position on until changes are confirmed, also while nobody reads: such a slot
fills the server's disk unless `max_slot_wal_keep_size` bounds it. `lag` tells how much it keeps, and `remove` drops it.

What logical replication does not have is not captured: sequences, views, large objects, DDL itself (tables are followed
as they change), and generated columns before PostgreSQL 18. The row before an UPDATE, and all of a deleted row, comes
only from tables with REPLICA IDENTITY FULL.
"""

from __future__ import annotations

import os
import re
import select
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import pq, sql
from psycopg.rows import tuple_row

from analytics.inflow.changes import CaptureFailed, Change, TablePatterns
from analytics.inflow.pgoutput import (
    DecodingFailed,
    Keepalive,
    Relation,
    decoded,
    epoch_ms,
    frame_of,
    lsn_of,
    lsn_text,
    status_update,
)
from analytics.inflow.postgres_setup import (
    TableName,
    check_server,
    check_slots_left,
    connection_failure,
    drop_slot,
    ensure_publication,
    failure_of,
    failure_of_result,
    find_slot,
    find_tables,
    look_for_tables,
    quoted,
    server_faults,
    slot_gone,
)
from analytics.inflow.postgres_snapshot import KEY_QUERY, Snapshot, learn_types
from analytics.inflow.postgres_transactions import Origin, Position, Table, TableColumn, Transactions
from analytics.inflow.postgres_values import SESSION, Types

#: Changes, and bytes of the stream, that one call of `changes` gives at most; the bytes are those of one row more.
PIECE_CHANGES = 2000
PIECE_BYTES = 4 * 1024**2
#: How often the server hears of us, s. It ends a connection that says nothing for wal_sender_timeout (60 s by itself).
HEARTBEAT_S = 10.0
#: How often tables that are new are looked for where a pattern has `*`, s.
NEW_TABLES_S = 30.0
#: How long the making of a slot waits for transactions that are open, s.
SLOT_WAIT_S = 60.0
CONNECT_S = 10
_LONGEST_WAIT_S = 1.0
_FRAMES_BETWEEN_LOOKS = 256
_NAME = re.compile(r"[a-z0-9_]{1,63}")
_TIMEOUTS = "SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0"
_IDLE_SESSIONS = 140_000  # the version from which idle_session_timeout is known
#: No function of a user's schema runs in our statements, and rows that a policy hides are an error, not missing.
_SAFETY = "SET search_path = ''; SET row_security = off"


@dataclass(frozen=True, slots=True)
class PostgresSource:
    """A database, who reads it, and the names of what is made there.

    `address` is the address to connect to, where `host` has been looked up already; certificates are compared with
    `host`. `ssl_mode` is libpq's: disable, allow, prefer, require, verify-ca, verify-full; `root_certificate` the path
    of a file with the certificates that the last two accept. `source` is the events'; by itself the address.
    """

    host: str
    database: str
    user: str
    slot: str
    password: str = field(default="", repr=False)
    port: int = 5432
    publication: str = ""
    ssl_mode: str = "prefer"
    root_certificate: str = ""
    address: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        """Fill in what follows from the rest. Raises ValueError for a name that the server would refuse."""
        if not _NAME.fullmatch(self.slot):
            raise ValueError(f"A slot has 1 to 63 letters a-z, digits and underscores as its name, not {self.slot!r}.")
        if not self.publication:
            object.__setattr__(self, "publication", self.slot)
        if not self.source:
            object.__setattr__(self, "source", f"postgresql://{self.host}:{self.port}/{self.database}")


def open_capture(
    source: PostgresSource, patterns: Iterable[str], position: str | None, *, snapshot: bool
) -> PostgresCapture:
    """Begin to capture behind `position`, or where nothing was captured yet: from now on.

    With `snapshot` and without a position the rows that are there come first. A position within those rows begins them
    again, with a new slot. Publication and slot are made if they are missing. Raises CaptureFailed, and ValueError for
    a pattern or position that is none.
    """
    wanted = TablePatterns(patterns)
    go_on = None if position is None else Position.of(position)
    if go_on is not None and go_on.in_snapshot:
        go_on, snapshot = None, True
    with ExitStack() as opened:
        connection = opened.enter_context(_connect(source))
        try:
            check_server(connection)
            tables = find_tables(connection, wanted)
            ensure_publication(connection, source.publication, tables.captured)
            slot = find_slot(connection, source.slot)
            if slot is None and go_on is not None:
                raise slot_gone(source.slot)
            if slot is not None and go_on is None and snapshot:
                drop_slot(connection, source.slot)  # of a snapshot that did not come to its end
                slot = None
            if slot is None:
                check_slots_left(connection)
        except psycopg.Error as error:
            raise failure_of(error, source.slot) from error
        stream = _Stream(source)
        opened.callback(stream.close)
        origin = Origin(source.source, stream.system(), source.database)
        capture = PostgresCapture(source, wanted, stream, origin, connection)
        capture.left_out = tables.left_out
        if slot is None:
            place, exported = stream.create_slot(export=snapshot)
            capture.begin(Position(place), tables.captured if snapshot else [], exported)
        else:
            capture.begin(go_on or Position(lsn_of(slot.confirmed)), [], "")
        opened.pop_all()
        return capture


def remove(source: PostgresSource) -> None:
    """Drop the slot and the publication, so that nothing of a capture is left. Raises CaptureFailed."""
    with _connect(source) as connection:
        try:
            if find_slot(connection, source.slot) is not None:
                drop_slot(connection, source.slot)
            connection.execute(f"DROP PUBLICATION IF EXISTS {quoted(source.publication)}".encode())
        except psycopg.Error as error:
            raise failure_of(error, source.slot) from error
        except CaptureFailed as failure:
            if failure.code != "SLOT_LOST":
                raise
            drop_slot(connection, source.slot)


def check(source: PostgresSource, patterns: Iterable[str], *, begins: bool = True) -> list[CaptureFailed]:
    """All that keeps `open_capture` from working, each with what mends it; nothing is wrong when it is empty.

    Whether the publication may be made is tried and taken back. A capture that `begins` makes a slot. Tables with
    which a pattern with `*` goes on without them are no fault. Raises ValueError for a pattern that is none.
    """
    wanted = TablePatterns(patterns)
    try:
        with _connect(source) as connection:
            found = server_faults(connection)
            if any(failure.code in ("VERSION_OLD", "REPLICA") for failure in found):
                return found
            tables, faults = look_for_tables(connection, wanted)
            found += faults
            if begins:
                with _kept(found):
                    check_slots_left(connection)
            if tables.captured:
                with _kept(found), connection.transaction(force_rollback=True):
                    ensure_publication(connection, source.publication, tables.captured)
            return found
    except psycopg.Error as error:
        return [failure_of(error, source.slot)]
    except CaptureFailed as failure:
        return [failure]


@contextmanager
def _kept(found: list[CaptureFailed]) -> Iterator[None]:
    """What is raised joins what was found."""
    try:
        yield
    except CaptureFailed as failure:
        found.append(failure)


class PostgresCapture:
    """An open capture (`changes.Capture`). A thread of its own tells the server that it is alive."""

    def __init__(
        self,
        source: PostgresSource,
        patterns: TablePatterns,
        stream: _Stream,
        origin: Origin,
        connection: psycopg.Connection[Any],
    ) -> None:
        self.left_out: dict[TableName, CaptureFailed] = {}
        """Tables that a pattern with `*` has and that are not captured, with the reason."""
        self._source = source
        self._patterns = patterns
        self._stream = stream
        self._origin = origin
        self._connection = connection
        self._types = Types()
        self._snapshot: Snapshot | None = None
        self._confirmed = Position(0)
        self._returned = Position(0)
        self._sent = 0
        self._behind_ms: int | None = None
        self._behind_at = 0.0
        self._tables_at = time.monotonic()

    def begin(self, position: Position, tables: list[TableName], exported: str) -> None:
        """Read the rows of `tables` in the exported snapshot first, and then the stream from the position on."""
        self._transactions = Transactions(self._origin, self._patterns, self._describe, position)
        self._confirmed = self._returned = position._replace(in_snapshot=bool(tables))
        if tables:
            self._snapshot = Snapshot(
                _connect(self._source),
                origin=self._origin,
                slot=self._source.slot,
                publication=self._source.publication,
                tables=tables,
                name=exported,
                lsn=position.lsn,
                types=self._types,
            )
        else:
            self._stream.start(position.lsn)

    @property
    def position(self) -> str:
        """Where a later capture goes on: what was confirmed last, or further where nothing has come since."""
        return str(self._confirmed)

    def changes(self, wait_s: float) -> list[Change]:
        """What has come since, at most PIECE_CHANGES; [] after `wait_s` without any. Raises CaptureFailed."""
        if self._snapshot is not None:
            piece = self._snapshot.piece(PIECE_CHANGES, PIECE_BYTES)
            if self._snapshot.is_complete:
                self._end_snapshot(self._snapshot)
            if piece:
                return self._handed_out(piece)
        self._look_for_new_tables()
        deadline = time.monotonic() + wait_s
        while not self._take(deadline):
            left = deadline - time.monotonic()
            if left <= 0:
                return []
            self._stream.wait(min(left, _LONGEST_WAIT_S))
        piece, self._transactions.ready = self._transactions.ready, []
        return self._handed_out(piece)

    def confirm(self, position: str) -> None:
        """All up to this position is kept. Raises ValueError for what is no position, and CaptureFailed."""
        confirmed = Position.of(position)
        if not confirmed.in_snapshot and confirmed[:2] >= self._confirmed[:2]:
            self._confirmed = confirmed
            self._move_on(to=0)
            self._stream.keep(self._confirmed.lsn)
            self._stream.tell()

    def lag(self) -> tuple[int, float | None]:
        """Bytes of the log that the server keeps for this capture, and the seconds that it is behind if known."""
        query = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), %s::pg_lsn)::bigint, pg_current_wal_lsn()::text"
        try:
            cursor = self._sql().cursor(row_factory=tuple_row).execute(query, [lsn_text(self._confirmed.lsn)])
            kept, end = cursor.fetchall()[0]
        except psycopg.Error as error:
            raise failure_of(error, self._source.slot) from error
        kept = max(0, kept)
        if self._snapshot is not None or self._behind_ms is None:
            return kept, None
        if self._is_idle() and self._stream.received >= lsn_of(end):
            return kept, 0.0
        return kept, max(0.0, self._behind_ms / 1000 + time.monotonic() - self._behind_at)

    def close(self) -> None:
        """Disconnect. What was not confirmed is read again."""
        if self._snapshot is not None:
            self._snapshot.close()
        self._stream.close()
        self._connection.close()

    def __enter__(self) -> PostgresCapture:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _end_snapshot(self, snapshot: Snapshot) -> None:
        snapshot.close()
        self._snapshot = None
        if snapshot.had_no_rows:
            self._confirmed = self._returned = self._confirmed._replace(in_snapshot=False)
        self._stream.start(self._confirmed.lsn)

    def _handed_out(self, piece: list[Change]) -> list[Change]:
        self._returned = Position.of(piece[-1].position)
        return piece

    def _is_idle(self) -> bool:
        """Whether all that has come is confirmed."""
        inside = self._transactions.is_inside or self._transactions.ready
        return not inside and not self._confirmed.in_snapshot and self._returned <= self._confirmed

    def _take(self, deadline: float) -> bool:
        """Take frames as long as there are any and the piece is not full; whether there are changes."""
        ready, size = self._transactions.ready, 0
        while not ready or (len(ready) < PIECE_CHANGES and size < PIECE_BYTES):
            limit = min(_FRAMES_BETWEEN_LOOKS, PIECE_CHANGES - len(ready))
            frames = self._stream.frames(limit, PIECE_BYTES - size)
            for data in frames:
                size += len(data)
                self._took(data)
            if not frames or time.monotonic() > deadline:
                break
        return bool(ready)

    def _took(self, data: bytes) -> None:
        try:
            frame = frame_of(data)
            if isinstance(frame, Keepalive):
                self._stream.took(frame.end)
                self._move_on(to=frame.end)
                if frame.wants_reply:
                    self._stream.tell()
                return
            message = decoded(frame.payload)
            self._stream.took(frame.start)
            self._transactions.take(frame.start, message)
        except DecodingFailed as error:
            raise CaptureFailed(f"The stream of the server cannot be read: {error}", "STREAM_BROKEN") from error
        kind = frame.payload[0]
        if kind == ord("B"):
            self._behind_ms = max(0, epoch_ms(frame.sent_us) - self._transactions.commit_ms)
            self._behind_at = time.monotonic()
        elif kind == ord("C"):
            self._move_on(to=self._transactions.end_lsn)

    def _move_on(self, *, to: int) -> None:
        """Let the server forget what has nothing for us, such as other tables: it has sent all up to `to`."""
        self._sent = max(self._sent, to)
        if self._is_idle() and self._sent > self._confirmed.lsn:
            self._confirmed = self._returned = Position(self._sent)
            self._stream.keep(self._sent)

    def _describe(self, relation: Relation) -> Table:
        """The types and the primary key of a table, as the catalog has them now."""
        try:
            connection = self._sql()
            learn_types(connection, self._types, [column.type_oid for column in relation.columns])
            key = tuple(column.name for column in relation.columns if column.in_identity)
            if relation.identity != "d":
                rows = connection.cursor(row_factory=tuple_row).execute(KEY_QUERY, [relation.schema, relation.name])
                key = tuple(name for (name,) in rows) or (key if relation.identity == "i" else ())
        except psycopg.Error as error:
            raise failure_of(error, self._source.slot) from error
        columns = tuple(
            TableColumn(column.name, self._types.convert(column.type_oid), column.in_identity)
            for column in relation.columns
        )
        types = self._types.names((column.name, column.type_oid, column.modifier) for column in relation.columns)
        return Table(relation.schema, relation.name, columns, key, types)

    def _look_for_new_tables(self) -> None:
        """Add tables to the publication that were made meanwhile; their changes come from then on."""
        now = time.monotonic()
        if now - self._tables_at < NEW_TABLES_S or all("*" not in pattern for pattern in self._patterns.patterns):
            return
        self._tables_at = now
        captured: list[TableName] = []
        try:
            captured, self.left_out = find_tables(self._sql(), self._patterns)
            ensure_publication(self._sql(), self._source.publication, captured)
        except CaptureFailed as failure:
            # What is captured goes on; the next start tells it too.
            self.left_out |= dict.fromkeys(captured, failure)
        except psycopg.Error as error:
            raise failure_of(error, self._source.slot) from error

    def _sql(self) -> psycopg.Connection[Any]:
        if self._connection.closed or self._connection.broken:
            self._connection = _connect(self._source)
        return self._connection


class _Stream:
    """The connection in replication mode: commands first, then COPY BOTH with frames in and status updates out.

    libpq allows one thread at a time, so what the heartbeat shares with the reader happens under a lock.
    """

    def __init__(self, source: PostgresSource) -> None:
        self._source = source
        self._connection = _connect(source, replication="database")
        self._pgconn = self._connection.pgconn
        self._pgconn.nonblocking = 0  # status updates are small, and wait for place
        if self._connection.info.parameter_status("server_encoding") == "SQL_ASCII":
            self._pgconn.exec_(
                b"SET client_encoding = 'SQL_ASCII'"
            )  # bytes as they are: the server cannot convert them
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._heart: threading.Thread | None = None
        self._kept = 0
        self.received = 0
        """How far the server has sent."""

    def system(self) -> str:
        """The number of the database cluster, which replicas share."""
        return _value(self._command("IDENTIFY_SYSTEM", CONNECT_S), 0)

    def create_slot(self, *, export: bool) -> tuple[int, str]:
        """Make the slot. Returns the position that it begins at, and the name of the snapshot that shows it."""
        action = "EXPORT_SNAPSHOT" if export else "NOEXPORT_SNAPSHOT"
        result = self._command(
            f"CREATE_REPLICATION_SLOT {quoted(self._source.slot)} LOGICAL pgoutput {action}", SLOT_WAIT_S
        )
        return lsn_of(_value(result, 1)), _value(result, 2) if export else ""

    def start(self, lsn: int) -> None:
        """Begin the stream behind a position."""
        self._kept = self.received = lsn
        publication = sql.Literal(quoted(self._source.publication)).as_string()
        result = self._pgconn.exec_(
            f"START_REPLICATION SLOT {quoted(self._source.slot)} LOGICAL {lsn_text(lsn)}"
            f" (proto_version '1', publication_names {publication})".encode()
        )
        self._check(result, pq.ExecStatus.COPY_BOTH)
        self._heart = threading.Thread(target=self._beat, name=f"replication {self._source.slot}", daemon=True)
        self._heart.start()

    def frames(self, limit: int, limit_bytes: int) -> list[bytes]:
        """Frames that are here, at most `limit`, and no more once they have `limit_bytes`."""
        frames: list[bytes] = []
        has_looked = False
        with self._lock:
            try:
                while len(frames) < limit and limit_bytes > 0:
                    size, data = self._pgconn.get_copy_data(1)
                    if size > 0:
                        frames.append(bytes(data))
                        limit_bytes -= size
                        has_looked = False
                    elif size < 0:
                        self._ended()
                    elif has_looked:
                        break
                    else:
                        self._pgconn.consume_input()
                        has_looked = True
            except psycopg.Error as error:
                raise failure_of(error, self._source.slot) from error
        return frames

    def wait(self, seconds: float) -> None:
        """Wait until something comes."""
        try:
            poll = select.poll()  # not select, which knows the first 1024 files only
            poll.register(self._pgconn.socket, select.POLLIN)
        except psycopg.Error as error:
            raise failure_of(error, self._source.slot) from error
        poll.poll(seconds * 1000)

    def took(self, lsn: int) -> None:
        """Something was received from there; 0 for what stands at no place."""
        self.received = max(self.received, lsn)

    def keep(self, lsn: int) -> None:
        """All before `lsn` may be forgotten; the server is told with the next status update."""
        self._kept = max(self._kept, lsn)
        self.received = max(self.received, lsn)

    def tell(self) -> None:
        """Send a status update, which the server takes as a sign of life too."""
        if self._heart is None:
            return
        update = status_update(written=self.received, flushed=self._kept, now_ms=int(time.time() * 1000))
        with self._lock:
            try:
                self._pgconn.put_copy_data(update)
                self._pgconn.flush()
            except psycopg.Error as error:
                raise failure_of(error, self._source.slot) from error

    def close(self) -> None:
        """Disconnect, after telling what was kept."""
        with suppress(CaptureFailed):
            self.tell()
        self._closing.set()
        if self._heart is not None:
            self._heart.join()
        self._connection.close()

    def _beat(self) -> None:
        while not self._closing.wait(HEARTBEAT_S):
            try:
                self.tell()
            except CaptureFailed:
                return  # the reader meets the same

    def _ended(self) -> None:
        """The server has ended the stream: with an error, or in order as it stops."""
        self._check(self._pgconn.get_result(), pq.ExecStatus.COPY_BOTH)
        raise CaptureFailed("The server has ended the stream.", "UNREACHABLE")

    def _command(self, statement: str, wait_s: float) -> pq.abc.PGresult:
        deadline = time.monotonic() + wait_s
        try:
            self._pgconn.send_query(statement.encode())
            while self._pgconn.is_busy():
                left = deadline - time.monotonic()
                if left <= 0:
                    raise CaptureFailed(
                        f"The server has not made the slot {self._source.slot} within {wait_s:g} s: it waits for"
                        " transactions that are open since before.",
                        "SLOT_WAITS",
                        "SELECT pid, xact_start, query FROM pg_stat_activity WHERE backend_xid IS NOT NULL",
                    )
                self.wait(min(left, _LONGEST_WAIT_S))
                self._pgconn.consume_input()
            result = self._check(self._pgconn.get_result(), pq.ExecStatus.TUPLES_OK)
            while self._pgconn.get_result() is not None:
                pass
        except psycopg.Error as error:
            raise failure_of(error, self._source.slot) from error
        return result

    def _check(self, result: pq.abc.PGresult | None, wanted: pq.ExecStatus) -> pq.abc.PGresult:
        if result is not None and result.status == wanted:
            return result
        state = None if result is None else result.error_field(pq.DiagnosticField.SQLSTATE)
        message = self._pgconn.error_message if result is None else result.error_message
        raise failure_of_result(state, message or b"the server stops", self._source.slot)


def _value(result: pq.abc.PGresult, column: int) -> str:
    return (result.get_value(0, column) or b"").decode()


def _connect(source: PostgresSource, **more: str) -> psycopg.Connection[Any]:
    """A connection with the settings of a capture. No password or certificate of this machine's own is sent."""
    options: dict[str, Any] = {
        "host": source.host,
        "port": source.port,
        "dbname": source.database,
        "user": source.user,
        "password": source.password,
        "passfile": f"{os.devnull}/none",
        "sslmode": source.ssl_mode,
        "sslcertmode": "disable",
        "gssencmode": "disable",
        "connect_timeout": CONNECT_S,
        "keepalives_idle": 30,
        "keepalives_interval": 10,
        "keepalives_count": 3,
        "tcp_user_timeout": 60_000,
        "client_encoding": "UTF8",
        "application_name": "gantry",
        **more,
    }
    if source.root_certificate:
        options["sslrootcert"] = source.root_certificate
    if source.address:
        options["hostaddr"] = source.address
    try:
        connection = psycopg.connect(autocommit=True, **options)
    except psycopg.Error as error:
        raise connection_failure(error, source.host, source.port) from error
    try:
        timeouts = _TIMEOUTS
        if connection.info.server_version >= _IDLE_SESSIONS:
            timeouts += "; SET idle_session_timeout = 0"
        for settings in (SESSION, timeouts, _SAFETY):
            result = connection.pgconn.exec_(settings.encode())
            if result.status != pq.ExecStatus.COMMAND_OK:
                state = result.error_field(pq.DiagnosticField.SQLSTATE)
                raise failure_of_result(state, result.error_message, source.slot)
    except BaseException:
        connection.close()
        raise
    return connection
