"""What a client asks after signing in (pages Text Protocol, Utility Commands, Prepared Statements): each command as a
value. Reading needs what was agreed on (capabilities, character set), and for an execution what was prepared.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from mysqlwire.protocol.charsets import CharacterSet
from mysqlwire.protocol.constants import Capability, ColumnType, CursorFlag
from mysqlwire.protocol.errors import PacketError
from mysqlwire.protocol.packets import Reader

#: A bound value; dates and times are texts as MySQL writes them.
Value = str | int | float | bool | None
#: Parameters that a statement may have, and attributes besides: whoever reads them has no time for others meanwhile.
MOST_PARAMETERS, MOST_ATTRIBUTES = 16_384, 128

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
_DATES = frozenset({ColumnType.DATE, ColumnType.DATETIME, ColumnType.TIMESTAMP})
_UNSIGNED = 0x80
_SIZES_OF_DATES, _SIZES_OF_TIMES = (0, 4, 7, 11), (0, 8, 12)
_OFFERED_CURSORS = CursorFlag.READ_ONLY | CursorFlag.PARAMETER_COUNT_AVAILABLE


@dataclass(slots=True)
class Binding:
    """What a client has said about the values of one statement: types are sent once, values each time."""

    #: Two bytes for each value: its type, and whether it is unsigned.
    types: bytes = b""
    #: Values that were sent ahead, in pieces, by the number of their parameter.
    long_data: dict[int, bytearray] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Query:
    """COM_QUERY: a statement as text, and the attributes that go with it."""

    text: str
    attributes: dict[str, Value]


@dataclass(frozen=True, slots=True)
class Execution:
    """COM_STMT_EXECUTE: the values in order, and whether rows are fetched through a cursor."""

    values: tuple[Value, ...]
    use_cursor: bool
    attributes: dict[str, Value]


@dataclass(frozen=True, slots=True)
class LongData:
    """COM_STMT_SEND_LONG_DATA: a piece of one parameter's value."""

    statement_id: int
    parameter: int
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Fetch:
    """COM_STMT_FETCH: so many rows more of a cursor."""

    statement_id: int
    rows: int


@dataclass(frozen=True, slots=True)
class FieldList:
    """COM_FIELD_LIST: the columns of a table whose names are like a pattern, which may be empty."""

    table: str
    pattern: str


def read_query(data: bytes, capabilities: Capability, charset: CharacterSet) -> Query:
    """COM_QUERY behind its first byte. Raises PacketError, and ValueError for what is no text."""
    if Capability.QUERY_ATTRIBUTES not in capabilities:
        return Query(charset.decode(data), {})
    reader = Reader(data)
    count = reader.length()
    reader.length()  # number of parameter sets, always 1
    if count > MOST_ATTRIBUTES:
        raise PacketError(f"A statement has at most {MOST_ATTRIBUTES} attributes.")
    attributes: dict[str, Value] = {}
    if count:
        names, values = _read_values(reader, count, Binding(), charset, named=True)
        attributes = dict(zip(names, values, strict=True))
    return Query(charset.decode(reader.rest()), attributes)


def read_statement_id(data: bytes) -> int:
    """The number that a command about a prepared statement begins with. Raises PacketError."""
    return Reader(data).integer(4)


def read_execution(
    data: bytes, count: int, binding: Binding, capabilities: Capability, charset: CharacterSet
) -> Execution:
    """COM_STMT_EXECUTE behind its statement id, for a statement of `count` parameters.

    Types that are sent are kept in `binding`. Raises PacketError, and ValueError for what is no text.
    """
    reader = Reader(data)
    flags = reader.integer(1)
    if flags & ~_OFFERED_CURSORS.value:
        raise PacketError("Only read-only cursors are supported.")
    reader.read(4)  # iteration count, always 1
    named = Capability.QUERY_ATTRIBUTES in capabilities
    given = count
    if named and (count or flags & CursorFlag.PARAMETER_COUNT_AVAILABLE):
        given = reader.length()
    if not count <= given <= count + MOST_ATTRIBUTES:
        raise PacketError(
            f"The statement has {count} parameters, {given} were given; {MOST_ATTRIBUTES} can be attributes."
        )
    names, values = _read_values(reader, given, binding, charset, named=named) if given else ([], [])
    attributes = dict(zip(names[count:], values[count:], strict=True))
    return Execution(tuple(values[:count]), bool(flags & CursorFlag.READ_ONLY), attributes)


