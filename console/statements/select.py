"""`select` without FROM as MySQL clients send it at sign-in: `select @@version_comment limit 1`, `select database()`.

Answered without Spark and without evaluating anything: only literals, system variables and facts of the connection.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from console.statements.lexer import LINE_COMMENT, OPEN_COMMENT, OPEN_TEXT, TEXT, value_of


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
_ITEM = re.compile(
    rf"""\s*(?P<written>
        @@(?:(?:session|global|local)\s*\.\s*)?(?P<variable>\w+|`\w+`)
      | @(?P<own>[\w.$]+)
      | (?P<fact>{"|".join(_FACTS)})\s*\(\s*\)
      | (?P<user>current_user)\b(?!\s*\()
      | (?P<number>-?\d{{1,18}})(?![\w.])
      | (?P<text>{TEXT})
      | (?P<word>null|true|false)\b
    )
    (?:\s+(?:as\s+)?(?P<alias>`[^`]+`|'[^']+'|"[^"]+"|(?!(?:limit|from|where|union)\b)[A-Za-z_]\w*))?
    \s*(?P<end>,|(?:limit\s+\d+\s*)?\Z)""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_WORDS = {"null": None, "true": 1, "false": 0}
#: First words of a query, which may stand in parentheses too.
QUERY_WORDS = frozenset({"select", "with", "values", "from", "table"})
#: A table of it behind FROM, JOIN or a comma; `without_texts` first.
INFORMATION_SCHEMA = re.compile(r"(?:\bfrom|\bjoin|,)[\s(]*+`?information_schema`?\s*+\.", re.IGNORECASE)
_TEXT_OR_COMMENT = re.compile(rf"{OPEN_TEXT}|{LINE_COMMENT}|{OPEN_COMMENT}")


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


def without_texts(text: str) -> str:
    """The statement with its texts and comments blanked, so that words in them are not taken for SQL."""
    return _TEXT_OR_COMMENT.sub(" ", text)


def asks_information_schema(text: str) -> bool:
    """Whether a query names a table of `information_schema`."""
    return INFORMATION_SCHEMA.search(without_texts(text)) is not None


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
        return Constant(value_of(match["text"]), column if alias else value_of(match["text"]))
    return Constant(_WORDS[match["word"].lower()], column)
