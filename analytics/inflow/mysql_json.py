"""JSON documents: MySQL's binary form, which its binary log has, and text, which MariaDB's has and a SELECT gives.

Binary, a value is a type and, for most, an offset from the start of the object or array around it; times in it are
text. A number that JSON's readers would change comes as text.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

DecimalText = Callable[[int, int, bytes], str]
"""Makes text of a DECIMAL: its precision, its scale, its bytes."""

_SMALL_OBJECT, _LARGE_OBJECT, _SMALL_ARRAY, _LARGE_ARRAY = 0, 1, 2, 3
_LITERAL, _STRING, _OPAQUE = 4, 12, 15
_NUMBERS = {5: "<h", 6: "<H", 7: "<i", 8: "<I", 9: "<q", 10: "<Q", 11: "<d"}
_LITERALS = {0: None, 1: True, 2: False}
_INLINE = {_LITERAL, 5, 6}
_INLINE_LARGE = _INLINE | {7, 8}
_LARGEST_INTEGER, _SMALLEST_INTEGER = 2**64 - 1, -(2**63)


def json_value(text: str) -> Any:
    """A JSON document. A number that JSON's readers would change comes as text, and so does what is no document."""
    try:
        value = json.loads(text, parse_int=_exact_int, parse_float=_exact_float, parse_constant=str)
        if "\\ud" in text or "\\uD" in text:  # half of a pair is no character
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return text
    return value


def _exact_int(text: str) -> int | str:
    if len(text) > 20:
        return text
    return number if _SMALLEST_INTEGER <= (number := int(text)) <= _LARGEST_INTEGER else text


def _exact_float(text: str) -> float | str:
    number = float(text)
    try:
        return number if Decimal(repr(number)) == Decimal(text) else text
    except ArithmeticError:
        return text


def binary_json(data: bytes, decimal_text: DecimalText) -> Any:
    """The document. Raises ValueError, IndexError or struct.error of what is none."""
    return _value(data[0], data, 1, decimal_text)


def _value(kind: int, data: bytes, at: int, decimal_text: DecimalText) -> Any:
    if kind in (_SMALL_OBJECT, _LARGE_OBJECT, _SMALL_ARRAY, _LARGE_ARRAY):
        return _container(kind, data, at, decimal_text)
    if kind == _LITERAL:
        return _LITERALS[data[at]]
    if kind in _NUMBERS:
        return struct.unpack_from(_NUMBERS[kind], data, at)[0]
    if kind == _STRING:
        length, at = _length(data, at)
        return data[at : at + length].decode()
    if kind == _OPAQUE:
        length, start = _length(data, at + 1)
        return _opaque(data[at], data[start : start + length], decimal_text)
    raise ValueError(f"JSON of type {kind}")


def _container(kind: int, data: bytes, base: int, decimal_text: DecimalText) -> Any:
    is_small = kind in (_SMALL_OBJECT, _SMALL_ARRAY)
    is_object = kind in (_SMALL_OBJECT, _LARGE_OBJECT)
    width = 2 if is_small else 4

    def number(at: int, size: int = width) -> int:
        return int.from_bytes(data[at : at + size], "little")

    count, at = number(base), base + 2 * width
    keys = []
    if is_object:
        for _ in range(count):
            start = base + number(at)
            keys.append(data[start : start + number(at + width, 2)].decode())
            at += width + 2
    values = []
    for _ in range(count):
        of = data[at]
        is_inline = of in (_INLINE if is_small else _INLINE_LARGE)
        values.append(_value(of, data, at + 1 if is_inline else base + number(at + 1), decimal_text))
        at += 1 + width
    return dict(zip(keys, values, strict=True)) if is_object else values


def _length(data: bytes, at: int) -> tuple[int, int]:
    length = shift = 0
    while True:
        byte = data[at]
        length |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return length, at


def _opaque(kind: int, data: bytes, decimal_text: DecimalText) -> Any:
    if kind == 246:
        return json_value(decimal_text(data[0], data[1], data[2:]))
    if kind in (7, 10, 11, 12):
        return _packed_time(kind, int.from_bytes(data, "little", signed=True))
    return base64.b64encode(data).decode()


def _packed_time(kind: int, packed: int) -> str:
    sign, packed = ("-", -packed) if packed < 0 else ("", packed)
    micros, whole = packed & 0xFF_FFFF, packed >> 24
    clock = f"{whole >> 6 & 63:02d}:{whole & 63:02d}.{micros:06d}"
    if kind == 11:
        return f"{sign}{whole >> 12 & 0x3FF:02d}:{clock}"
    year, month = divmod(whole >> 22, 13)
    date = f"{year:04d}-{month:02d}-{whole >> 17 & 31:02d}"
    return date if kind == 10 else f"{date}T{whole >> 12 & 31:02d}:{clock}"
