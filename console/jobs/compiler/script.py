"""Splits a job's text into its statements, each with its kind. Pure.

Statements end at a `;`. `BEGIN STATEMENT SET; … END;` (or `EXECUTE STATEMENT SET BEGIN … END;`) holds INSERTs alone; it
says that they are one job, as all INSERTs of a text are here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from console.jobs.compiler.words import Reader, Text, TextRefused
from console.statements.lexer import Token

#: Nobody writes more; each costs the parser some milliseconds.
MOST_STATEMENTS = 200
ALLOWED = (
    "SET, CREATE [TEMPORARY] TABLE … WITH (…), CREATE TEMPORARY VIEW … AS SELECT, INSERT INTO … SELECT, SELECT, and"
    " BEGIN STATEMENT SET; … END;"
)


class Kind(StrEnum):
    """What a statement does."""

    SET = "set"
    TABLE = "table"
    VIEW = "view"
    INSERT = "insert"
    QUERY = "query"


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement: its parts without the `;`, and an end."""

    kind: Kind
    text: Text
    tokens: tuple[Token, ...]

    @property
    def line(self) -> int:
        """Of its first word, from 1."""
        return self.tokens[0].line

    def reader(self) -> Reader:
        """Goes over its parts."""
        return Reader(self.text, self.tokens)


@dataclass(frozen=True, slots=True)
class Script:
    """The statements that could be told apart, and what is wrong with the others."""

    statements: tuple[Statement, ...]
    refusals: tuple[TextRefused, ...]


def split(text: Text, tokens: Sequence[Token]) -> Script:
    """The statements in their order. Raises TextRefused for a text that cannot be split."""
    statements, refusals = [], []
    opened: Token | None = None
    for written in _parts(text, tokens):
        part, reader, first = written, Reader(text, written), written[0]
        if reader.accept("begin", "statement", "set"):
            opened = _open(reader, opened, first)
            reader.end("`;`")
            continue
        if reader.accept("execute", "statement", "set"):
            reader.expect("begin")
            opened = _open(reader, opened, first)
            part = written[4:]
        elif first.key == "end" and len(part) == 2:
            if opened is None:
                raise text.refusal(first, "END closes no statement set; one begins with BEGIN STATEMENT SET;")
            opened = None
            continue
        try:
            statements.append(_statement(text, part, within_set=opened is not None))
        except TextRefused as refused:
            refusals.append(refused)
    if opened is not None:
        raise text.refusal(opened, "the statement set is not closed; it ends with END;")
    return Script(tuple(statements), tuple(refusals))


def _parts(text: Text, tokens: Sequence[Token]) -> list[tuple[Token, ...]]:
    found, current = [], []
    for token in tokens:
        if token.key != ";" and token.kind != "end":
            current.append(token)
            continue
        if current:
            found.append((*current, token._replace(kind="end", key="")))
        current = []
        if len(found) > MOST_STATEMENTS:
            raise text.refusal(token, f"there are more than {MOST_STATEMENTS} statements; make several jobs of them.")
    return found


def _open(reader: Reader, opened: Token | None, first: Token) -> Token:
    if opened is not None:
        raise reader.refusal(first, "a statement set cannot hold another one; close the first with END;")
    return first


def _statement(text: Text, part: tuple[Token, ...], *, within_set: bool) -> Statement:
    kind = _kind(Reader(text, part))
    if kind is None:
        raise text.refusal(part[0], f"{part[0]} begins no statement of a job; allowed are {ALLOWED}.")
    if within_set and kind is not Kind.INSERT:
        raise text.refusal(part[0], "a statement set holds INSERT INTO statements alone; write this one before it.")
    return Statement(kind, text, part)


def _kind(reader: Reader) -> Kind | None:
    word = reader.next.key
    if word == "set":
        return Kind.SET
    if word == "insert":
        return Kind.INSERT
    if word in ("select", "with", "values", "("):
        return Kind.QUERY
    if reader.accept("create"):
        reader.accept("temporary")
        return {"table": Kind.TABLE, "view": Kind.VIEW}.get(reader.next.key)
    return None
