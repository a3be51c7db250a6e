"""The text that PostgreSQL writes of a value, as JSON without loss.

    boolean                                true, false
    smallint, integer, bigint, oid, xid    a number
    real, double precision                 a number; "NaN", "Infinity", "-Infinity"
    numeric                                a text of the exact value: "123.450", "NaN", "Infinity"
    json, jsonb                            the value itself; a number in it that is no 64-bit integer and no double
                                           becomes a text of its digits
    bytea                                  base64
    date, time                             ISO 8601: "2024-02-29", "23:59:59.5", "12:00:00+02"
    timestamp, timestamptz                 "2024-02-29T23:59:59.5", and in UTC "2024-02-29T22:59:59.5Z"; before our era
                                           PostgreSQL's way, "0044-03-15T00:00:00 BC"; "infinity", "-infinity"
    interval                               ISO 8601: "P1Y2M3DT4H5M6.7S"
    arrays                                 arrays, nested as they are, null where an element is; bounds are not kept
    hstore                                 an object of texts
    domains                                as what they are made of
    all others                             the text: uuid, enums, ranges, bit strings, inet, money, xml, composites,
                                           points, tsvector, …

The texts are those of a session with the settings of `SESSION`.
"""

from __future__ import annotations

import binascii
import json
import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any, NamedTuple

Convert = Callable[[bytes], Any]

#: What the texts depend on. The currency of `money` stays as the database has it, since the amount depends on it.
SESSION = (
    "SET datestyle = 'ISO, YMD'; SET intervalstyle = 'iso_8601'; SET timezone = 'UTC'; SET extra_float_digits = 1;"
    " SET bytea_output = 'hex'"
)

#: Rows `TypeRow` of the types with these numbers, and of what they are made of.
TYPES_QUERY = """
WITH RECURSIVE asked AS (
    SELECT t.oid FROM pg_type t WHERE t.oid = ANY(%s::oid[])
  UNION
    SELECT part.oid FROM asked JOIN pg_type whole ON whole.oid = asked.oid
    JOIN pg_type part ON part.typarray = whole.oid OR (whole.typtype = 'd' AND part.oid = whole.typbasetype)
)
SELECT t.oid::bigint, t.typname::text, t.typbasetype::bigint, coalesce(element.oid, 0)::bigint,
       coalesce(element.typdelim, ',')::text
FROM asked JOIN pg_type t ON t.oid = asked.oid LEFT JOIN pg_type element ON element.typarray = t.oid
"""


class TypeRow(NamedTuple):
    """A type as the catalog has it: `base` of a domain, `element` of an array, 0 where it is neither."""

    oid: int
    name: str
    base: int
    element: int
    delimiter: str


class Types:
    """How values are converted, by the numbers of their types. What is not known is taken as its text."""

    def __init__(self) -> None:
        self._known: dict[int, Convert] = dict(_BUILT_IN)
        self._names: dict[int, str] = dict(_NAMES)

    def unknown(self, oids: Iterable[int]) -> list[int]:
        """The types that `learn` has to be told of."""
        return [oid for oid in oids if oid not in self._known]

    def learn(self, rows: Iterable[TypeRow]) -> None:
        """Take types from the catalog: each with those that it is made of."""
        types = {row.oid: row for row in rows}
        for oid in types:
            self._known.setdefault(oid, self._made(oid, types))
            self._names.setdefault(oid, self._named(oid, types))

    def convert(self, oid: int) -> Convert:
        """The function that makes JSON of a value of this type."""
        return self._known.get(oid, text)

    def names(self, columns: Iterable[tuple[str, int, int]]) -> dict[str, str]:
        """The types of columns whose values do not tell them, such as `timestamp(3)` and `date[]`.

        Of each column the name, the number of its type, and the type's modifier.
        """
        found = ((name, self._names.get(oid, ""), modifier) for name, oid, modifier in columns)
        return {name: _with_modifier(kind, modifier) for name, kind, modifier in found if kind}

    def _named(self, oid: int, types: dict[int, TypeRow]) -> str:
        row = types.get(oid)
        if oid in self._names or row is None:
            return self._names.get(oid, "")
        if row.element:
            element = self._named(row.element, types)
            return f"{element}[]" if element else ""
        return self._named(row.base, types) if row.base else "hstore" if row.name == "hstore" else ""

    def _made(self, oid: int, types: dict[int, TypeRow]) -> Convert:
        row = types.get(oid)
        if oid in self._known or row is None:
            return self.convert(oid)
        if row.element:
            return _array(self._made(row.element, types), row.delimiter.encode())
        if row.base:
            return self._made(row.base, types)
        return _hstore if row.name == "hstore" else text


