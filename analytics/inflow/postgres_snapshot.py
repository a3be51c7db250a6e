"""The rows that were there when the slot was made, as changes of the operation READ.

They are read in the snapshot that the slot exported, so each row is either read here or comes as a change, never both
and never neither. The tables are locked against ALTER and TRUNCATE, not against writers, until all are read.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
from psycopg import pq
from psycopg.rows import tuple_row

from analytics.inflow.changes import Change, Operation, event_of
from analytics.inflow.pgoutput import lsn_text
from analytics.inflow.postgres_setup import TableName, failure_of, failure_of_result, quoted
from analytics.inflow.postgres_transactions import Origin, Position, Table, TableColumn, primary_key
from analytics.inflow.postgres_values import TYPES_QUERY, TypeRow, Types

#: What is published of a table: its columns, and the condition that its rows must meet.
_PUBLISHED = """
SELECT t.relkind::text, to_jsonb(p)->>'rowfilter', a.attname::text, a.atttypid::bigint, a.atttypmod
FROM pg_publication_tables p
JOIN pg_namespace s ON s.nspname = p.schemaname
JOIN pg_class t ON t.relnamespace = s.oid AND t.relname = p.tablename
JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped
     AND CASE WHEN to_jsonb(p) ? 'attnames' THEN to_jsonb(p)->'attnames' ? a.attname::text ELSE a.attgenerated = '' END
