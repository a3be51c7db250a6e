"""Events of a binary log into changes, with the position after each; no I/O but questions for definitions.

A position is saved at the end of a transaction. Of a transaction that is still going on, a change has the position of
its start and its number in it, so that a long one can be left and gone on with.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Protocol

from analytics.inflow import mysql_binlog as binlog
from analytics.inflow.changes import CaptureFailed, Change
from analytics.inflow.mysql_binlog import Event, Kind, TableMap, Unreadable
from analytics.inflow.mysql_position import Position
from analytics.inflow.mysql_server import Table
from analytics.inflow.mysql_values import Column, Decode, Read, reader, type_in_log

_BITS = (0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80)
_COMMENTS = re.compile(r"\A(?:\s+|/\*(?!M?!).*?\*/|--[ \t][^\n]*\n|#[^\n]*\n)*", re.DOTALL)
_NAME = r"(?:`((?:[^`]|``)+)`|([\w$\u0080-\uffff]+))"
_TABLE = rf"{_NAME}(?:\s*\.\s*{_NAME})?"
_EMPTIED = re.compile(rf"(?:TRUNCATE(?:\s+TABLE)?|DELETE\s+FROM)\s+{_TABLE}\s*(?:WAIT\s+\d+|NOWAIT)?\s*;?\s*", re.I)
_STATEMENT = re.compile(r"(?:INSERT|UPDATE|DELETE|REPLACE|LOAD)\b", re.IGNORECASE)
_TARGET = re.compile(rf"\b(?:INTO(?:\s+TABLE)?|FROM|UPDATE|REPLACE)\s+(?:(?:LOW_PRIORITY|IGNORE)\s+)*{_TABLE}", re.I)
_BORDER = re.compile(r"(BEGIN|XA START|COMMIT|ROLLBACK(?!\s+TO))\b", re.IGNORECASE)
_WITHIN = re.compile(r"(?:SAVEPOINT|ROLLBACK\s+TO|XA END|RELEASE)\b", re.IGNORECASE)
_HIDDEN = "DB_ROW_HASH_"
"""Columns that MariaDB adds for unique keys over long values."""


class Definitions(Protocol):
    """What the server knows and its log does not tell."""

    def table(self, schema: str, name: str) -> Table:
        """A table's definition now; without columns where there is none."""
        ...

    def charset(self, collation: int) -> str:
        """The character set of a collation's number."""
        ...

    def decoder(self, charset: str) -> Decode | None:
        """What makes text of bytes in a character set; None of bytes that are no text."""
        ...


@dataclass(frozen=True, slots=True)
class _Plan:
    """How rows of a table are read while its map is this one."""

    body: bytes
    table: TableMap
    columns: tuple[tuple[str, Read], ...] = ()
    """Name and reader of each column; no column at all of a table that is not meant."""
    hidden: tuple[str, ...] = ()
    """Names of columns that are not shown."""
    key: tuple[str, ...] = ()
    types: Mapping[str, str] = field(default_factory=dict)
    """Of columns whose values do not tell them."""


def moment_text(commit_ms: int) -> str:
    """Milliseconds since 1970 as RFC 3339."""
    return f"{datetime.fromtimestamp(commit_ms // 1000, UTC):%Y-%m-%dT%H:%M:%S}.{commit_ms % 1000:03d}Z"


def change_event(
    *,
    source: str,
    identity: str,
    commit_ms: int,
    moment: str,
    operation: str,
    schema: str,
    table: str,
    key: dict[str, Any] | None,
    before: dict[str, Any] | None,
    after: dict[str, Any] | None,
    position: str,
    transaction: str,
    types: Mapping[str, str],
) -> dict[str, Any]:
    """A change as a CloudEvent; `moment` is `moment_text(commit_ms)`."""
    data: dict[str, Any] = {
        "operation": operation,
        "databaseName": schema,
        "schemaName": None,
        "tableName": table,
        "primaryKey": key,
        "before": before,
        "after": after,
        "commitTime": commit_ms,
        "position": position,
        "transaction": transaction,
        "snapshot": operation == "READ",
    }
    if types:
        data["types"] = types
    return {
        "specversion": "1.0",
        "id": identity,
        "source": source,
        "type": "dts:Change",
        "time": moment,
        "subject": f"{schema}.{table}",
        "datacontenttype": "application/json",
        "data": data,
    }


