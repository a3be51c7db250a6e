"""What a server answers with: OK, EOF, errors, columns, rows (pages OK_Packet, EOF_Packet, ERR_Packet, Text Resultset,
Binary Protocol Resultset). Every function returns the payload of one packet.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from mysqlwire.protocol.charsets import BINARY, CharacterSet
from mysqlwire.protocol.constants import Capability, ColumnFlag, ColumnType, SessionTrack, Status
from mysqlwire.protocol.errors import SqlError
from mysqlwire.protocol.packets import length, with_length

#: Decimals of a column whose numbers have as many as they have.
ANY_DECIMALS = 0x1F
#: The first byte of what ends columns or rows.
_LAST = b"\xfe"
_MOST_WARNINGS = 0xFFFF
#: Characters of an error that are told.
_LONGEST_ERROR = 0xFFFF
_BYTES_OF_FIXED_FIELDS = length(0x0C)

_NUMBERS = {
    *(ColumnType.TINY, ColumnType.SHORT, ColumnType.INT24, ColumnType.LONG, ColumnType.LONGLONG, ColumnType.YEAR),
    *(ColumnType.FLOAT, ColumnType.DOUBLE, ColumnType.DECIMAL, ColumnType.NEWDECIMAL),
}
_BYTES = {ColumnType.TINY_BLOB, ColumnType.BLOB, ColumnType.MEDIUM_BLOB, ColumnType.LONG_BLOB}
_TEXTS = {
    *(ColumnType.VARCHAR, ColumnType.VAR_STRING, ColumnType.STRING, ColumnType.JSON, ColumnType.ENUM, ColumnType.SET),
}

_LAYOUTS = {
    ColumnType.TINY: "<b",
    ColumnType.SHORT: "<h",
    ColumnType.YEAR: "<h",
    ColumnType.INT24: "<i",
    ColumnType.LONG: "<i",
    ColumnType.LONGLONG: "<q",
    ColumnType.FLOAT: "<f",
    ColumnType.DOUBLE: "<d",
}
_PARAMETER = b"".join(
    (
        *(with_length(b"def"), *[with_length(b"")] * 3, with_length(b"?"), with_length(b"?"), _BYTES_OF_FIXED_FIELDS),
        struct.pack("<HIBHBH", BINARY.number, 0, ColumnType.VAR_STRING, ColumnFlag.BINARY, 0, 0),
    )
)


# --- The end of a command ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Change:
    """Something of the session that has changed, for clients that track it (page OK_Packet, Session State Information).

    `SCHEMA` has its new name as the only value, `SYSTEM_VARIABLES` a name and a value, `STATE_CHANGE` "1".
    """

    kind: SessionTrack
    values: tuple[str, ...]

    def encoded(self, charset: CharacterSet) -> bytes:
        """The entry as it stands in an OK packet."""
        return bytes([self.kind]) + with_length(b"".join(with_length(charset.encode(value)) for value in self.values))


def ok(
    capabilities: Capability,
    status: Status,
    *,
    charset: CharacterSet,
    affected_rows: int = 0,
    last_insert_id: int = 0,
    warnings: int = 0,
    changes: Sequence[Change] = (),
    first: bytes = b"\0",
) -> bytes:
    """OK_Packet. Changes are told to clients that track the session; others get the same without."""
    tracked = Capability.SESSION_TRACK in capabilities
    if changes and tracked:
        status |= Status.SESSION_STATE_CHANGED
    payload = first + length(affected_rows) + length(last_insert_id)
    payload += struct.pack("<HH", status, min(warnings, _MOST_WARNINGS))
    if Status.SESSION_STATE_CHANGED in status and tracked:
        payload += with_length(b"")  # no words of its own
        payload += with_length(b"".join(change.encoded(charset) for change in changes))
    return payload


def eof(status: Status, *, warnings: int = 0) -> bytes:
    """EOF_Packet: the end of columns or rows for clients that have not dropped it."""
    return _LAST + struct.pack("<HH", min(warnings, _MOST_WARNINGS), status)


def last(capabilities: Capability, status: Status, *, charset: CharacterSet, warnings: int = 0) -> bytes:
    """What stands behind the last row: an OK packet that begins like an EOF, or an EOF."""
    if Capability.DEPRECATE_EOF in capabilities:
        return ok(capabilities, status, charset=charset, warnings=warnings, first=_LAST)
    return eof(status, warnings=warnings)


def error(capabilities: Capability, problem: SqlError, charset: CharacterSet) -> bytes:
    """ERR_Packet. What the character set lacks is told as `?`; before sign-in it has no SQLSTATE."""
    payload = b"\xff" + struct.pack("<H", problem.code)
    if Capability.PROTOCOL_41 in capabilities:
        payload += b"#" + problem.state.encode("ascii")
    return payload + charset.encode(problem.message[:_LONGEST_ERROR])


def prepared(statement_id: int, *, columns: int, parameters: int, warnings: int = 0) -> bytes:
    """The first packet of the answer to COM_STMT_PREPARE (page COM_STMT_PREPARE)."""
    return struct.pack("<BIHHBH", 0, statement_id, columns, parameters, 0, min(warnings, _MOST_WARNINGS))


# --- Columns ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Column:
    """A column as clients see it: `length` in bytes, `decimals` as ANY_DECIMALS where it is not fixed.

    `text` and `value` make what the text and the binary protocol send from a cell that is a text; None sends the cell.
    """

    name: str
    kind: ColumnType = ColumnType.VAR_STRING
    length: int = 4 * 16_383
    decimals: int = 0
    text: Callable[[str], str | bytes] | None = None
    value: Callable[[str], Any] | None = None


def column_count(capabilities: Capability, count: int) -> bytes:
    """The first packet of rows."""
    if Capability.OPTIONAL_RESULTSET_METADATA in capabilities:
        return b"\1" + length(count)  # all columns follow
    return length(count)


def column(definition: Column, charset: CharacterSet, *, table: str = "") -> bytes:
    """Column Definition of protocol 4.1. Bytes, numbers and times have the character set `binary`, as in MySQL."""
    name, of_table = with_length(charset.encode(definition.name)), with_length(charset.encode(table))
    number = charset.number if definition.kind in _TEXTS else BINARY.number
    return b"".join(
        (
            *(with_length(b"def"), with_length(b""), of_table, of_table, name, name, _BYTES_OF_FIXED_FIELDS),
            struct.pack(
                "<HIBHBH", number, definition.length, definition.kind, _flags(definition), definition.decimals, 0
            ),
        )
    )


def listed_column(definition: Column, charset: CharacterSet, *, table: str) -> bytes:
    """A column in the answer to COM_FIELD_LIST: its default, which is null, follows (page COM_FIELD_LIST)."""
    return column(definition, charset, table=table) + b"\xfb"


def parameter() -> bytes:
    """The definition of a parameter, of which nothing is known before it has a value."""
    return _PARAMETER


def _flags(definition: Column) -> ColumnFlag:
    kind = definition.kind
    if kind in _BYTES:
        return ColumnFlag.BLOB | ColumnFlag.BINARY
    if kind in _NUMBERS:  # not BINARY, with which Connector/J makes bytes of a boolean
        return ColumnFlag.NUM
    return ColumnFlag(0) if kind in _TEXTS else ColumnFlag.BINARY


# --- Rows of the binary protocol --------------------------------------------------------------------------------------


def binary_row(cells: Sequence[Any], columns: Sequence[Column], codec: str) -> bytes:
    """A row (page Binary Protocol Resultset Row). What a column's type cannot hold raises ValueError.

    Which Python values a column takes: integers and floats for numbers, `date`, `datetime` and `timedelta` for times,
    texts, bytes, and whatever has a text for all else.
    """
    nulls = bytearray((len(columns) + 9) // 8)  # two bits are for something that never was
    values = bytearray()
    for number, (cell, of) in enumerate(zip(cells, columns, strict=True)):
        if cell is None:
            nulls[(number + 2) // 8] |= 1 << (number + 2) % 8
        else:
            values += binary_value(cell, of.kind, codec)
    return b"\0" + bytes(nulls) + bytes(values)


def binary_value(value: Any, kind: ColumnType, codec: str) -> bytes:
    """One value (page Binary Protocol Value). Raises ValueError when the type cannot hold it."""
    try:
        if layout := _LAYOUTS.get(kind):
            return struct.pack(layout, value)
        if kind in (ColumnType.DATE, ColumnType.DATETIME, ColumnType.TIMESTAMP):
            return _date(value)
        if kind is ColumnType.TIME:
            return _duration(value)
    except (struct.error, OverflowError, AttributeError) as problem:
        raise ValueError(f"A column of type {kind.name} cannot hold {type(value).__name__} {str(value)[:40]!r}.") from (
            problem
        )
    if isinstance(value, bytes | bytearray | memoryview):
        return with_length(bytes(value))
    return with_length((f"{value:f}" if isinstance(value, Decimal) else str(value)).encode(codec, "replace"))


def _date(value: date) -> bytes:
    """A date without time has 4 bytes, one without fractions of seconds 7, others 11."""
    if isinstance(value, datetime):
        if value.microsecond:
            return struct.pack(
                "<BHBBBBBI", 11, value.year, value.month, value.day, value.hour, value.minute, value.second,
                value.microsecond,
            )  # fmt: skip
        if value.hour or value.minute or value.second:
            return struct.pack(
                "<BHBBBBB", 7, value.year, value.month, value.day, value.hour, value.minute, value.second
            )
    return struct.pack("<BHBB", 4, value.year, value.month, value.day)


def _duration(value: timedelta) -> bytes:
    """A time: its sign, days, hours, minutes, seconds, and microseconds where there are any."""
    if not value:
        return b"\0"
    negative, size = value < timedelta(0), abs(value)
    minutes, seconds = divmod(size.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    fields = struct.pack("<BIBBB", negative, size.days, hours, minutes, seconds)
    return b"\x0c" + fields + struct.pack("<I", size.microseconds) if size.microseconds else b"\x08" + fields
