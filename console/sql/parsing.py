"""Parsed SQL of the statements that the console answers itself. Nothing here runs anything."""

from __future__ import annotations

import re

from sqlglot import exp

from console.sql.parsers import parsers
from console.web.errors import Refused

#: Longer ones are refused: clients' own questions have a tenth of it.
LONGEST = 16 * 1024
#: Words, texts and signs: this process looks at the tree of all of them.
MOST_WORDS = 4000
#: Brackets and CASEs within each other; JOINs; those of them that wait for their ON or USING, each of which doubles the
#: parser's work. BI tools write ten joins.
DEEPEST, MOST_JOINS, MOST_BARE_JOINS = 32, 40, 8
#: Quoted texts and names, comments, words and signs, each read once: what is not closed goes to the end.
_PIECE = re.compile(
    r"'(?:[^'\\]|\\.|'')*+'?|\"(?:[^\"\\]|\\.|\"\")*+\"?|`[^`]*`?|/\*.*?(?:\*/|\Z)|(?:--|\#)[^\n]*|\w+|\S",
    re.DOTALL,
)


def query(text: str, holder: str = "") -> exp.Query:
    """The one query in a text, in MySQL's way of writing; `holder` is the account that asks.

    Raises Refused with line and column of what is wrong, and for a text that is too much for the parser.
    """
    _require_bounded(text)
    kind, found = parsers.ask(text, holder)
    if kind == "syntax":
        raise Refused("SYNTAX_ERROR", _sentence(*found), "text")
    if kind == "unclosed":
        raise Refused("SYNTAX_ERROR", "The statement cannot be read: a text or name is not closed.", "text")
    if kind == "nested":
        raise _too_deep()
    if len(found) != 1 or not isinstance(found[0], exp.Query):
        raise Refused("SYNTAX_ERROR", "One query is possible here: a SELECT.", "text")
    return found[0]


def _require_bounded(text: str) -> None:
    """Refuse by one pass over the text what the parser would take long for."""
    if len(text) > LONGEST:
        raise Refused(
            "STATEMENT_TOO_LONG", f"The statement has {len(text)} characters; {LONGEST} are allowed here.", "text"
        )
    depth = joins = bare = 0
    before = ""
    for number, piece in enumerate(_PIECE.finditer(text), 1):
        if number > MOST_WORDS:
            raise Refused(
                "STATEMENT_TOO_LONG", f"The statement has more than {MOST_WORDS} words and signs; divide it.", "text"
            )
        word = piece[0].upper()
        if word in ("(", "[", "CASE"):
            depth += 1
        elif word in (")", "]", "END"):
            depth -= 1
        elif word == "JOIN":
            joins += 1
            bare += before not in ("CROSS", "NATURAL")
        elif word in ("ON", "USING"):
            bare = max(0, bare - 1)
        before = word
        if depth > DEEPEST:
            raise _too_deep()
        if joins > MOST_JOINS:
            raise Refused("SYNTAX_ERROR", f"The statement has more than {MOST_JOINS} joins; divide it.", "text")
        if bare > MOST_BARE_JOINS:
            raise Refused(
                "SYNTAX_ERROR",
                f"More than {MOST_BARE_JOINS} joins wait for their ON or USING; write CROSS JOIN where there is none.",
                "text",
            )


def _too_deep() -> Refused:
    return Refused("SYNTAX_ERROR", f"The statement is nested too deeply: {DEEPEST} levels are allowed.", "text")


def _sentence(line: int | None, column: int | None, near: str) -> str:
    where = f"Line {line}, column {column}: " if line else ""
    return f"{where}the statement cannot be read near `{near}`." if near else f"{where}the statement cannot be read."