def read_long_data(data: bytes) -> LongData:
    """COM_STMT_SEND_LONG_DATA behind its first byte. Raises PacketError."""
    reader = Reader(data)
    return LongData(reader.integer(4), reader.integer(2), reader.rest())


def read_fetch(data: bytes) -> Fetch:
    """COM_STMT_FETCH behind its first byte. Raises PacketError."""
    reader = Reader(data)
    return Fetch(reader.integer(4), reader.integer(4))


def read_field_list(data: bytes, charset: CharacterSet) -> FieldList:
    """COM_FIELD_LIST behind its first byte. Raises PacketError, and ValueError for what is no text."""
    reader = Reader(data)
    table = charset.decode(reader.bytes_to_null())
    return FieldList(table, charset.decode(reader.rest().rstrip(b"\0")))


def read_option(data: bytes) -> bool:
    """COM_SET_OPTION behind its first byte: True when several statements in one text are wanted. Raises PacketError."""
    option = Reader(data).integer(2)
    if option > 1:
        raise PacketError(f"There is no option {option}.")
    return option == 0


def read_connection_id(data: bytes) -> int:
    """COM_PROCESS_KILL behind its first byte: the connection that is to end. Raises PacketError."""
    return Reader(data).integer(4)


# --- Values -----------------------------------------------------------------------------------------------------------


def _read_values(
    reader: Reader, count: int, binding: Binding, charset: CharacterSet, *, named: bool
) -> tuple[list[str], list[Value]]:
    """The names of values, empty for those without, and the values (page COM_STMT_EXECUTE)."""
    nulls = reader.read((count + 7) // 8)
    names = [""] * count
    if reader.integer(1):
        types = bytearray()
        for number in range(count):
            types += reader.read(2)
            if named:
                names[number] = reader.text(charset.decode)
        binding.types = bytes(types)
    if len(binding.types) != 2 * count:
        raise PacketError("The types of the parameters were never sent.")
    values: list[Value] = []
    for number, (kind, sign) in enumerate(zip(binding.types[::2], binding.types[1::2], strict=True)):
        if nulls[number // 8] >> (number % 8) & 1:
            values.append(None)
        elif number in binding.long_data:
            values.append(charset.decode(binding.long_data[number]))
        else:
            values.append(_read_value(reader, kind, charset, unsigned=bool(sign & _UNSIGNED)))
    return names, values


def _read_value(reader: Reader, number: int, charset: CharacterSet, *, unsigned: bool) -> Value:
    """One value (page Binary Protocol Value)."""
    try:
        kind = ColumnType(number)
    except ValueError as problem:
        raise PacketError(f"There is no type {number:#x}.") from problem
    if kind is ColumnType.NULL:
        return None
    if layouts := _NUMBERS.get(kind):
        return reader.number(layouts[unsigned])
    if kind is ColumnType.BOOL:
        return bool(reader.integer(1))
    if kind in _DATES:
        return _read_date(reader)
    if kind is ColumnType.TIME:
        return _read_time(reader)
    return reader.text(charset.decode)


def _read_date(reader: Reader) -> str:
    """A date of 0 or 4 bytes, or a date with time of 7 or 11."""
    size = reader.integer(1)
    if size not in _SIZES_OF_DATES:
        raise PacketError(f"No date has {size} bytes.")
    data = reader.read(size).ljust(11, b"\0")
    year, month, day, hour, minute, second, microseconds = struct.unpack("<HBBBBBI", data)
    text = f"{year:04}-{month:02}-{day:02}"
    if not any((hour, minute, second, microseconds)):
        return text
    return f"{text} {hour:02}:{minute:02}:{second:02}" + (f".{microseconds:06}" if microseconds else "")


def _read_time(reader: Reader) -> str:
    """A duration of 0, 8 or 12 bytes; its hours may be more than a day's."""
    size = reader.integer(1)
    if size not in _SIZES_OF_TIMES:
        raise PacketError(f"No time has {size} bytes.")
    negative, days, hours, minutes, seconds, microseconds = struct.unpack("<BIBBBI", reader.read(size).ljust(12, b"\0"))
    text = f"{'-' if negative else ''}{24 * days + hours:02}:{minutes:02}:{seconds:02}"
    return text + (f".{microseconds:06}" if microseconds else "")
