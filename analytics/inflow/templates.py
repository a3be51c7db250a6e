"""Templates: a text with `${name}` where values of an event are put in, and values as texts.

A value has two forms. Its text is the text itself, the JSON of a number, `true` and `false`, and the compact JSON of an
object or an array. Its JSON is what JSON writes for it: a text in quotes, null as `null`.

A template that begins with `{` is JSON; one that begins with `[` is, if it can be read so; every other is text.

- In a text, `${name}` becomes the text of the value, as it is.
- In JSON, `${name}` inside of quotes becomes the text of the value, escaped as JSON asks, so that the quotes still
  enclose one text. Outside of quotes it becomes the JSON of the value. The result is therefore always JSON: with the
  value `say "hi"`, `{"a": "${v}!"}` becomes `{"a": "say \\"hi\\"!"}` and `{"a": ${v}}` becomes `{"a": "say \\"hi\\""}`;
  with the number 5 they become `{"a": "5!"}` and `{"a": 5}`.

A value that the event has not can be put in nowhere, and null only into JSON outside of quotes.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Mapping
from enum import Enum
from typing import Any, NamedTuple, NoReturn

import orjson

from analytics.inflow.paths import MISSING

MAX_TEMPLATE = 64 * 1024
"""Largest template in bytes of UTF-8."""

NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""What a parameter may be called."""

_PLACE = re.compile(rf"\$\{{({NAME.pattern})\}}")
_LISTED = 10
#: Types of values that the quick library writes as Python's own does, which writes floats in another way.
_QUICK = frozenset((str, int, bool, type(None)))
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


class NoValueError(ValueError):
    """A value is missing, or null where a text is needed."""


class Form(Enum):
    """What becomes of a value."""

    TEXT = "text"
    QUOTED = "quoted"
    JSON = "json"


class Place(NamedTuple):
    """Where a value is put in."""

    name: str
    form: Form


def json_of(value: object) -> str:
    """The value as compact JSON. Raises ValueError for what JSON has not."""
    if isinstance(value, dict) and _QUICK.issuperset(map(type, value.values())):  # a primary key
        try:
            return orjson.dumps(value).decode()
        except TypeError:  # a long number, half of a pair
            pass
    try:
        return _encode(value)
    except RecursionError:
        raise ValueError("a value is nested too deep to be written") from None
    except (TypeError, ValueError):
        raise ValueError("a value is NaN, infinite, longer than a number may be, or nothing that JSON has") from None


def text_of(value: object) -> str:
    """The value as text. Raises ValueError for what JSON has not."""
    return value if isinstance(value, str) else json_of(value)


class Template:
    """A compiled template. Made by `compile`; unchangeable, and safe in threads."""

    __slots__ = ("_counts", "_fixed", "_pieces", "is_json", "names", "text")

    def __init__(self, text: str, pieces: list[str | Place], *, is_json: bool) -> None:
        self.text = text
        self.is_json = is_json
        self._pieces = pieces
        self._counts = Counter(piece for piece in pieces if isinstance(piece, Place))
        self._fixed = sum(len(piece) for piece in pieces if isinstance(piece, str))
        self.names = frozenset(place.name for place in self._counts)

    @classmethod
    def compile(cls, text: str, names: Collection[str]) -> Template:
        """The template of a text with these parameters, JSON or text. Raises ValueError with what is wrong."""
        pieces = _pieces(text, names)
        begin = text.lstrip()[:1]
        if begin and begin in "{[":
            try:
                _load(_skeleton(pieces))
            except (ValueError, RecursionError) as error:
                if begin == "{":
                    raise ValueError(f"what begins with {{ is JSON, and {_where(error)}") from None
            else:
                return cls(text, pieces, is_json=True)
        return cls.compile_text(text, names)

    @classmethod
    def compile_text(cls, text: str, names: Collection[str]) -> Template:
        """The template of a text, whatever it begins with. Raises ValueError with what is wrong."""
        pieces = _pieces(text, names)
        return cls(text, [p if isinstance(p, str) else Place(p.name, Form.TEXT) for p in pieces], is_json=False)

    @property
    def only(self) -> str | None:
        """The parameter that the template consists of, if it does of one and nothing else."""
        first = self._pieces[0] if len(self._pieces) == 1 else None
        return first.name if isinstance(first, Place) else None

    def fill(self, values: Mapping[str, object], most: int) -> str:
        """The text with these values put in.

        Raises NoValueError for one that is missing, and ValueError for what JSON has not and for more than `most`
        characters.
        """
        texts: dict[Place, str] = {}
        size = self._fixed
        for place, count in self._counts.items():
            texts[place] = _formed(values[place.name], place)
            # Before anything is joined: one long value may stand in thousands of places.
            size += len(texts[place]) * count
            if size > most:
                raise ValueError(f"with its values the template has more than {most:,} characters, the most allowed")
        return "".join(piece if isinstance(piece, str) else texts[piece] for piece in self._pieces)