class RowReader:
    """Takes packets of a log from a position on, and collects changes of the tables that `wanted` names."""

    def __init__(
        self,
        position: Position,
        definitions: Definitions,
        wanted: Callable[[str, str], bool],
        source: str,
        *,
        is_mariadb: bool,
    ) -> None:
        self.ready: list[Change] = []
        self.remarks: list[str] = []
        """What a user should know though it is no failure."""
        self.has_begun = False
        """Whether the server has told the format: it accepted the position."""
        self.last_ms = 0
        """Time of the last event, ms since 1970."""
        self._framing = binlog.Framing()
        self._definitions = definitions
        self._wanted = wanted
        self._source = source
        self._is_mariadb = is_mariadb
        self._skip, self._skip_of = position.done, position.transaction
        self._position = replace(position, done=0, transaction="")
        self._file = position.file
        self._end = position.offset
        self._plans: dict[int, _Plan] = {}
        self._tables: dict[tuple[str, str], Table] = {}
        self._held: Change | None = None
        self._transaction = ""
        self._gtid = ""
        self._is_open = False
        self._has_statements = False
        self._number = 0
        self._commit_ms = 0
        self._moment = self._start = ""

    @property
    def position(self) -> Position:
        """Where to go on when all changes so far are done, those of `ready` among them."""
        return self._position

    def feed(self, packet: bytes) -> None:
        """Take one event. Raises CaptureFailed."""
        try:
            event = self._framing.event(packet)
            if event is not None:
                if event.seconds:
                    self.last_ms = event.seconds * 1000
                handle = _HANDLERS.get(event.kind)
                if handle is not None:
                    handle(self, event)
                if event.end and event.kind is not Kind.FORMAT:
                    self._end = event.end
        except (Unreadable, struct.error, IndexError, ValueError, KeyError) as error:
            raise CaptureFailed(
                f"The binary log at {self._file}:{self._end} cannot be read: it has {error}.",
                "LOG_UNREADABLE",
                _MENDS.get(next((word for word in _MENDS if word in str(error)), ""), ""),
            ) from error

    # --- borders of transactions

    def _rotate(self, event: Event) -> None:
        self._file, self._end = binlog.rotation(event.body)
        self._plans.clear()  # a server that starts again gives the numbers of tables anew
        if not self._is_open and not self._held and not self._position.gtids:
            self._position = replace(self._position, file=self._file, offset=self._end)

    def _format(self, event: Event) -> None:
        self.has_begun = True
        if binlog.is_start_of_server(event.body) and self._is_open:
            self._is_open, self._held = False, None  # the server died within it, and it is undone

    def _begin_mariadb(self, event: Event) -> None:
        self._begin(event, binlog.mariadb_begin(event))

    def _begin_mysql(self, event: Event) -> None:
        self._begin(event, binlog.mysql_begin(event))

    def _begin(self, event: Event, begin: binlog.Begin) -> None:
        self._gtid = begin.gtid
        self._transaction = begin.gtid or f"{self._file}:{event.end - event.size}"
        self._is_open, self._has_statements = True, self._is_mariadb and not begin.is_standalone
        self._number = 0
        self._commit_ms = begin.micros // 1000 or event.seconds * 1000
        self._moment = moment_text(self._commit_ms)
        self._start = str(self._position)

    def _end_transaction(self, event: Event) -> None:
        gtids = self._position.gtids.with_done(self._gtid) if self._gtid else self._position.gtids
        self._position = Position(self._file, event.end or self._end, gtids)
        if self._held is not None:
            self.ready.append(self._held._replace(position=str(self._position)))
        self._held, self._is_open, self._gtid = None, False, ""

    def _query(self, event: Event) -> None:
        schema, text = binlog.query(event)
        text = _COMMENTS.sub("", text, count=1)
        if border := _BORDER.match(text):
            if border[1].upper() not in ("BEGIN", "XA START"):
                self._end_transaction(event)
            elif self._is_open:
                self._has_statements = True
            else:
                self._begin(event, binlog.Begin("", False, 0))
                self._has_statements = True
            return
        if _WITHIN.match(text):
            return
        if not self._is_open:
            self._begin(event, binlog.Begin("", False, 0))
        if emptied := _EMPTIED.fullmatch(text):
            self._emptied(event, *_named(emptied, schema))
        elif event.kind is Kind.EXECUTE_LOAD or _STATEMENT.match(text):
            self._refuse_statement(schema, text)
        else:
            self._tables.clear()  # a definition may have changed
            self._plans.clear()
            if text.rstrip().upper().endswith("START TRANSACTION"):  # MySQL's CREATE TABLE … SELECT
                self._has_statements = True
        if not self._has_statements:
            self._end_transaction(event)

    def _emptied(self, event: Event, schema: str, table: str) -> None:
        if self._wanted(schema, table):
            self._add(event, "TRUNCATE", schema, table, _NO_PLAN, None, None)

    def _refuse_statement(self, schema: str, text: str) -> None:
        for target in _TARGET.finditer(text):
            of_schema, table = _named(target, schema)
            if self._wanted(of_schema, table):
                raise CaptureFailed(
                    f"Rows of {of_schema}.{table} were changed by a statement that the log has as text, at"
                    f" {self._file}:{self._end}: its session had another binlog_format than ROW. What it changed is"
                    " known only from a new snapshot.",
                    "LOG_FORMAT",
                    "SET GLOBAL binlog_format = ROW",
                )

    # --- rows

    def _map(self, event: Event) -> None:
        number = binlog.table_id(event.body)
        known = self._plans.get(number)
        if known is None or known.body != event.body:
            self._plans[number] = self._plan(event.body)

    def _plan(self, body: bytes) -> _Plan:
        # Names come first, so that a strange column of a table that nobody wants stops nothing.
        schema, name = binlog.names_of_table(body)
        if not self._wanted(schema, name):
            return _Plan(body, TableMap(0, schema, name, (), ()))
        table = binlog.table_map(body)
        definition = self._definition(schema, name)
        by_name = {column.name: column for column in definition.columns}
        names = table.names or self._names_now(table, definition)
        described = binlog.described(table, is_mariadb=self._is_mariadb)
        columns: list[tuple[str, Read]] = []
        types: dict[str, str] = {}
        for index, column_name in enumerate(names):
            now = by_name.get(column_name, Column(column_name, ""))
            column, decode = self._column(now, described[index])
            read = reader(table.types[index], table.metas[index], column, decode)
            if read is None:
                raise Unreadable(f"a column of an unknown type {table.types[index]}: {schema}.{name}.{column_name}")
            columns.append((column_name, read))
            if kind := type_in_log(table.types[index], table.metas[index], column):
                types[column_name] = kind
        hidden = tuple(each for each in names if each.startswith(_HIDDEN) and each not in by_name)
        key = tuple(names[index] for index in table.key) if table.names else definition.key
        return _Plan(body, table, tuple(columns), hidden, key, types)

    def _column(self, now: Column, told: binlog.Description) -> tuple[Column, Decode | None]:
        """A column as the log tells it, and as it is defined now in what the log does not tell."""
        charset = now.charset if told.collation is None else self._definitions.charset(told.collation)
        decode = self._definitions.decoder(charset)
        labels = now.labels
        if told.labels is not None:
            labels = tuple(
                label.decode("utf-8", "replace") if decode is None else decode(label) for label in told.labels
            )
        unsigned = now.is_unsigned if told.is_unsigned is None else told.is_unsigned
        return replace(now, charset=charset, labels=labels, is_unsigned=unsigned), decode

    def _definition(self, schema: str, name: str) -> Table:
        if (schema, name) not in self._tables:
            self._tables[schema, name] = self._definitions.table(schema, name)
        return self._tables[schema, name]

    def _names_now(self, table: TableMap, definition: Table) -> Sequence[str]:
        where = f"{table.schema}.{table.table}"
        names = [column.name for column in definition.columns]
        if len(names) != len(table.types):
            raise CaptureFailed(
                f"The binary log at {self._file}:{self._end} has {len(table.types)} columns of {where} without their"
                f" names, and the table now has {len(names)}: which is which is not known. The log has names where"
                " binlog_row_metadata is FULL.",
                "SCHEMA_UNKNOWN",
                "SET GLOBAL binlog_row_metadata = FULL",
            )
        remark = f"The log has no names of columns of {where}: they are those of the table now."
        if remark not in self.remarks:
            self.remarks.append(remark)
        return names

    def _rows(self, event: Event) -> None:
        plan = self._plans.get(binlog.table_id(event.body))
        if plan is None:
            raise Unreadable("rows of a table that it does not name")
        if not plan.columns:
            return
        if not self._is_open:
            self._begin(event, binlog.Begin("", False, 0))
            self._has_statements = True
        rows = binlog.rows(event)
        data, at, end = rows.data, rows.start, len(rows.data)
        is_update, is_insert = event.kind in binlog.UPDATES, event.kind in binlog.INSERTS
        schema, table = plan.table.schema, plan.table.table
        while at < end:
            values, at = _image(plan, data, at, rows.columns)
            if is_update:
                after, at = _image(plan, data, at, rows.columns_after)
                if len(rows.columns_after) < len(rows.columns):  # FULL_NODUP: only what is new
                    after = {**values, **after}
                self._add(event, "UPDATE", schema, table, plan, values, after)
            elif is_insert:
                self._add(event, "INSERT", schema, table, plan, None, values)
            else:
                self._add(event, "DELETE", schema, table, plan, values, None)

    def _add(  # noqa: PLR0917 - once a row: names cost time
        self,
        event: Event,
        operation: str,
        schema: str,
        table: str,
        plan: _Plan,
        before: dict[str, Any] | None,
        after: dict[str, Any] | None,
    ) -> None:
        self._number += 1
        if self._number <= self._skip and self._transaction == self._skip_of:
            return
        values = after if after is not None else before
        item = change_event(
            source=self._source,
            identity=f"{self._transaction}:{self._number}",
            commit_ms=self._commit_ms,
            moment=self._moment,
            operation=operation,
            schema=schema,
            table=table,
            key={name: values.get(name) for name in plan.key} if plan.key and values is not None else None,
            before=before,
            after=after,
            position=f"{self._file}:{event.end or self._end}",
            transaction=self._transaction,
            types=plan.types,
        )
        if self._held is not None:
            self.ready.append(self._held)
        # As `Position` writes it; made once a row, so not by it.
        self._held = Change(f"{self._start} +{self._number}@{self._transaction}", self._commit_ms, item)


