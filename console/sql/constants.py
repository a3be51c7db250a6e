"""`select` without FROM as MySQL clients send it at sign-in: `select @@version_comment limit 1`, `select database()`.

Answered without Spark and without evaluating anything: only literals, system variables and facts of the connection.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum


class Fact(Enum):
    """What a function without arguments tells about the connection."""

    VERSION = "version"
    SCHEMA = "database"
    USER = "user"
    CONNECTION_ID = "connection_id"
    LAST_INSERT_ID = "last_insert_id"
    ROW_COUNT = "row_count"
    FOUND_ROWS = "found_rows"


@dataclass(frozen=True, slots=True)
class Variable:
    """`@@name`, `@@session.name`, `@@global.name`."""

    name: str


@dataclass(frozen=True, slots=True)
class UserVariable:
    """`@name`: what the connection has set for itself."""

    name: str


@dataclass(frozen=True, slots=True)
class Constant:
    """One item of the select list: a literal, a variable or a fact, with the name of its column."""

    value: int | str | Variable | UserVariable | Fact | None
    column: str


_FACTS = {
    "version": Fact.VERSION,
    "database": Fact.SCHEMA,
    "schema": Fact.SCHEMA,
    "user": Fact.USER,
    "current_user": Fact.USER,
    "session_user": Fact.USER,
    "system_user": Fact.USER,
    "connection_id": Fact.CONNECTION_ID,
    "last_insert_id": Fact.LAST_INSERT_ID,
    "row_count": Fact.ROW_COUNT,
    "found_rows": Fact.FOUND_ROWS,
}
_TEXT = r"'(?:[^'\\]|''|\\.)*'|\"(?:[^\"\\]|\"\"|\\.)*\""
_ITEM = re.compile(
    rf"""\s*(?P<written>
        @@(?:(?:session|global|local)\s*\.\s*)?(?P<variable>\w+|`\w+`)
      | @(?P<own>[\w.$]+)
      | (?P<fact>{"|".join(_FACTS)})\s*\(\s*\)
      | (?P<user>current_user)\b(?!\s*\()
      | (?P<number>-?\d{{1,18}})(?![\w.])
      | (?P<text>{_TEXT})
      | (?P<word>null|true|false)\b
    )
    (?:\s+(?:as\s+)?(?P<alias>`[^`]+`|'[^']+'|"[^"]+"|(?!(?:limit|from|where|union)\b)[A-Za-z_]\w*))?
    \s*(?P<end>,|(?:limit\s+\d+\s*)?\Z)""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_WORDS = {"null": None, "true": 1, "false": 0}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}


def parse_select(text: str) -> tuple[Constant, ...] | None:
    """The items of a select of constants; None when it is anything more, so that Spark has to answer."""
    position = len("select")
    items = []
    while match := _ITEM.match(text, position):
        items.append(_constant(match))
        position = match.end()
        if match["end"] != ",":
            return tuple(items)
    return None


def text_of(written: str) -> str:
    """The value of a quoted SQL text: doubled quotes and backslash escapes resolved."""
    quote = written[0]
    body = written[1:-1].replace(quote * 2, quote)
    return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), body, flags=re.DOTALL)


def _constant(match: re.Match[str]) -> Constant:
    alias = match["alias"]
    column = alias.strip("`'\"") if alias else match["written"].strip()
    if match["variable"]:
        return Constant(Variable(match["variable"].strip("`").lower()), column)
    if match["own"]:
        return Constant(UserVariable(match["own"].lower()), column)
    if match["fact"] or match["user"]:
        return Constant(_FACTS[(match["fact"] or match["user"]).lower()], column)
    if match["number"]:
        return Constant(int(match["number"]), column)
    if match["text"]:
        return Constant(text_of(match["text"]), column if alias else text_of(match["text"]))
    return Constant(_WORDS[match["word"].lower()], column)