def _formed(value: object, place: Place) -> str:
    if value is MISSING:
        raise NoValueError(f"the event has no value for ${{{place.name}}}")
    if place.form is Form.JSON:
        return json_of(value)
    if value is None:
        raise NoValueError(f"the value for ${{{place.name}}} is null, which is no text")
    text = text_of(value)
    return text if place.form is Form.TEXT else _encode(text)[1:-1]


def object_of(text: str, names: Collection[str]) -> list[tuple[str, Any]]:
    """The entries of a template that is a JSON object: parameters are as if in quotes, and numbers are texts.

    Raises ValueError with what is wrong.
    """
    pieces = _pieces(text, names)
    try:
        _load(_skeleton(pieces))
        entries = _load(_as_texts(pieces))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it must be a JSON object, and {_where(error)}") from None
    if not isinstance(entries, _Entries):
        raise ValueError('it must be a JSON object, such as {"table": "${table}"}')
    return list(entries)


class _Entries(list[tuple[str, Any]]):
    """An object with all its names, those that stand there twice too."""


def _load(text: str) -> Any:
    """JSON whose numbers are kept as they are written. Raises ValueError and RecursionError."""
    return json.loads(text, object_pairs_hook=_Entries, parse_int=str, parse_float=str, parse_constant=_refuse_constant)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is nothing that JSON has")


def _where(error: ValueError | RecursionError) -> str:
    if isinstance(error, RecursionError):
        return "this is nested too deep"
    if not isinstance(error, json.JSONDecodeError):
        return str(error)
    return f"line {error.lineno}, column {error.colno} is not: {error.msg[:1].lower()}{error.msg[1:]}"


def _pieces(text: str, names: Collection[str]) -> list[str | Place]:
    """The text in pieces, as if it were JSON: each place is in quotes or outside. Raises ValueError."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise ValueError("it has a character that no text may have, half of a surrogate pair") from None
    if size > MAX_TEMPLATE:
        raise ValueError(f"it has {size:,} bytes; at most {MAX_TEMPLATE:,} are allowed")
    pieces: list[str | Place] = []
    at, in_quotes = 0, False
    while (begin := text.find("${", at)) >= 0:
        found = _PLACE.match(text, begin)
        if found is None:
            line, column = text.count("\n", 0, begin) + 1, begin - text.rfind("\n", 0, begin)
            raise ValueError(f"line {line}, column {column}: ${{ begins a parameter, such as ${{name}}")
        if found[1] not in names:
            raise ValueError(f"${{{found[1]}}} is not among the parameters{_listed(names)}")
        if begin > at:
            pieces.append(text[at:begin])
            in_quotes = _ends_in_quotes(text[at:begin], in_quotes)
        pieces.append(Place(found[1], Form.QUOTED if in_quotes else Form.JSON))
        at = found.end()
    if at < len(text):
        pieces.append(text[at:])
    return pieces


def _listed(names: Collection[str]) -> str:
    if not names:
        return ", of which there are none"
    shown = ", ".join(sorted(names)[:_LISTED])
    return f": {shown}" + (f" and {len(names) - _LISTED} more" if len(names) > _LISTED else "")


def _ends_in_quotes(text: str, in_quotes: bool) -> bool:
    is_escaped = False
    for sign in text:
        if is_escaped:
            is_escaped = False
        elif sign == '"':
            in_quotes = not in_quotes
        else:
            is_escaped = in_quotes and sign == "\\"
    return in_quotes


def _skeleton(pieces: list[str | Place]) -> str:
    """JSON of the same length, if the template is JSON: errors have their places. `x` can continue no escape."""
    return "".join(piece if isinstance(piece, str) else _filler(piece) for piece in pieces)


def _filler(place: Place) -> str:
    width = len(place.name) + 3
    return "x" * width if place.form is Form.QUOTED else "null".ljust(width)


def _as_texts(pieces: list[str | Place]) -> str:
    parts = []
    for piece in pieces:
        if isinstance(piece, str):
            parts.append(piece)
        else:
            place = f"${{{piece.name}}}"
            parts.append(place if piece.form is Form.QUOTED else f'"{place}"')
    return "".join(parts)
