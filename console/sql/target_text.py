"""Reads the head of `insert …` and `create table … as …`: where the rows go. The query behind it is left to Spark.

Pure: text in, plain data out. Works on the text without its hint (`console.sql.hints`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from console.sql import constants
from console.web.errors import Refused

#: What can be written, as STORED AS or USING names it; textfile is Hive's delimited text.
FORMATS = ("parquet", "orc", "json", "csv", "textfile")
#: First words of a query.
_QUERY_WORDS = frozenset({"select", "with", "values", "from", "table"})
#: Nobody names this many columns; the head of a longer statement is not read.
_LONGEST_HEAD = 64 * 1024

_SPACE = re.compile(r"(?:\s+|--[^\n]*(?:\n|\Z)|/\*(?:[^*]|\*(?!/))*\*/)*")
_TOKEN = re.compile(
    r"(?P<quoted>`(?:[^`]|``)+`)|(?P<text>'(?:[^'\\]|''|\\.)*'|\"(?:[^\"\\]|\"\"|\\.)*\")"
    r"|(?P<number>[+-]?\d+(?:\.\d+)?(?![\w]))|(?P<word>[^\W\d][\w$]*(?:-[\w$]+)*|\d\w*)|(?P<sign>[().,=?])",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Insert:
    """`insert into|overwrite [table] [schema.]table [partition (…)] [(columns)] query`."""

    schema: str | None
    table: str
    query: str
    overwrite: bool = False
    columns: tuple[str, ...] = ()
    #: Name and fixed value of partition columns; None for one whose values come with the rows.
    partition: tuple[tuple[str, str | None], ...] = ()


@dataclass(frozen=True, slots=True)
class CreateTableAs:
    """`create [external] table [if not exists] [schema.]table [clauses] as query`; clauses in any order."""

    schema: str | None
    table: str
    query: str
    if_not_exists: bool = False
    #: As written; empty for none.
    format: str = ""
    partitions: tuple[str, ...] = ()
    location: str = ""
    options: dict[str, str] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)
    comment: str = ""


TargetStatement = Insert | CreateTableAs


def parse(text: str) -> TargetStatement | None:
    """The statement, or None when it is neither of the two forms.

    Raises Refused when it begins like one of them and goes on as nothing that can be run.
    """
    reader = _Reader(text)
    if reader.take("insert"):
        return _insert(reader)
    if reader.take("create"):
        external = reader.take("external")
        return _create(reader, external) if reader.take("table") else None
    return None


def _insert(reader: _Reader) -> Insert:
    overwrite = reader.take("overwrite")
    if not overwrite and not reader.take("into"):
        raise _wrong("INSERT is written INSERT INTO … or INSERT OVERWRITE …")
    reader.take("table")
    if reader.is_word("local") or reader.is_word("directory"):
        raise _wrong(
            "INSERT OVERWRITE DIRECTORY is not allowed: write into a table of a schema, or download the result"
        )
    schema, table = reader.relation()
    partition: tuple[tuple[str, str | None], ...] = ()
    columns: tuple[str, ...] = ()
    if reader.is_word("if"):
        raise _wrong("IF NOT EXISTS is not known behind INSERT")
    if reader.take("partition"):
        partition = tuple(reader.assignments(values_needed=False))
    if reader.is_word("by"):
        raise _wrong("BY NAME is not known here: list the columns in the order of the query")
    if reader.opens_names():
        columns = tuple(reader.names())
    if reader.is_word("partition"):
        raise _wrong("PARTITION (…) stands before the list of columns")
    return Insert(schema, table, reader.query("INSERT"), overwrite, columns, partition)


def _create(reader: _Reader, external: bool) -> CreateTableAs | None:
    if_not_exists = reader.take("if") and reader.take("not") and reader.take("exists")
    try:
        schema, table = reader.relation()
        given = _clauses(reader)
    except _NotThisFormError:
        return None
    except Refused:
        # Malformed DDL is told by whoever reads DDL; here only what goes on with AS is ours.
        return None
    if not reader.take("as"):
        return None
    if external and not given.get("location"):
        raise _wrong("CREATE EXTERNAL TABLE … AS needs LOCATION 'oss://bucket/folder/'; leave EXTERNAL out without one")
    return CreateTableAs(schema, table, reader.query("CREATE TABLE … AS"), if_not_exists, **given)  # type: ignore[arg-type]


class _NotThisFormError(Exception):
    """The text goes on as another form of CREATE TABLE."""


def _clauses(reader: _Reader) -> dict[str, object]:
    """What stands between the table's name and AS."""
    given: dict[str, object] = {}
    given_pairs: dict[str, dict[str, str]] = {"options": {}, "properties": {}}
    while not reader.is_word("as"):
        if reader.take("stored"):
            reader.expect("as")
            given["format"] = reader.format()
        elif reader.take("using"):
            given["format"] = reader.format()
        elif reader.take("partitioned"):
            reader.expect("by")
            given["partitions"] = tuple(reader.names())
        elif reader.take("location"):
            given["location"] = reader.text("LOCATION")
        elif reader.take("comment"):
            given["comment"] = reader.text("COMMENT")
        elif (is_option := reader.take("options")) or reader.take("tblproperties"):
            pairs = given_pairs["options" if is_option else "properties"]
            pairs |= {name: value or "" for name, value in reader.assignments(values_needed=True)}
        else:
            raise _NotThisFormError
    return {**given, **given_pairs}


