"""JSON in fastjson's dialect: maps whose keys are numbers (`{0:"a"}`) or objects (`{{"queueId":0}:5}`).

Members of bodies are read with their type: absent and null ones have a default, as in Java.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson

from brokercore.protocol.errors import LenientJsonError
from brokercore.protocol.message_queue import MessageQueue

MAX_DEPTH = 100
"""Deeper nesting is refused: no body of the protocol comes near."""

_SPACE = re.compile(r"\s*")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
"""Half of a character: no text can be written that holds one."""

_NUMERIC_KEY = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|(?<=[{,])(-?\d+)(?=:)', re.DOTALL)
"""A string, which stays as it is (one without an end to the end, so that no text takes long), or a numeric key."""

_WORDS = {"true": True, "false": False, "null": None, "NaN": None}
_WORD = re.compile(r"[A-Za-z]+")

_LONG_MIN, _LONG_MAX = -(2**63), 2**63 - 1


class ObjectKeyed(list[tuple[Any, Any]]):
    """A map with object keys, as (key, value) pairs in their order."""


def loads(data: bytes | str) -> Any:
    """Read JSON or fastjson's dialect. Numeric keys become text; a map with object keys becomes ObjectKeyed.

    Raises LenientJsonError.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return _read_dialect(data)


def read_numbered(data: bytes) -> dict[str, Any]:
    """As `read_object`, for tables of megabytes; of Apache's they have numeric keys and no spaces.

    Raises LenientJsonError.
    """
    try:
        value = _plain_or_numbered(data)
    except orjson.JSONDecodeError:
        return read_object(data)
    return value if isinstance(value, dict) else read_object(data)


def _plain_or_numbered(data: bytes) -> Any:
    try:
        return orjson.loads(data)  # as embedded brokers write it; the first numeric key ends this at once
    except orjson.JSONDecodeError:
        return orjson.loads(_NUMERIC_KEY.sub(_quoted, data))


def _quoted(found: re.Match[bytes]) -> bytes:
    return found.group() if found.group(1) is None else b'"%b"' % found.group(1)


def dumps_object_keyed(entries: Iterable[tuple[Mapping[str, Any], Any]]) -> bytes:
    """A map with object keys as Java clients of every age read it: the key object is written inline."""
    return b"{" + b",".join([orjson.dumps(key) + b":" + orjson.dumps(value) for key, value in entries]) + b"}"


def exact(data: bytes) -> bytes:
    """The same in no more memory than it has bytes: a text of orjson keeps a page, and a list has thousands."""
    return memoryview(data).tobytes()


def dumps_with(plain: Mapping[str, Any], raw: Mapping[str, bytes]) -> bytes:
    """A JSON object of `plain` members and of `raw` members whose values are JSON text already."""
    members = [orjson.dumps(key) + b":" + orjson.dumps(value) for key, value in plain.items()]
    members += [orjson.dumps(key) + b":" + value for key, value in raw.items()]
    return b"{" + b",".join(members) + b"}"


def _read_dialect(data: bytes | str) -> Any:
    try:
        text = data if isinstance(data, str) else data.decode()
    except UnicodeDecodeError:
        raise LenientJsonError("the JSON is not UTF-8") from None
    parser = _Parser(text)
    value = parser.value(0)
    if parser.position != len(text):
        raise parser.error("text after the end")
    return value


