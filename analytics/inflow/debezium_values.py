"""Values of changes as Debezium's connectors write them in JSON without schemas, by the types that changes tell.

    date                    days since 1970
    time                    microseconds; of PostgreSQL's time(0) to time(3) milliseconds
    timetz                  a text in UTC: "10:00:00Z"
    timestamp, datetime     microseconds since 1970, milliseconds where the column has up to three digits of a fraction
    timestamptz             a text in UTC with as many digits as the column has: "2024-02-29T22:59:59.500000Z"
    interval                microseconds; a month has 30.4375 days
    bit(1)                  true, false
    bit(n), varbit          base64 of the bits as bytes, the lowest first
    json, jsonb, hstore     a text
    set                     its labels, separated by commas
    point                   an object of x, y, wkb and srid

Of arrays each element. What is no date of a calendar (`0000-00-00`) is null, as in Debezium; what there is no number
for at all (the date `infinity`) stays a text.
"""

from __future__ import annotations

import base64
import json
import re
import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from typing import Any

Convert = Callable[[Any], Any]

_TYPE = re.compile(r"(\w+)(?:\((\d+)\))?((?:\[\])?)")
_DATE = re.compile(r"(\d{4,})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d):(\d\d)(?:\.(\d+))?)?( BC)?")
_TIME = re.compile(r"(-?)(\d{2,}):(\d\d):(\d\d)(?:\.(\d+))?")
_TIMETZ = re.compile(r"(\d\d:\d\d:\d\d)(\.\d+)?([+-]\d\d)(?::(\d\d))?(?::\d\d)?")
_INSTANT = re.compile(r"(.*T\d\d:\d\d:\d\d)(?:\.(\d+))?Z")
_INTERVAL = re.compile(
    r"P(?:(-?\d+)Y)?(?:(-?\d+)M)?(?:(-?\d+)D)?(?:T(?:(-?\d+)H)?(?:(-?\d+)M)?(?:(-?)(\d+)(?:\.(\d+))?S)?)?"
)
_POINT = re.compile(r"(?:SRID=(\d+);)?(?:POINT)?\(([^\s,]+)[ ,]([^\s,)]+)\)")
_DAY_US, _MONTH_DAYS = 86_400_000_000, 365.25 / 12
#: Microseconds by which Debezium tells PostgreSQL's infinite times.
_INFINITE = {"infinity": 9_223_372_036_825_200_000, "-infinity": -9_223_372_036_832_400_000}
_MILLISECOND_DIGITS, _MOST_DIGITS = 3, 6


@lru_cache(maxsize=256)
def converter(kind: str, *, is_postgres: bool) -> Convert | None:
    """What makes Debezium's value of one of this type, as a change tells it; None where it is the same."""
    found = _TYPE.fullmatch(kind)
    if found is None:
        return None
    one = _single(found[1], None if found[2] is None else int(found[2]), is_postgres=is_postgres)
    return _of_array(one) if one is not None and found[3] else one


def _of_array(one: Convert) -> Convert:
    def of(value: Any) -> Any:
        if isinstance(value, list):
            return [of(each) for each in value]
        return None if value is None else one(value)

    return of


