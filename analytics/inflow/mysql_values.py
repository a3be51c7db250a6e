"""Values of columns of MySQL and MariaDB as JSON, the same from a binary log as from a SELECT.

Whole numbers are numbers, DECIMAL is text with its declared decimals, BIT(n) text of n digits 0 and 1, FLOAT and DOUBLE
the shortest number that is the same, ENUM its label, SET the list of its labels in the order of the declaration, DATE,
TIME and DATETIME text as the database writes it with a `T` between date and time, TIMESTAMP the same in UTC with a `Z`,
JSON is embedded, a geometry is WKT (with `SRID=…;` in front where it has one), bytes are base64. What is no date in a
calendar (`0000-00-00`, `2024-00-10`) stays the text that it is.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from analytics.inflow.mysql_json import binary_json, json_value

Read = Callable[[bytes, int], tuple[Any, int]]
"""Reads a value of a row's image at an offset, and tells the offset behind it."""
Decode = Callable[[bytes], str]

_NATIVE = {"json", "uuid", "inet4", "inet6"}
"""Types that MariaDB writes to its log as text or bytes: only the table's definition tells them."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DIGITS_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
"""Bytes of a DECIMAL's group of so many digits."""
_FSP = re.compile(r"\((\d+)\)")
_LABEL = re.compile(r"'((?:[^']|'')*)'")


@dataclass(frozen=True, slots=True)
class Column:
    """A column as the server defines it."""

    name: str
    data_type: str
    """Of information_schema, such as `int`, or `json` where MariaDB means it."""
    column_type: str = ""
    """The same with length, labels and sign, such as `enum('a','b')`."""
    charset: str = ""
    """Empty of what is no text."""
    is_unsigned: bool = False
    labels: tuple[str, ...] = ()

    @property
    def native(self) -> str:
        """The type, of those that a log does not tell."""
        return self.data_type if self.data_type in _NATIVE else ""


def labels_of(column_type: str) -> tuple[str, ...]:
    """The labels of `enum('a','it''s')`."""
    if not column_type.startswith(("enum(", "set(")):
        return ()
    return tuple(found.replace("''", "'") for found in _LABEL.findall(column_type))


# --- of a binary log


def reader(number: int, meta: int, column: Column, decode: Decode | None) -> Read | None:  # noqa: PLR0911, PLR0912
    """What reads a column of type `number` (as the log has it) with its `meta`; None of a type that is not known.

    `decode` makes text of the column's character set, and is None of bytes.
    """
    if number in _WHOLE:
        return _whole(_WHOLE[number], signed=not column.is_unsigned)
    if number in (4, 5):
        return _float if number == 4 else _double
    if number == 246:
        return _decimal(meta >> 8, meta & 0xFF)
    if number in (15, 253, 254):
        prefix = 2 if meta > 255 else 1
        return _string(prefix, column, decode, padded=meta if number == 254 else 0)
    if number in (252, 242):
        return _string(meta, column, decode)
    if number in (140, 141):
        return _compressed(meta if number == 140 else (2 if meta > 255 else 1), decode)
    if number == 245:
        return _prefixed(meta, lambda data: binary_json(data, decimal_text) if data else None)
    if number == 255:
        return _prefixed(meta, geometry)
    if number == 247:
        return _enum(meta, column.labels)
    if number == 248:
        return _set(meta, column.labels)
    if number == 16:
        return _bit((meta >> 8) * 8 + (meta & 0xFF))
    if number == 13:
        return lambda data, at: (data[at] + 1900 if data[at] else 0, at + 1)
    times: dict[int, Read] = {10: _date, 14: _date, 11: _old_time, 12: _old_datetime, 7: _old_timestamp}
    if number in times:
        return times[number]
    fractions = {17: _timestamp, 18: _datetime, 19: _time}
    return fractions[number](meta) if number in fractions else None


def type_in_log(number: int, meta: int, column: Column) -> str:
    """The type of a column whose values do not tell it, such as `datetime(3)`; empty for others."""
    if number == 16:
        return f"bit({(meta >> 8) * 8 + (meta & 0xFF)})"
    if number in (12, 18):
        return f"datetime({meta if number == 18 else 0})"
    if column.native == "json":
        return "json"
    if number == 255 and column.data_type == "point":
        return "point"
    return {10: "date", 14: "date", 11: "time", 19: "time", 245: "json", 248: "set", 255: "geometry"}.get(number, "")


