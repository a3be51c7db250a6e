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

#: Parameters that a statement may have, and attributes besides: the loop reads all of them before anybody else's turn.
MOST_PARAMETERS, MOST_ATTRIBUTES = 16_384, 128

#: What may hold a `?` or a `;` that is none. What is never closed reaches to the end, and the repetitions are
#: possessive: no text is gone over twice.
_CLOSED = (
    r"""'(?:[^'\\]|\\.?|'')*+(?:'|\Z)|"(?:[^"\\]|\\.?|"")*+(?:"|\Z)|`[^`]*+(?:`|\Z)|--[^\n]*+|\#[^\n]*+"""
    r"""|/\*(?:[^*]|\*(?!/))*+(?:\*/|\Z)"""
)
_PIECES = re.compile(rf"{_CLOSED}|(?P<placeholder>\?)|(?P<end>;)", re.DOTALL)
#: From anywhere to behind the next one, in one step: a text may have a million of what is neither.
_TO_PLACEHOLDER, _TO_END = (
    re.compile(rf"(?:[^{sign}'\"`\-#/]++|{_CLOSED}|[^{sign}])*+\{sign}", re.DOTALL) for sign in "?;"
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

    #: Two bytes for each value: its type, and whether it is unsigned.
    types: bytes = b""
    long_data: dict[int, bytearray] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Execution:
    """One COM_STMT_EXECUTE: the values in order, and whether rows are fetched through a cursor."""

    values: tuple[Value, ...]
    use_cursor: bool


def count_placeholders(text: str) -> int:
    """Number of `?` outside quotes and comments."""
    count, found = 0, _TO_PLACEHOLDER.match(text)
    while found is not None:
        count += 1
        found = _TO_PLACEHOLDER.match(text, found.end())
    return count


def has_too_many_placeholders(text: str) -> bool:
    """True with more than MOST_PARAMETERS; what is behind them is not looked at."""
    found = _TO_PLACEHOLDER.match(text)
    for _ in range(MOST_PARAMETERS):
        if found is None:
            return False
        found = _TO_PLACEHOLDER.match(text, found.end())
    return found is not None


def single(text: str) -> str | None:
    """The statement without its closing `;` and comments behind that; None when another statement follows."""
    end = _TO_END.match(text)
    if end is None:
        return text
    return text[: end.end() - 1] if _BLANK_OR_COMMENT.fullmatch(text, end.end()) else None


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
    if count > MOST_ATTRIBUTES:
        raise PacketError(f"A statement has at most {MOST_ATTRIBUTES} attributes.")
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
    if not count <= given <= count + MOST_ATTRIBUTES:
        raise PacketError(
            f"The statement has {count} parameters, {given} were given; {MOST_ATTRIBUTES} can be attributes."
        )
    values = _read_values(reader, given, binding, named, decode) if given else []
    return Execution(tuple(values[:count]), bool(flags & _READ_ONLY_CURSOR))


def _read_values(
    reader: Reader, count: int, binding: Binding, named: bool, decode: Callable[[bytes], str]
) -> list[Value]:
    nulls = reader.take((count + 7) // 8)
    if reader.take(1)[0]:
        types = bytearray()
        for _ in range(count):
            types += reader.take(2)
            if named:
                reader.bytes_with_length()
        binding.types = bytes(types)
    if len(binding.types) != 2 * count:
        raise PacketError("The types of the parameters were never sent.")
    values: list[Value] = []
    for number, (kind, sign) in enumerate(zip(binding.types[::2], binding.types[1::2], strict=True)):
        if nulls[number // 8] >> (number % 8) & 1:
            values.append(None)
        elif number in binding.long_data:
            values.append(decode(bytes(binding.long_data[number])))
        else:
            values.append(_read_value(reader, kind, bool(sign & _UNSIGNED), decode))
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
