"""Prepared statements: finding the `?` of a text, and reading the values that a client binds to them. Pure.

The values stay values all the way to Spark; they are never pasted into the text.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, field

from mysql_mimic.types import Capabilities, ColumnType

from console.sql.door.reader import PacketError, Reader

Value = str | int | float | bool | None

#: What may hold a `?` or a `;` that is none, and the two themselves. What is never closed reaches to the end, and the
#: repetitions are possessive: no text is gone over twice.
_PIECES = re.compile(
    r"""'(?:[^'\\]|\\.?|'')*+(?:'|\Z)|"(?:[^"\\]|\\.?|"")*+(?:"|\Z)|`[^`]*+(?:`|\Z)|--[^\n]*+|\#[^\n]*+
      |/\*(?:[^*]|\*(?!/))*+(?:\*/|\Z)|(?P<placeholder>\?)|(?P<end>;)""",
    re.DOTALL | re.VERBOSE,
)
_BLANK_OR_COMMENT = re.compile(r"(?:[\s;]|--[^\n]*+|\#[^\n]*+|/\*(?:[^*]|\*(?!/))*+(?:\*/|\Z))*+")
_NO_CURSOR, _READ_ONLY_CURSOR, _COUNT_AVAILABLE = 0, 1, 8
_NUMBERS = {
    ColumnType.TINY: ("<b", "<B"),
    ColumnType.SHORT: ("<h", "<H"),
    ColumnType.YEAR: ("<h", "<H"),
    ColumnType.LONG: ("<i", "<I"),
    ColumnType.INT24: ("<i", "<I"),
    ColumnType.LONGLONG: ("<q", "<Q"),
    ColumnType.FLOAT: ("<f", "<f"),
    ColumnType.DOUBLE: ("<d", "<d"),
}
_TIMES = frozenset({ColumnType.DATE, ColumnType.DATETIME, ColumnType.TIMESTAMP})
_UNSIGNED = 0x80


@dataclass(slots=True)
class Binding:
    """What a client has said about the values of one statement: types are sent once, values each time."""

    types: list[tuple[int, bool]] = field(default_factory=list)
    long_data: dict[int, bytearray] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Execution:
    """One COM_STMT_EXECUTE: the values in order, and whether rows are fetched through a cursor."""

    values: tuple[Value, ...]
    use_cursor: bool


def count_placeholders(text: str) -> int:
    """Number of `?` outside quotes and comments."""
    return sum(1 for piece in _PIECES.finditer(text) if piece["placeholder"])


def single(text: str) -> str | None:
    """The statement without its closing `;` and comments behind that; None when another statement follows."""
    end = next((piece for piece in _PIECES.finditer(text) if piece["end"]), None)
    if end is None:
        return text
    return text[: end.start()] if _BLANK_OR_COMMENT.fullmatch(text, end.end()) else None


def bound(text: str, values: tuple[Value, ...]) -> str:
    """The text with its values as literals: for the short forms that are answered without Spark, never for Spark."""
    given = iter(values)
    return _PIECES.sub(lambda piece: _literal(next(given, None)) if piece["placeholder"] else piece[0], text)


def _literal(value: Value) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace("'", "''").replace("\0", "\\0")
        return f"'{escaped}'"
    return repr(value)


def read_query(data: bytes, capabilities: Capabilities, decode: Callable[[bytes], str]) -> str:
    """The text of a COM_QUERY packet; query attributes are read over. Raises PacketError."""
    if Capabilities.CLIENT_QUERY_ATTRIBUTES not in capabilities:
        return decode(data)
    reader = Reader(data)
    count = reader.length()
    reader.length()  # number of parameter sets, always 1
    if count:
        _read_values(reader, count, Binding(), named=True, decode=decode)
    return decode(reader.rest())


def read_execution(
    data: bytes, count: int, binding: Binding, capabilities: Capabilities, decode: Callable[[bytes], str]
) -> Execution:
    """Read a COM_STMT_EXECUTE packet behind its statement id (MySQL internals, COM_STMT_EXECUTE).

    Query attributes that follow the parameters are read over. Raises PacketError.
    """
    reader = Reader(data)
    flags = reader.take(1)[0]
    if flags & ~(_READ_ONLY_CURSOR | _COUNT_AVAILABLE):
        raise PacketError("Only read-only cursors are offered.")
    reader.take(4)  # iteration count, always 1
    named = Capabilities.CLIENT_QUERY_ATTRIBUTES in capabilities
    given = count
    if named and (count or flags & _COUNT_AVAILABLE):
        given = reader.length()
    if given < count:
        raise PacketError(f"The statement has {count} parameters, {given} were given.")
    values = _read_values(reader, given, binding, named, decode) if given else []
    return Execution(tuple(values[:count]), bool(flags & _READ_ONLY_CURSOR))


def _read_values(
    reader: Reader, count: int, binding: Binding, named: bool, decode: Callable[[bytes], str]
) -> list[Value]:
    nulls = reader.take((count + 7) // 8)
    if reader.take(1)[0]:
        binding.types = []
        for _ in range(count):
            kind, sign = reader.take(2)
            if named:
                reader.text(decode)
            binding.types.append((kind, bool(sign & _UNSIGNED)))
    if len(binding.types) != count:
        raise PacketError("The types of the parameters were never sent.")
    values: list[Value] = []
    for number, (kind, unsigned) in enumerate(binding.types):
        if nulls[number // 8] >> (number % 8) & 1:
            values.append(None)
        elif number in binding.long_data:
            values.append(decode(bytes(binding.long_data[number])))
        else:
            values.append(_read_value(reader, kind, unsigned, decode))
    return values


def _read_value(reader: Reader, kind: int, unsigned: bool, decode: Callable[[bytes], str]) -> Value:
    if kind == ColumnType.NULL:
        return None
    if layouts := _NUMBERS.get(ColumnType(kind)):
        return reader.number(layouts[unsigned])
    if kind in _TIMES:
        return _read_time(reader)
    if kind == ColumnType.TIME:
        raise PacketError("Parameters of type TIME are not offered; send a text.")
    return reader.text(decode)


def _read_time(reader: Reader) -> str:
    """A date or time of 0, 4, 7 or 11 bytes, as the text that Spark casts from."""
    data = reader.take(reader.take(1)[0]).ljust(11, b"\0")
    year, month, day, hour, minute, second, micros = struct.unpack("<HBBBBBI", data[:11])
    date = f"{year:04}-{month:02}-{day:02}"
    if not any((hour, minute, second, micros)):
        return date
    return f"{date} {hour:02}:{minute:02}:{second:02}" + (f".{micros:06}" if micros else "")