def type_defined(column: Column) -> str:
    """The same of a column as it is defined."""
    kind, length = column.data_type, _FSP.search(column.column_type)
    if kind in _GEOMETRIES:
        return "point" if kind == "point" else "geometry"
    if kind in ("bit", "datetime"):
        return f"{kind}({length[1] if length else 1 if kind == 'bit' else 0})"
    return kind if kind in ("date", "time", "set", "json") else ""


_WHOLE = {1: 1, 2: 2, 9: 3, 3: 4, 8: 8}


def _whole(size: int, *, signed: bool) -> Read:
    code = {1: "b", 2: "h", 4: "i", 8: "q"}.get(size)
    if code is None:
        return lambda data, at: (int.from_bytes(data[at : at + 3], "little", signed=signed), at + 3)
    unpack = struct.Struct("<" + (code if signed else code.upper())).unpack_from
    return lambda data, at: (unpack(data, at)[0], at + size)


_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")


def _float(data: bytes, at: int) -> tuple[float, int]:
    return shortest(_FLOAT.unpack_from(data, at)[0]), at + 4


def _double(data: bytes, at: int) -> tuple[float, int]:
    return _DOUBLE.unpack_from(data, at)[0], at + 8


def shortest(value: float) -> float:
    """The double with the fewest digits that is this number of four bytes: 0.1, not 0.10000000149011612."""
    for digits in range(6, 10):
        short = float(f"{value:.{digits}g}")
        try:
            if _FLOAT.unpack(_FLOAT.pack(short))[0] == value:
                return short
        except OverflowError:  # rounded up beyond the largest
            continue
    return value


def _decimal(precision: int, scale: int) -> Read:
    whole_groups, whole_rest = divmod(precision - scale, 9)
    part_groups, part_rest = divmod(scale, 9)
    groups = [(_DIGITS_BYTES[whole_rest], whole_rest)] if whole_rest else []
    groups += [(4, 9)] * whole_groups
    split = sum(digits for _, digits in groups)
    groups += [(4, 9)] * part_groups
    groups += [(_DIGITS_BYTES[part_rest], part_rest)] if part_rest else []
    size = sum(width for width, _ in groups)

    def read(data: bytes, at: int) -> tuple[str, int]:
        raw = int.from_bytes(data[at : at + size], "big")
        raw ^= 1 << (size * 8 - 1)
        is_negative = bool(raw >> (size * 8 - 1))
        if is_negative:
            raw ^= (1 << size * 8) - 1
        packed = raw.to_bytes(size, "big")
        digits, used = [], 0
        for width, count in groups:
            digits.append(f"{int.from_bytes(packed[used : used + width], 'big'):0{count}d}")
            used += width
        text = "".join(digits)
        number = (text[:split].lstrip("0") or "0") + (f".{text[split:]}" if scale else "")
        return (f"-{number}" if is_negative else number), at + size

    return read


def decimal_text(precision: int, scale: int, data: bytes) -> str:
    """A DECIMAL that stands alone, as in MySQL's JSON."""
    text, _ = _decimal(precision, scale)(data, 0)
    return str(text)


def _prefixed(size: int, of: Callable[[bytes], Any]) -> Read:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        start = at + size
        end = start + int.from_bytes(data[at:start], "little")
        return of(data[start:end]), end

    return read


def _string(size: int, column: Column, decode: Decode | None, padded: int = 0) -> Read:
    if column.native == "json" and decode is not None:
        return _prefixed(size, lambda data: json_value(decode(data)))
    if decode is not None:
        return _prefixed(size, decode)
    if column.native == "uuid":
        return _prefixed(size, lambda data: _uuid(data.ljust(16, b"\0")))
    if column.native in ("inet4", "inet6"):
        width = 4 if column.native == "inet4" else 16
        return _prefixed(size, lambda data: _address(data.ljust(width, b"\0")))
    # The log leaves out the zeros at the end of BINARY(n).
    return _prefixed(size, lambda data: base64.b64encode(data.ljust(padded, b"\0")).decode())


def _compressed(size: int, decode: Decode | None) -> Read:
    def plain(data: bytes) -> str:
        raw = _decompressed(data)
        return decode(raw) if decode is not None else base64.b64encode(raw).decode()

    return _prefixed(size, plain)