def _with_modifier(kind: str, modifier: int) -> str:
    """A type with the digits of its fraction, or its length."""
    name = kind.removesuffix("[]")
    return f"{name}({modifier}){kind[len(name) :]}" if modifier >= 0 and name in _WITH_MODIFIER else kind


def text(raw: bytes) -> str:
    """The text itself. A database without a character set may hold what is no UTF-8, which is written as `\\xff`."""
    return str(raw, "utf-8", "backslashreplace")


def _boolean(raw: bytes) -> bool:
    return raw == b"t"


def _float(raw: bytes) -> float | str:
    value = float(raw)
    return value if value - value == 0 else text(raw)  # neither NaN nor infinite


def _bytea(raw: bytes) -> str:
    return binascii.b2a_base64(binascii.unhexlify(raw[2:]), newline=False).decode()  # behind \x


def _timestamp(raw: bytes) -> str:
    return text(raw.replace(b" ", b"T", 1))


def _timestamptz(raw: bytes) -> str:
    return text(raw.replace(b" ", b"T", 1).replace(b"+00", b"Z", 1))


def _json(raw: bytes) -> Any:
    try:
        value = json.loads(raw, parse_int=_json_integer, parse_float=_json_number)
        if b"\\ud" in raw.lower():
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):  # half of a surrogate pair, which `json` holds; nested too deeply
        return text(raw)
    return value


def _json_integer(digits: str) -> int | str:
    if len(digits) < 19:
        return int(digits)
    value = int(digits) if len(digits) <= 20 else 2**64
    return value if -(2**63) <= value < 2**63 else digits


def _json_number(digits: str) -> float | str:
    value = float(digits)
    return value if Decimal(repr(value)) == Decimal(digits) else digits


_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)
_PAIR = re.compile(rb'"((?:[^"\\]|\\.)*)"=>(?:NULL|"((?:[^"\\]|\\.)*)")', re.DOTALL)


def _unescaped(raw: bytes) -> bytes:
    return _ESCAPED.sub(rb"\1", raw) if b"\\" in raw else raw


def _hstore(raw: bytes) -> dict[str, str | None]:
    return {
        text(_unescaped(key)): None if value is None else text(_unescaped(value))
        for key, value in (pair.groups() for pair in _PAIR.finditer(raw))
    }


def _array(convert: Convert, delimiter: bytes) -> Convert:
    token = re.compile(rb'[{}]|"((?:[^"\\]|\\.)*)"|[^"{}' + delimiter + rb"]+", re.DOTALL)

    def element(raw: bytes) -> Any:
        return None if raw == b"NULL" else convert(raw)

    def nested(raw: bytes) -> list[Any]:
        outermost: list[Any] = []
        open_lists = [outermost]
        for found in token.finditer(raw):
            part = found[0]
            if part == b"{":
                inner: list[Any] = []
                open_lists[-1].append(inner)
                open_lists.append(inner)
            elif part == b"}":
                open_lists.pop()
            else:
                quoted = found[1]
                open_lists[-1].append(element(part) if quoted is None else convert(_unescaped(quoted)))
        result: list[Any] = outermost[0]
        return result

    def array(raw: bytes) -> list[Any]:
        if raw.startswith(b"["):  # bounds that do not begin at 1 stand before: [0:1]={…}
            raw = raw[raw.index(b"=") + 1 :]
        if b'"' in raw or raw.rfind(b"{") > 0:
            return nested(raw)
        inside = raw[1:-1]
        return [element(part) for part in inside.split(delimiter)] if inside else []

    return array


_BUILT_IN: dict[int, Convert] = {
    16: _boolean,
    17: _bytea,
    18: text,  # "char"
    19: text,  # name
    20: int,
    21: int,
    23: int,
    25: text,
    26: int,  # oid
    28: int,  # xid
    29: int,  # cid
    114: _json,
    142: text,  # xml
    700: _float,
    701: _float,
    790: text,  # money
    1042: text,  # character
    1043: text,  # character varying
    1082: text,  # date
    1083: text,  # time
    1114: _timestamp,
    1184: _timestamptz,
    1186: text,  # interval
    1266: text,  # timetz
    1560: text,  # bit
    1562: text,  # bit varying
    1700: text,  # numeric
    2950: text,  # uuid
    3802: _json,  # jsonb
    5069: int,  # xid8
}

#: Types whose values, as JSON, do not tell them.
_NAMES: dict[int, str] = {
    114: "json",
    600: "point",
    1082: "date",
    1083: "time",
    1114: "timestamp",
    1184: "timestamptz",
    1186: "interval",
    1266: "timetz",
    1560: "bit",
    1562: "varbit",
    3802: "jsonb",
}
_WITH_MODIFIER = frozenset({"time", "timetz", "timestamp", "timestamptz", "bit"})