def _single(name: str, digits: int | None, *, is_postgres: bool) -> Convert | None:
    if name == "time":
        return _time_ms if is_postgres and digits is not None and digits <= _MILLISECOND_DIGITS else _time_us
    if name in ("timestamp", "datetime"):
        return _moment_ms if digits is not None and digits <= _MILLISECOND_DIGITS else _moment_us
    if name == "timestamptz":
        return _with_digits(_MOST_DIGITS if digits is None else digits)
    if name == "bit" and digits is not None:
        if digits == 1:
            return lambda value: value == "1"
        return _bits_of(0 if is_postgres else (digits + 7) // 8)
    return _OTHERS.get(name)


def _date(value: str) -> Any:
    found = _DATE.fullmatch(value)
    return value if found is None else _days(found)


def _days(found: re.Match[str]) -> int | None:
    """Days since 1970 in the calendar that goes on backwards; None for what is no date."""
    year, month, day = int(found[1]), int(found[2]), int(found[3])
    if not month or not day or not year:
        return None
    if found[8]:
        year = 1 - year
    year -= month <= 2
    era, of_era = divmod(year, 400)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def _moment_us(value: str) -> Any:
    if value in _INFINITE:
        return _INFINITE[value]
    found = _DATE.fullmatch(value)
    if found is None:
        return value
    days = _days(found)
    if days is None:
        return None
    seconds = int(found[4] or 0) * 3600 + int(found[5] or 0) * 60 + int(found[6] or 0)
    return days * _DAY_US + seconds * 1_000_000 + _micros(found[7])


def _moment_ms(value: str) -> Any:
    found = _moment_us(value)
    return found // 1000 if isinstance(found, int) else found


def _time_us(value: str) -> Any:
    found = _TIME.fullmatch(value)
    if found is None:
        return value
    micros = (int(found[2]) * 3600 + int(found[3]) * 60 + int(found[4])) * 1_000_000 + _micros(found[5])
    return -micros if found[1] else micros


def _time_ms(value: str) -> Any:
    found = _time_us(value)
    return found // 1000 if isinstance(found, int) else found


def _micros(fraction: str | None) -> int:
    return int((fraction or "")[:_MOST_DIGITS].ljust(_MOST_DIGITS, "0"))


def _timetz(value: str) -> Any:
    found = _TIMETZ.fullmatch(value)
    if found is None or found[1].startswith("24"):
        return value
    hours, minutes = int(found[3]), int(found[4] or 0)
    zone = timezone(timedelta(hours=hours, minutes=-minutes if found[3].startswith("-") else minutes))
    moment = datetime.strptime(f"2000-01-02T{found[1]}", "%Y-%m-%dT%H:%M:%S").replace(tzinfo=zone).astimezone(UTC)
    return f"{moment:%H:%M:%S}{found[2] or ''}Z"


def _with_digits(digits: int) -> Convert:
    def of(value: str) -> str:
        found = _INSTANT.fullmatch(value)
        if found is None or not digits:
            return value
        return f"{found[1]}.{(found[2] or '').ljust(digits, '0')}Z"

    return of


def _interval(value: str) -> Any:
    found = _INTERVAL.fullmatch(value)
    if found is None:
        return value
    years, months, days, hours, minutes = (int(part or 0) for part in found.groups()[:5])
    seconds = int(found[7] or 0) * 1_000_000 + _micros(found[8])
    whole = (years * 12 + months) * _MONTH_DAYS * _DAY_US
    return int(whole) + days * _DAY_US + (hours * 3600 + minutes * 60) * 1_000_000 + (-seconds if found[6] else seconds)


def _bits_of(least: int) -> Convert:
    def of(value: str) -> str:
        number = int(value or "0", 2)
        size = max(least, (number.bit_length() + 7) // 8)
        return base64.b64encode(number.to_bytes(size, "little")).decode()

    return of


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _set(value: list[str]) -> str:
    return ",".join(value)


def _point(value: str) -> Any:
    found = _POINT.fullmatch(value)
    if found is None:
        return value
    x, y = float(found[2]), float(found[3])
    wkb = struct.pack("<BIdd", 1, 1, x, y)
    return {"x": x, "y": y, "wkb": base64.b64encode(wkb).decode(), "srid": int(found[1]) if found[1] else None}


_OTHERS: dict[str, Convert] = {
    "date": _date,
    "timetz": _timetz,
    "interval": _interval,
    "bit": _bits_of(0),
    "varbit": _bits_of(0),
    "json": _json,
    "jsonb": _json,
    "hstore": _json,
    "set": _set,
    "point": _point,
}