_NO_PLAN = _Plan(b"", TableMap(0, "", "", (), ()))
_HANDLERS: dict[Kind, Callable[[RowReader, Event], None]] = {
    Kind.ROTATE: RowReader._rotate,
    Kind.FORMAT: RowReader._format,
    Kind.MARIADB_GTID: RowReader._begin_mariadb,
    Kind.GTID: RowReader._begin_mysql,
    Kind.ANONYMOUS_GTID: RowReader._begin_mysql,
    Kind.XID: RowReader._end_transaction,
    Kind.XA_PREPARE: RowReader._end_transaction,
    Kind.QUERY: RowReader._query,
    Kind.MARIADB_QUERY_COMPRESSED: RowReader._query,
    Kind.EXECUTE_LOAD: RowReader._query,
    Kind.TABLE_MAP: RowReader._map,
    **dict.fromkeys(sorted(binlog.ROWS), RowReader._rows),
}
_MENDS = {
    "compressed transaction": "SET GLOBAL binlog_transaction_compression = OFF",
    "PARTIAL_JSON": "SET GLOBAL binlog_row_value_options = ''",
}


def _named(found: re.Match[str], schema: str) -> tuple[str, str]:
    first, second = (found[1] or found[2]), (found[3] or found[4])
    names = (schema, first) if second is None else (first, second)
    return names[0].replace("``", "`"), names[1].replace("``", "`")


def _image(plan: _Plan, data: bytes, at: int, present: tuple[int, ...]) -> tuple[dict[str, Any], int]:
    nulls = data[at : at + (len(present) + 7) // 8]
    at += len(nulls)
    values: dict[str, Any] = {}
    columns = plan.columns
    for place, index in enumerate(present):
        name, read = columns[index]
        if nulls[place >> 3] & _BITS[place & 7]:
            values[name] = None
        else:
            values[name], at = read(data, at)
    for name in plan.hidden:
        values.pop(name, None)
    return values, at