def _decompressed(data: bytes) -> bytes:
    """MariaDB's COMPRESSED columns: a byte that is 0 for plain, else says how; the length; the bytes."""
    if not data or data[0] == 0:
        return data[1:]
    is_raw = bool(data[0] & 0x08)
    return zlib.decompress(data[1 + (data[0] & 0x07) :], -zlib.MAX_WBITS if is_raw else zlib.MAX_WBITS)


def _uuid(data: bytes) -> str:
    # MariaDB turns what has a version below 6 around, so that it sorts by time.
    if data[6] & 0x80 and 0 < data[8] < 0x60:
        data = data[12:16] + data[10:12] + data[8:10] + data[6:8] + data[0:6]
    return str(UUID(bytes=data))


def _address(data: bytes) -> str:
    if len(data) == 4:
        return str(ipaddress.IPv4Address(data))
    return _ipv6(data)


def _ipv6(data: bytes) -> str:
    """As MariaDB writes it: the last four bytes of a mapped or compatible address with points."""
    address = ipaddress.IPv6Address(data)
    if address.ipv4_mapped is not None:
        return f"::ffff:{address.ipv4_mapped}"
    if not any(data[:12]) and any(data[12:14]):
        return f"::{ipaddress.IPv4Address(data[12:])}"
    return str(address)


def _enum(size: int, labels: tuple[str, ...]) -> Read:
    # 0 is what a value becomes that is none of the labels.
    names = ("", *labels)

    def read(data: bytes, at: int) -> tuple[str, int]:
        return names[int.from_bytes(data[at : at + size], "little")], at + size

    return read


def _set(size: int, labels: tuple[str, ...]) -> Read:
    def read(data: bytes, at: int) -> tuple[list[str], int]:
        mask = int.from_bytes(data[at : at + size], "little")
        return [label for index, label in enumerate(labels) if mask >> index & 1], at + size

    return read


def _bit(bits: int) -> Read:
    size = (bits + 7) // 8
    return lambda data, at: (f"{int.from_bytes(data[at : at + size], 'big'):0{bits}b}", at + size)


def _fraction(data: bytes, at: int, decimals: int) -> tuple[str, int]:
    size = (decimals + 1) // 2
    digits = f"{int.from_bytes(data[at : at + size], 'big'):0{size * 2}d}"
    return f".{digits[:decimals]}", at + size


def _date(data: bytes, at: int) -> tuple[str, int]:
    packed = int.from_bytes(data[at : at + 3], "little")
    return f"{packed >> 9:04d}-{packed >> 5 & 15:02d}-{packed & 31:02d}", at + 3


def _datetime(decimals: int) -> Read:
    def read(data: bytes, at: int) -> tuple[str, int]:
        packed = int.from_bytes(data[at : at + 5], "big") & 0x7F_FFFF_FFFF
        year, month = divmod(packed >> 22, 13)
        text = (
            f"{year:04d}-{month:02d}-{packed >> 17 & 31:02d}"
            f"T{packed >> 12 & 31:02d}:{packed >> 6 & 63:02d}:{packed & 63:02d}"
        )
        if not decimals:
            return text, at + 5
        fraction, end = _fraction(data, at + 5, decimals)
        return text + fraction, end

    return read


def _timestamp(decimals: int) -> Read:
    def read(data: bytes, at: int) -> tuple[str, int]:
        seconds = int.from_bytes(data[at : at + 4], "big")
        fraction, end = _fraction(data, at + 4, decimals) if decimals else ("", at + 4)
        if not seconds and not fraction.strip(".0"):
            return f"0000-00-00T00:00:00{fraction}", end
        return f"{_EPOCH + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S}{fraction}Z", end

    return read


def _old_timestamp(data: bytes, at: int) -> tuple[str, int]:
    text, _ = _timestamp(0)(data[at : at + 4][::-1], 0)
    return text, at + 4


def _time(decimals: int) -> Read:
    size = (decimals + 1) // 2
    zero = 0x800000 << size * 8

    def read(data: bytes, at: int) -> tuple[str, int]:
        end = at + 3 + size
        value = int.from_bytes(data[at:end], "big") - zero
        sign, value = ("-", -value) if value < 0 else ("", value)
        whole = value >> size * 8
        text = f"{sign}{whole >> 12 & 0x3FF:02d}:{whole >> 6 & 63:02d}:{whole & 63:02d}"
        if decimals:
            text += f".{value & ((1 << size * 8) - 1):0{size * 2}d}"[: decimals + 1]
        return text, end

    return read


