"""JSON that remembers where everything stood, so that a policy editor can point at the line.

The values are those of `json.loads`; what JSON does not forbid but nobody means (a field twice) is a problem too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from json.decoder import JSONDecodeError, scanstring  # type: ignore[attr-defined]  # not in the stubs
from typing import Any

Path = tuple[str | int, ...]
_MAX_DEPTH = 16
_SPACE = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,15})(?:\.\d{1,15})?(?:[eE][+-]?\d{1,2})?(?![\w.])")
_WORDS = {"true": True, "false": False, "null": None}
_WORD = re.compile(r"[\w.'-]+")


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is wrong: one sentence, the way to it (`Statement`, 0, `Effect`), and line and column from 1.

    Line 0: the document came without text. With `at_field` the field's name is meant, not its value.
    """

    message: str
    path: Path = ()
    at_field: bool = False
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"Line {self.line}, column {self.column}: {self.message}" if self.line else self.message


class JsonError(ValueError):
    """The text is no JSON; `offset` is where it stops being so."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset


@dataclass
class Positions:
    """Where the values and the fields' names of a text begin, and which fields stand there twice."""

    text: str
    values: dict[Path, int] = field(default_factory=dict)
    fields: dict[Path, int] = field(default_factory=dict)
    twice: list[tuple[Path, int]] = field(default_factory=list)

    def locate(self, problem: Problem) -> Problem:
        """The problem with line and column; of what is missing, those of the nearest thing around it."""
        path = problem.path
        places = self.fields if problem.at_field and path in self.fields else self.values
        while path not in places:
            path, places = path[:-1], self.values
        return self.at(places[path], problem.message, problem.path)

    def at(self, offset: int, message: str, path: Path = ()) -> Problem:
        """A problem at an offset of the text."""
        line = self.text.count("\n", 0, offset) + 1
        column = offset - (self.text.rfind("\n", 0, offset) + 1) + 1
        return Problem(message, path, False, line, column)


def read(text: str) -> tuple[Any, Positions]:
    """The value of a JSON text and where its parts stand. Raises JsonError."""
    reader = _Reader(text)
    value, end = reader.value((), 0, 0)
    end = reader.skip(end)
    if end < len(text):
        raise JsonError("The document ends before this; remove what follows.", end)
    return value, reader.positions


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.positions = Positions(text)

    def skip(self, at: int) -> int:
        match = _SPACE.match(self.text, at)
        return match.end() if match else at

    def value(self, path: Path, at: int, depth: int) -> tuple[Any, int]:
        at = self.skip(at)
        self.positions.values[path] = at
        if at >= len(self.text):
            raise JsonError("The document ends too early: a value is missing.", at)
        if depth > _MAX_DEPTH:
            raise JsonError(f"The document is nested more than {_MAX_DEPTH} levels deep.", at)
        match self.text[at]:
            case "{":
                return self._object(path, at, depth)
            case "[":
                return self._list(path, at, depth)
            case '"':
                return self._text(at)
            case _:
                return self._word(at)

    def _object(self, path: Path, at: int, depth: int) -> tuple[dict[str, Any], int]:
        found: dict[str, Any] = {}
        begin, at = at, self.skip(at + 1)
        while self._peek(at) != "}":
            if self._peek(at) != '"':
                raise self._surprise("A field's name in double quotes is expected", at, begin, "{")
            name, end = self._text(at)
            inner = (*path, name)
            if name in found:
                self.positions.twice.append((inner, at))
            self.positions.fields[inner] = at
            at = self.skip(end)
            if self._peek(at) != ":":
                raise JsonError(f'A colon is expected after "{name}".', at)
            found[name], at = self.value(inner, at + 1, depth + 1)
            at = self._next(at, "}", begin, "{")
        return found, at + 1

    def _list(self, path: Path, at: int, depth: int) -> tuple[list[Any], int]:
        found: list[Any] = []
        begin, at = at, self.skip(at + 1)
        while self._peek(at) != "]":
            value, at = self.value((*path, len(found)), at, depth + 1)
            found.append(value)
            at = self._next(at, "]", begin, "[")
        return found, at + 1

    def _next(self, at: int, close: str, begin: int, opened: str) -> int:
        """Past a comma, or at the closing bracket."""
        at = self.skip(at)
        if self._peek(at) == close:
            return at
        if self._peek(at) != ",":
            raise self._surprise(f"A comma or {close} is expected", at, begin, opened)
        comma, at = at, self.skip(at + 1)
        if self._peek(at) == close:
            raise JsonError(f"Remove this comma: nothing follows before the {close}.", comma)
        return at

    def _surprise(self, expected: str, at: int, begin: int, opened: str) -> JsonError:
        if at >= len(self.text):
            line = self.text.count("\n", 0, begin) + 1
            return JsonError(f"The document ends too early: the {opened} of line {line} is not closed.", at)
        return JsonError(f"{expected} here.", at)

    def _text(self, at: int) -> tuple[str, int]:
        try:
            text, end = scanstring(self.text, at + 1, True)
        except JSONDecodeError as error:
            if error.msg.startswith("Unterminated"):
                raise JsonError("This text has no closing double quote.", at) from error
            raise JsonError("A text holds no line break, no tab and no unknown \\ sequence.", error.pos) from error
        return text, end

    def _word(self, at: int) -> tuple[Any, int]:
        number = _NUMBER.match(self.text, at)
        if number:
            written = number.group()
            return (float(written) if set(written) & set(".eE") else int(written)), number.end()
        word = _WORD.match(self.text, at)
        if word and word.group() in _WORDS:
            return _WORDS[word.group()], word.end()
        if word:
            raise JsonError(f"{word.group()[:40]} is not a value: texts go in double quotes.", at)
        raise JsonError("A value is expected here.", at)

    def _peek(self, at: int) -> str:
        return self.text[at : at + 1]