class _Parser:
    """Recursive descent; `position` always stands on the next character that is no space."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self._skip(0)

    def error(self, what: str) -> LenientJsonError:
        return LenientJsonError(f"{what} at character {self.position} of the JSON")

    def value(self, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise self.error(f"nesting deeper than {MAX_DEPTH}")
        char = self.text[self.position : self.position + 1]
        if char == "{":
            return self._map(depth)
        if char == "[":
            return self._list(depth)
        return self._scalar(char)

    def _scalar(self, char: str) -> Any:
        if char == '"':
            token = self._match(_STRING, "an unfinished string")
            try:
                return _LONE_SURROGATE.sub("\ufffd", json.loads(token, strict=False))
            except ValueError:
                raise self.error("a bad escape in the string") from None
        if char == "-" or char.isdigit():
            token = self._match(_NUMBER, "a bad number")
            if token.lstrip("-").isdecimal() and len(token) <= 20 and -(2**63) <= int(token) < 2**64:
                return int(token)
            return float(token)
        word = self._match(_WORD, "no value")
        if word not in _WORDS:
            raise self.error(f"the unknown word {word[:20]!r}")
        return _WORDS[word]

    def _list(self, depth: int) -> list[Any]:
        items: list[Any] = []
        self._expect("[")
        while not self._optional("]"):
            if items:
                self._expect(",")
            items.append(self.value(depth + 1))
        return items

    def _map(self, depth: int) -> dict[str, Any] | ObjectKeyed:
        entries = ObjectKeyed()
        self._expect("{")
        while not self._optional("}"):
            if entries:
                self._expect(",")
            key = self.value(depth + 1)
            self._expect(":")
            entries.append((key, self.value(depth + 1)))
        if any(isinstance(key, dict | list) for key, _ in entries):
            return entries
        return {key if isinstance(key, str) else str(key): value for key, value in entries}

    def _match(self, pattern: re.Pattern[str], otherwise: str) -> str:
        found = pattern.match(self.text, self.position)
        if found is None:
            raise self.error(otherwise)
        self._skip(found.end())
        return found.group()

    def _expect(self, char: str) -> None:
        if not self._optional(char):
            raise self.error(f"{char!r} is missing")

    def _optional(self, char: str) -> bool:
        if self.text[self.position : self.position + 1] != char:
            return False
        self._skip(self.position + 1)
        return True

    def _skip(self, position: int) -> None:
        found = _SPACE.match(self.text, position)
        self.position = found.end() if found else position


def read_object(data: bytes) -> dict[str, Any]:
    """The body as a JSON object. Raises LenientJsonError."""
    value = loads(data)
    if isinstance(value, ObjectKeyed) and not value:
        return {}
    if not isinstance(value, dict):
        raise LenientJsonError("the body is not a JSON object")
    return value


def text(data: Mapping[str, Any], name: str, default: str = "") -> str:
    """A text member."""
    value = data.get(name)
    return default if value is None else str(value)


def integer(data: Mapping[str, Any], name: str, default: int = 0) -> int:
    """A whole number of 64 bits; Java also writes numbers as text. Raises LenientJsonError."""
    value = data.get(name)
    return default if value is None else _long(value, name)


def integers(data: Mapping[str, Any], name: str) -> list[int]:
    """The whole numbers of a list member. Raises LenientJsonError."""
    value = data.get(name)
    return [_long(item, name) for item in value] if isinstance(value, list) else []


def strings(data: Mapping[str, Any], name: str) -> list[str]:
    """The texts of a list member."""
    value = data.get(name)
    return [str(item) for item in value] if isinstance(value, list) else []


def _long(value: Any, name: str) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        number = 1 << 64
    if not _LONG_MIN <= number <= _LONG_MAX:
        raise LenientJsonError(f"{name} is not a whole number: {str(value)[:40]!r}")
    return number


def number(data: Mapping[str, Any], name: str) -> float:
    """A number, 0 when absent. Raises LenientJsonError."""
    try:
        return float(data.get(name) or 0)
    except (TypeError, ValueError):
        raise LenientJsonError(f"{name} is not a number: {str(data.get(name))[:40]!r}") from None


def boolean(data: Mapping[str, Any], name: str, default: bool = False) -> bool:
    """A truth value, also when written as text."""
    value = data.get(name)
    if value is None:
        return default
    return value.lower() == "true" if isinstance(value, str) else bool(value)


def objects(data: Mapping[str, Any], name: str) -> Iterator[dict[str, Any]]:
    """The objects of a list member."""
    value = data.get(name)
    return (item for item in (value if isinstance(value, list) else []) if isinstance(item, dict))


def mapping(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    """An object member, {} when absent."""
    value = data.get(name)
    return value if isinstance(value, dict) else {}


def texts(value: Any) -> dict[str, str]:
    """An object of text values."""
    return {key: str(item) for key, item in value.items() if item is not None} if isinstance(value, dict) else {}


def by_queue(data: Mapping[str, Any], name: str) -> Iterable[tuple[MessageQueue, Any]]:
    """The entries of a map keyed by queues. Raises LenientJsonError for keys that are no queue."""
    value = data.get(name)
    if not isinstance(value, ObjectKeyed):
        if value:
            raise LenientJsonError(f"{name} is not a map keyed by queues")
        return []
    return [(MessageQueue.from_dict(key), item) for key, item in value if isinstance(key, dict)]