def _old_time(data: bytes, at: int) -> tuple[str, int]:
    value = int.from_bytes(data[at : at + 3], "little", signed=True)
    sign, value = ("-", -value) if value < 0 else ("", value)
    return f"{sign}{value // 10000:02d}:{value // 100 % 100:02d}:{value % 100:02d}", at + 3


def _old_datetime(data: bytes, at: int) -> tuple[str, int]:
    digits = f"{int.from_bytes(data[at : at + 8], 'little'):014d}"
    return (
        f"{digits[:4]}-{digits[4:6]}-{digits[6:8]}T{digits[8:10]}:{digits[10:12]}:{digits[12:14]}",
        at + 8,
    )


# --- of a SELECT, whose values are text or bytes


def selected(column: Column) -> tuple[str, Callable[[Any], Any]]:  # noqa: PLR0911
    """The expression that selects a column, and what makes JSON of its value, which is not NULL."""
    name = "`" + column.name.replace("`", "``") + "`"
    kind = column.data_type
    if kind in ("tinyint", "smallint", "mediumint", "int", "bigint", "year"):
        return name, int
    if kind == "float":  # as text it has six digits
        return f"{name} + 0e0", lambda value: shortest(float(value))
    if kind == "double":
        return name, float
    if kind == "decimal":
        return name, _plain_decimal
    if kind == "bit":
        bits = int(found[1]) if (found := _FSP.search(column.column_type)) else 1
        return name, lambda value: f"{int.from_bytes(value, 'big'):0{bits}b}"
    if kind == "set":
        return name, lambda value: [label for label in column.labels if label in set(value.split(","))]
    if kind == "datetime":
        return name, lambda value: value.replace(" ", "T")
    if kind == "timestamp":
        return name, lambda value: value.replace(" ", "T") + ("" if value.startswith("0000-00-00") else "Z")
    if kind == "json":
        return name, json_value
    if kind in _GEOMETRIES:
        return name, geometry
    return name, lambda value: base64.b64encode(value).decode() if isinstance(value, bytes) else value


def _plain_decimal(text: str) -> str:
    sign, digits = ("-", text[1:]) if text.startswith("-") else ("", text)
    digits = digits.lstrip("0")  # of ZEROFILL
    return sign + ("0" + digits if not digits or digits.startswith(".") else digits)


# --- of both

_GEOMETRIES = {
    *("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon"),
    *("geometrycollection", "geomcollection"),
}
_NAMES = {
    **{1: "POINT", 2: "LINESTRING", 3: "POLYGON", 4: "MULTIPOINT"},
    **{5: "MULTILINESTRING", 6: "MULTIPOLYGON", 7: "GEOMETRYCOLLECTION"},
}


def geometry(data: bytes) -> str:
    """WKT of four bytes SRID and WKB; base64 of what is none."""
    try:
        text, _ = _wkt(data, 4)
    except (struct.error, IndexError, KeyError, RecursionError, binascii.Error):
        return base64.b64encode(data).decode()
    srid = int.from_bytes(data[:4], "little")
    return f"SRID={srid};{text}" if srid else text


def _wkt(data: bytes, at: int, *, with_name: bool = True) -> tuple[str, int]:
    order = "<" if data[at] else ">"
    number, count = struct.unpack_from(order + "II", data, at + 1)
    at += 5
    name = _NAMES[number]
    if number == 1:
        body, at = _points(data, at, 1, order)
    elif number in (2, 3):
        body, at = _points(data, at + 4, count, order) if number == 2 else _rings(data, at + 4, count, order)
    else:
        parts, at = [], at + 4
        for _ in range(count):
            part, at = _wkt(data, at, with_name=number == 7)
            parts.append(part)
        body = ",".join(parts)
    if not body:
        return f"{name} EMPTY", at
    return (f"{name}({body})" if with_name else f"({body})"), at


def _rings(data: bytes, at: int, count: int, order: str) -> tuple[str, int]:
    rings = []
    for _ in range(count):
        (points,) = struct.unpack_from(order + "I", data, at)
        ring, at = _points(data, at + 4, points, order)
        rings.append(f"({ring})")
    return ",".join(rings), at


def _points(data: bytes, at: int, count: int, order: str) -> tuple[str, int]:
    numbers = struct.unpack_from(f"{order}{count * 2}d", data, at)
    pairs = zip(numbers[::2], numbers[1::2], strict=True)
    return ",".join(f"{_number(x)} {_number(y)}" for x, y in pairs), at + count * 16


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