class _Reader:
    """Takes one token after the other off the text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._end = min(len(text), _LONGEST_HEAD)
        self._position = 0
        self._token: re.Match[str] | None = None
        self._advance(0)

    def _advance(self, position: int) -> None:
        space = _SPACE.match(self._text, position, self._end)
        self._position = space.end() if space else position
        self._token = _TOKEN.match(self._text, self._position, self._end)

    def _next(self) -> str:
        if self._token is None:
            near = self._text[self._position : self._position + 20]
            raise _wrong(f"the statement cannot be read near {near!r}" if near else "the statement ends too early")
        written = self._token.group()
        self._advance(self._token.end())
        return written

    def is_word(self, word: str) -> bool:
        return self._token is not None and self._token["word"] is not None and self._token["word"].lower() == word

    def take(self, word: str) -> bool:
        if not self.is_word(word):
            return False
        self._next()
        return True

    def is_sign(self, sign: str) -> bool:
        return self._token is not None and self._token["sign"] == sign

    def expect(self, wanted: str) -> None:
        if not (self.is_sign(wanted) or self.is_word(wanted)):
            near = self._token.group() if self._token else "the end"
            raise _wrong(f"{wanted.upper()} is expected near {near!r}")
        self._next()

    def name(self) -> str:
        if self._token is None or not (self._token["word"] or self._token["quoted"]):
            near = self._token.group() if self._token else "the end"
            raise _wrong(f"a name is expected near {near!r}")
        written = self._next()
        return written[1:-1].replace("``", "`") if written.startswith("`") else written

    def relation(self) -> tuple[str | None, str]:
        """`table` or `schema.table`; a reserved word is no name here unless it is quoted."""
        first = self.name()
        if not self.is_sign("."):
            return None, first
        self.expect(".")
        second = self.name()
        if self.is_sign("."):
            raise _wrong(f"{first}.{second}.… has too many parts: a table is named schema.table")
        return first, second

    def opens_names(self) -> bool:
        """Whether the next parenthesis holds names: a query may stand in parentheses too."""
        if not self.is_sign("(") or self._token is None:
            return False
        space = _SPACE.match(self._text, self._token.end(), self._end)
        found = _TOKEN.match(self._text, space.end() if space else self._token.end(), self._end)
        return found is not None and found.group() != "(" and found.group().lower() not in _QUERY_WORDS

    def names(self) -> list[str]:
        self.expect("(")
        found = [self.name()]
        while self.is_sign(","):
            self.expect(",")
            found.append(self.name())
        self.expect(")")
        return found

    def assignments(self, *, values_needed: bool) -> list[tuple[str, str | None]]:
        """`(name = value, …)`; the value may be left out unless it is needed."""
        self.expect("(")
        found = [self._assignment(values_needed)]
        while self.is_sign(","):
            self.expect(",")
            found.append(self._assignment(values_needed))
        self.expect(")")
        return found

    def _assignment(self, value_needed: bool) -> tuple[str, str | None]:
        if value_needed and self._token is not None and self._token["text"]:
            name = self.text("the name of an option")
        else:
            name = self.name()
            while value_needed and self.is_sign("."):
                self.expect(".")
                name = f"{name}.{self.name()}"
        if not value_needed and not self.is_sign("="):
            return name, None
        if self.is_sign("=") or not value_needed:
            self.expect("=")
        return name, self._literal(name)

    def _literal(self, name: str) -> str:
        if self._token is not None and self._token["number"]:
            return self._next()
        if self._token is not None and self._token["word"] and self._token["word"].lower() in {"true", "false"}:
            return self._next().lower()
        if self.take("date") or self.take("timestamp"):
            return self.text(name)
        return self.text(name)

    def text(self, what: str) -> str:
        if self._token is None or not self._token["text"]:
            raise _wrong(f"{what} must be a text in quotes or a number, not a parameter or an expression")
        return constants.text_of(self._next())

    def format(self) -> str:
        written = self.name().lower()
        if written not in FORMATS:
            raise _wrong(f"the format {written} cannot be written; possible are {', '.join(FORMATS)}")
        return written

    def query(self, what: str) -> str:
        """The rest of the text, which must begin like a query."""
        token = self._token
        if token is None or (token.group() != "(" and token.group().lower() not in _QUERY_WORDS):
            near = token.group() if token else "the end"
            raise _wrong(f"{what} goes on with SELECT, WITH, VALUES, FROM or TABLE, not with {near!r}")
        return self._text[self._position :]


def _wrong(reason: str) -> Refused:
    return Refused("SYNTAX_ERROR", f"{reason[0].upper()}{reason[1:]}.", "text")
