"""What the value of an option can be: read from its text, or refused with what is allowed. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from analytics.charsets import is_charset
from analytics.pipelines.patterns import require_regex
from analytics.pipelines.plan import Value

#: Makes a value of a text, or raises ValueError with what is allowed, to go on a sentence.
Kind = Callable[[str], Value]

_SECOND = 1000
#: Milliseconds of a unit, by all its names.
_UNITS = {
    **dict.fromkeys(("ms", "milli", "millis", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), _SECOND),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60 * _SECOND),
    **dict.fromkeys(("h", "hour", "hours"), 3600 * _SECOND),
    **dict.fromkeys(("d", "day", "days"), 86400 * _SECOND),
}
#: Bytes of a unit, by all its names.
_SIZES = {
    **dict.fromkeys(("", "b", "bytes"), 1),
    **dict.fromkeys(("k", "kb", "kibibytes"), 1024),
    **dict.fromkeys(("m", "mb", "mebibytes"), 1024**2),
    **dict.fromkeys(("g", "gb", "gibibytes"), 1024**3),
}
#: Beyond it no clock's time can be reckoned.
_LONGEST = "36500d"
_NUMBER_AND_UNIT = re.compile(r"(\d{1,15})\s*([A-Za-z]*)")
_ESCAPES = {"\\t": "\t", "\\n": "\n", "\\r": "\r", "\\\\": "\\", "\\0": "\0", "^A": "\x01"}
_CODE = re.compile(r"\\u([0-9A-Fa-f]{4})|\\x([0-9A-Fa-f]{2})|U&'\\([0-9A-Fa-f]{4})'")
_LONGEST_INT, _LONGEST_LONG = 2**31 - 1, 2**63 - 1


def text(value: str) -> str:
    """Anything but nothing."""
    if not value.strip():
        raise ValueError("a text that is not empty")
    return value


def any_text(value: str) -> str:
    """Anything, or nothing."""
    return value


def boolean(value: str) -> bool:
    """`true` or `false`, in any case."""
    if value.lower() not in ("true", "false"):
        raise ValueError("true and false")
    return value.lower() == "true"


def whole(least: int, most: int = _LONGEST_INT) -> Kind:
    """A whole number of a range."""

    def read(value: str) -> int:
        if re.fullmatch(r"[+-]?\d{1,19}", value) and least <= int(value) <= most:
            return int(value)
        unbounded = most in (_LONGEST_INT, _LONGEST_LONG)
        raise ValueError(f"a whole number from {least}" + ("" if unbounded else f" to {most}"))

    return read


def long(least: int) -> Kind:
    """A whole number of 64 bits."""
    return whole(least, _LONGEST_LONG)


def fraction(value: str) -> float:
    """A number from 0 to 1."""
    try:
        number = Decimal(value)
    except InvalidOperation:
        number = Decimal(-1)
    if not 0 <= number <= 1:
        raise ValueError("a number from 0 to 1")
    return float(number)


def duration(least: str, most: str = "") -> Kind:
    """A time with a unit, such as `10s`, in milliseconds, up to 100 years; a number alone is milliseconds."""
    least_ms, most_ms = _milliseconds(least), _milliseconds(most or _LONGEST)

    def read(value: str) -> int:
        try:
            found = _milliseconds(value)
        except ValueError:
            found = -1
        if not least_ms <= found <= most_ms:
            bounds = f"from {least} to {most or _LONGEST}"
            raise ValueError(f"a duration {bounds}, such as 10s, 500ms or 3min")
        return found

    return read


def _milliseconds(value: str) -> int:
    found = _NUMBER_AND_UNIT.fullmatch(value.strip())
    if not found or found[2].lower() not in ("", *_UNITS):
        raise ValueError(value)
    return int(found[1]) * _UNITS.get(found[2].lower(), 1)


def size(value: str) -> int:
    """A number of bytes with a unit, such as `128MB`."""
    found = _NUMBER_AND_UNIT.fullmatch(value.strip())
    if not found or found[2].lower() not in _SIZES or int(found[1]) == 0:
        raise ValueError("a size of 1 byte and more, such as 128MB or 1GB")
    return int(found[1]) * _SIZES[found[2].lower()]


def one_of(*words: str) -> Kind:
    """One of the words, in any case."""
    by_small = {word.lower(): word for word in words}

    def read(value: str) -> str:
        if value.lower() not in by_small:
            raise ValueError(" and ".join(filter(None, (", ".join(words[:-1]), words[-1]))))
        return by_small[value.lower()]

    return read


def like(pattern: str, told: str) -> Kind:
    """A text that a pattern describes; `told` is the pattern in words."""
    compiled = re.compile(pattern)

    def read(value: str) -> str:
        if not compiled.fullmatch(value):
            raise ValueError(told)
        return value

    return read


def regex(value: str) -> str:
    """A regular expression of Java's."""
    if not value:
        raise ValueError("a regular expression that is not empty")
    try:
        require_regex(value)
    except ValueError as error:
        raise ValueError(f"a regular expression of Java's, and {error}") from None
    return value


def charset(value: str) -> str:
    """The name of a character set, as it is usually written."""
    if not is_charset(value):
        raise ValueError("the name of a character set, such as utf-8, gbk or iso-8859-1")
    return value


def separator(most: int) -> Kind:
    """So many characters at most; `\\u0001`, `\\t` and `\\n` stand for what they mean."""

    def read(value: str) -> str:
        meant = _ESCAPES.get(value) or _CODE.sub(lambda code: chr(int(code[1] or code[2] or code[3], 16)), value)
        meant = meant.replace("\\n", "\n").replace("\\t", "\t").replace("\\r", "\r")
        if not 1 <= len(meant) <= most:
            count = "one character" if most == 1 else f"1 to {most} characters"
            raise ValueError(f"{count}, such as | or \\u0001")
        return meant

    return read


def moment(value: str) -> int:
    """`yyyy-MM-dd HH:mm:ss` in UTC, as Unix time, ms."""
    try:
        return int(datetime.strptime(value, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp() * _SECOND)
    except ValueError:
        raise ValueError("a time in UTC as 2026-01-15 10:00:00") from None


def zone(value: str) -> str:
    """A time zone's name or offset."""
    offset = re.fullmatch(r"(?:GMT|UTC)?[+-](?:0\d|1[0-8]):[0-5]\d", value)
    try:
        known = bool(offset) or bool(ZoneInfo(value))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        known = False
    if not known:
        raise ValueError("a time zone as Europe/Berlin or GMT+08:00")
    return value


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a connector, a format or a session."""

    name: str
    kind: Kind = text
    required: bool = False
    #: Already as a value; None for no value.
    default: Value | None = None
    #: Its value is kept where it is never shown again.
    secret: bool = False
    #: Empty where it holds for reading and writing.
    role: str = ""
    #: The option that it is another way to write.
    stored_as: str = ""

    def read(self, written: str) -> Value:
        """The value. Raises ValueError with what is allowed."""
        return self.kind(written)