WHERE p.pubname = %s AND p.schemaname = %s AND p.tablename = %s
ORDER BY a.attnum
"""

KEY_QUERY = """
SELECT a.attname::text
FROM pg_index i JOIN pg_class t ON t.oid = i.indrelid JOIN pg_namespace s ON s.oid = t.relnamespace
JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = ANY(i.indkey)
WHERE i.indisprimary AND s.nspname = %s AND t.relname = %s ORDER BY array_position(i.indkey::int2[], a.attnum)
"""

_ESCAPE = re.compile(rb"\\(.)", re.DOTALL)
_ESCAPES = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}


class Snapshot:
    """Reads the tables one after the other, as far as it is asked. Owns the connection."""

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        *,
        origin: Origin,
        slot: str,
        publication: str,
        tables: Sequence[TableName],
        name: str,
        lsn: int,
        types: Types,
    ) -> None:
        """`name` is that of the exported snapshot, `lsn` the position that it is consistent with."""
        self._connection = connection
        self._origin = origin
        self._slot = slot
        self._publication = publication
        self._types = types
        self._lsn = lsn
        self._now_ms = int(time.time() * 1000)
        try:
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            connection.execute(f"SET TRANSACTION SNAPSHOT '{name}'".encode())
            for table in tables:
                connection.execute(f"LOCK TABLE ONLY {quoted(*table)} IN ACCESS SHARE MODE".encode())
        except psycopg.Error as error:
            raise failure_of(error, slot) from error
        self._bytes = 0
        self._rows = self._read(tables)
        self._next: Change | None = next(self._rows, None)
        self.had_no_rows = self._next is None
        """Whether there was no row in any table."""

    @property
    def is_complete(self) -> bool:
        """Whether all rows were read."""
        return self._next is None

    def piece(self, limit: int, limit_bytes: int) -> list[Change]:
        """The next rows, at most `limit`, and no more once they have `limit_bytes`; none when all were read.

        The position of the last is where the stream goes on; that of all others says that the rows are not complete.
        """
        changes: list[Change] = []
        self._bytes = 0
        while self._next is not None and len(changes) < limit and self._bytes < limit_bytes:
            change, self._next = self._next, next(self._rows, None)
            changes.append(change if self._next is not None else change._replace(position=lsn_text(self._lsn)))
        return changes

    def close(self) -> None:
        """End the snapshot; a COPY that is under way ends with its connection."""
        self._connection.close()

    def _read(self, tables: Sequence[TableName]) -> Iterator[Change]:
        for name in tables:
            table, statement = self._described(name)
            if table is not None:
                for number, row in enumerate(self._copied(statement)):
                    yield self._change(table, number, row)

    def _described(self, name: TableName) -> tuple[Table | None, str]:
        cursor = self._connection.cursor(row_factory=tuple_row)
        try:
            columns = cursor.execute(_PUBLISHED, [self._publication, *name]).fetchall()
            if not columns:  # the patterns may have it, the publication does not
                return None, ""
            learn_types(self._connection, self._types, [oid for *_, oid, _ in columns])
            key = tuple(column for (column,) in cursor.execute(KEY_QUERY, list(name)).fetchall())
        except psycopg.Error as error:
            raise failure_of(error, self._slot) from error
        kind, condition = columns[0][:2]
        listed = ", ".join(quoted(column) for _, _, column, *_ in columns)
        where = f" WHERE {condition}" if condition else ""
        only = "" if kind == "p" else "ONLY "
        described = tuple(TableColumn(column, self._types.convert(oid), False) for _, _, column, oid, _ in columns)
        statement = f"COPY (SELECT {listed} FROM {only}{quoted(*name)}{where}) TO STDOUT"  # noqa: S608  all quoted
        types = self._types.names(column[2:] for column in columns)
        return Table(name.schema, name.name, described, key, types), statement

    def _copied(self, statement: str) -> Iterator[bytes]:
        """The lines of a COPY, which libpq holds one at a time."""
        connection = self._connection.pgconn
        has_encoding = self._connection.info.parameter_status("server_encoding") != "SQL_ASCII"
        try:
            if not has_encoding:  # bytes as they are: the server cannot convert them
                connection.exec_(b"SET client_encoding = 'SQL_ASCII'")
            self._check(connection.exec_(statement.encode()), pq.ExecStatus.COPY_OUT)
            while True:
                size, data = connection.get_copy_data(0)
                if size < 0:
                    break
                self._bytes += size
                yield bytes(data)
            while (result := connection.get_result()) is not None:
                self._check(result, pq.ExecStatus.COMMAND_OK)
            if not has_encoding:
                connection.exec_(b"SET client_encoding = 'UTF8'")
        except psycopg.Error as error:
            raise failure_of(error, self._slot) from error

    def _check(self, result: pq.abc.PGresult, wanted: pq.ExecStatus) -> None:
        if result.status != wanted:
            state = result.error_field(pq.DiagnosticField.SQLSTATE)
            raise failure_of_result(state, result.error_message, self._slot)

    def _change(self, table: Table, number: int, line: bytes) -> Change:
        values = {
            column.name: None if field == b"\\N" else column.convert(_unescaped(field))
            for column, field in zip(table.columns, line.rstrip(b"\n").split(b"\t"), strict=True)
        }
        place = lsn_text(self._lsn)
        event = event_of(
            Operation.READ,
            source=self._origin.source,
            identity=f"{self._origin.system}-{place}-{table.schema}.{table.name}-{number}",
            database=self._origin.database,
            schema=table.schema,
            table=table.name,
            primary_key=primary_key(table, values),
            before=None,
            after=values,
            commit_ms=self._now_ms,
            position=place,
            transaction="",
            types=table.types,
        )
        return Change(str(Position(self._lsn, in_snapshot=True)), self._now_ms, event)


def learn_types(connection: psycopg.Connection[Any], types: Types, oids: Sequence[int]) -> None:
    """Ask the catalog for the types that are not known yet."""
    unknown = types.unknown(oids)
    if unknown:
        rows = connection.cursor(row_factory=tuple_row).execute(TYPES_QUERY, [unknown]).fetchall()
        types.learn(TypeRow(*row) for row in rows)


def _unescaped(field: bytes) -> bytes:
    if b"\\" not in field:
        return field
    return _ESCAPE.sub(lambda found: _ESCAPES.get(found[1], found[1]), field)
