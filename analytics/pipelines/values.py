"""Values of texts and of JSON as values of a column: one converter for each type of Arrow, made once for a column."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, tzinfo
from decimal import Decimal, InvalidOperation
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa

from analytics.pipelines.patterns import python_layout

#: Makes a column's value of one that a body has, None of None. Raises ValueError with what the value is not.
Converter = Callable[[Any], Any]

SQL, ISO = "SQL", "ISO-8601"
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Times:
    """How texts of times are read: by a pattern of Java's, or by a standard; without a zone they are of `zone`."""

    standard: str = SQL
    pattern: str = ""
    zone: str = "UTC"


def converter(kind: pa.DataType, times: Times) -> Converter:
    """What makes values of the type. Raises ValueError for a type that no body has."""
    make = _strict_converter(kind, times)
    return lambda value: None if value is None else make(value)


def _strict_converter(kind: pa.DataType, times: Times) -> Converter:  # noqa: PLR0911  one answer for each type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _text
    if pa.types.is_integer(kind):
        return _integers(kind.bit_width)
    if pa.types.is_floating(kind):
        return _float
    if pa.types.is_boolean(kind):
        return _boolean
    if pa.types.is_decimal(kind):
        return _decimals(kind.precision, kind.scale)
    if pa.types.is_timestamp(kind):
        return _timestamps(times, has_zone=kind.tz is not None)
    if pa.types.is_date(kind):
        return _date
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return _bytes
    if pa.types.is_list(kind):
        return _lists(converter(kind.value_type, times))
    if pa.types.is_map(kind):
        return _maps(converter(kind.key_type, times), converter(kind.item_type, times))
    if pa.types.is_struct(kind):
        return _structs({field.name: converter(field.type, times) for field in kind})
    raise ValueError(f"no body has values of the type {kind}")


def _wrong(value: object, wanted: str) -> ValueError:
    shown = str(value)
    return ValueError(f"{shown[:_SHOWN]!r} is no {wanted}")


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _integers(bits: int) -> Converter:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1

    def make(value: Any) -> int:
        try:
            number = int(value.strip()) if isinstance(value, str) else int(value)
        except (ValueError, TypeError, OverflowError):
            raise _wrong(value, "whole number") from None
        if isinstance(value, bool) or (isinstance(value, float) and number != value):
            raise _wrong(value, "whole number")
        if not low <= number <= high:
            raise _wrong(value, f"whole number of {bits} bits")
        return number

    return make


def _float(value: Any) -> float:
    if isinstance(value, bool):
        raise _wrong(value, "number")
    try:
        return float(value)
    except (ValueError, TypeError):
        raise _wrong(value, "number") from None


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    known = {"true": True, "false": False}.get(str(value).strip().lower())
    if known is None:
        raise _wrong(value, "true and no false")
    return known


def _decimals(precision: int, scale: int) -> Converter:
    step, limit = Decimal(1).scaleb(-scale), Decimal(10) ** (precision - scale)

    def make(value: Any) -> Decimal:
        try:
            number = Decimal(str(value).strip()).quantize(step)
            fits = abs(number) < limit  # of what is no number nothing is known
        except InvalidOperation:
            raise _wrong(value, f"decimal({precision},{scale})") from None
        if isinstance(value, bool) or not fits:
            raise _wrong(value, f"decimal({precision},{scale})")
        return number

    return make


def _timestamps(times: Times, *, has_zone: bool) -> Converter:
    zone: tzinfo = UTC if times.zone in ("", "UTC") else ZoneInfo(times.zone)
    parse = _by_pattern(times.pattern) if times.pattern else _by_standard(times.standard)

    def make(value: Any) -> datetime:
        moment = value if isinstance(value, datetime) else parse(value)
        if has_zone:
            return moment.replace(tzinfo=zone) if moment.tzinfo is None else moment
        return moment if moment.tzinfo is None else moment.astimezone(zone).replace(tzinfo=None)

    return make


def _by_standard(standard: str) -> Callable[[Any], datetime]:
    sign = "T" if standard == ISO else " "

    def parse(value: Any) -> datetime:
        try:
            if value[10] != sign:
                raise ValueError
            return datetime.fromisoformat(value)
        except (ValueError, TypeError, IndexError, KeyError):
            shape = f"2026-01-15{sign}10:00:00.000"
            raise _wrong(value, f"time such as {shape}") from None

    return parse


def _by_pattern(pattern: str) -> Callable[[Any], datetime]:
    layout = python_layout(pattern)

    def parse(value: Any) -> datetime:
        try:
            return datetime.strptime(str(value), layout)  # noqa: DTZ007  the zone follows
        except ValueError:
            raise _wrong(value, f"time by the pattern {pattern}") from None

    return parse


def _date(value: Any) -> date:
    try:
        return date.fromisoformat(value)
    except (ValueError, TypeError):
        raise _wrong(value, "date such as 2026-01-15") from None


def _bytes(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise _wrong(value, "Base64") from None


def _lists(make: Converter) -> Converter:
    def convert(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise _wrong(value, "array")
        return [make(item) for item in value]

    return convert


def _maps(make_key: Converter, make_value: Converter) -> Converter:
    def convert(value: Any) -> list[tuple[Any, Any]]:
        if not isinstance(value, dict):
            raise _wrong(value, "object")
        return [(make_key(key), make_value(item)) for key, item in value.items()]

    return convert


def _structs(makers: dict[str, Converter]) -> Converter:
    def convert(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _wrong(value, "object")
        return {name: make(value.get(name)) for name, make in makers.items()}

    return convert
