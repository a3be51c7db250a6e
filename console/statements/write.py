"""Reads the head of `insert …` and `create table … as …`: where the rows go. The query behind it is left to Spark.

Pure: text in, plain data out. Works on the text without its hint (`console.statements.hint`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from django.utils.translation import gettext as _

from console.statements import lexer
from console.statements.ddl.formats import ALLOWED_FORMATS, NAMED_FORMATS
from console.statements.lexer import Token
from console.statements.select import QUERY_WORDS
from console.web.errors import Refused

#: Nobody names this many columns; the head of a longer statement is not read.
_LONGEST_HEAD = 64 * 1024
_SIGNS = frozenset("().,=?")


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
    if reader.accept("insert"):
        return _insert(reader)
    if reader.accept("create"):
        external = reader.accept("external")
        return _create(reader, external) if reader.accept("table") else None
    return None


def _insert(reader: _Reader) -> Insert:
    overwrite = reader.accept("overwrite")
    if not overwrite and not reader.accept("into"):
        raise _wrong(_("INSERT is written INSERT INTO … or INSERT OVERWRITE …"))
    reader.accept("table")
    if reader.comes("local") or reader.comes("directory"):
        raise _wrong(
            _("INSERT OVERWRITE DIRECTORY is not allowed: write into a table of a schema, or download the result")
        )
    schema, table = reader.relation()
    partition: tuple[tuple[str, str | None], ...] = ()
    columns: tuple[str, ...] = ()
    if reader.comes("if"):
        raise _wrong(_("IF NOT EXISTS is not supported after INSERT"))
    if reader.accept("partition"):
        partition = tuple(reader.assignments(values_needed=False))
    if reader.comes("by"):
        raise _wrong(_("BY NAME is not supported here: list the columns in the order of the query"))
    if reader.opens_names():
        columns = tuple(reader.names())
    if reader.comes("partition"):
        raise _wrong(_("PARTITION (…) belongs before the list of columns"))
    return Insert(schema, table, reader.query("INSERT"), overwrite, columns, partition)


def _create(reader: _Reader, external: bool) -> CreateTableAs | None:
    if_not_exists = reader.accept("if") and reader.accept("not") and reader.accept("exists")
    try:
        schema, table = reader.relation()
        given = _clauses(reader)
    except _NotThisFormError:
        return None
    except Refused:
        # Malformed DDL is told by whoever reads DDL; here only what goes on with AS is ours.
        return None
    if not reader.accept("as"):
        return None
    if external and not given.get("location"):
        raise _wrong(
            _("CREATE EXTERNAL TABLE … AS needs LOCATION 'oss://bucket/folder/'; leave EXTERNAL out without one")
        )
    return CreateTableAs(schema, table, reader.query("CREATE TABLE … AS"), if_not_exists, **given)  # type: ignore[arg-type]


class _NotThisFormError(Exception):
    """The text goes on as another form of CREATE TABLE."""


def _clauses(reader: _Reader) -> dict[str, object]:
    """What stands between the table's name and AS."""
    given: dict[str, object] = {}
    given_pairs: dict[str, dict[str, str]] = {"options": {}, "properties": {}}
    while not reader.comes("as"):
        if reader.accept("stored"):
            reader.expect("as")
            given["format"] = reader.format()
        elif reader.accept("using"):
            given["format"] = reader.format()
        elif reader.accept("partitioned"):
            reader.expect("by")
            given["partitions"] = tuple(reader.names())
        elif reader.accept("location"):
            given["location"] = reader.text("LOCATION")
        elif reader.accept("comment"):
            given["comment"] = reader.text("COMMENT")
        elif (is_option := reader.accept("options")) or reader.accept("tblproperties"):
            pairs = given_pairs["options" if is_option else "properties"]
            pairs |= {name: value or "" for name, value in reader.assignments(values_needed=True)}
        else:
            raise _NotThisFormError
    return {**given, **given_pairs}


class _Reader(lexer.Reader):
    """Goes over the parts of a head, no further than it is asked to: behind it comes what Spark reads."""

    def __init__(self, text: str) -> None:
        super().__init__(lexer.tokens(text, _LONGEST_HEAD, decimals=True))
        self._text = text

    def comes(self, word: str) -> bool:
        """Whether this word or sign comes next."""
        return self._coming[0].key == word

    def expect(self, wanted: str) -> None:
        if not self.accept(wanted):
            raise self._unexpected(_("%(wanted)s is expected near {}") % {"wanted": wanted.upper()})

    def name(self) -> str:
        if self.next.kind not in ("word", "name"):
            raise self._unexpected(_("a name is expected near {}"))
        return self.advance().value

    def relation(self) -> tuple[str | None, str]:
        """`table` or `schema.table`; a reserved word is no name here unless it is quoted."""
        first = self.name()
        if not self.accept("."):
            return None, first
        second = self.name()
        if self.comes("."):
            raise _wrong(
                _("%(first)s.%(second)s.… has too many parts: a table is named schema.table")
                % {"first": first, "second": second}
            )
        return first, second

    def opens_names(self) -> bool:
        """Whether the next parenthesis holds names: a query may stand in parentheses too."""
        return self.comes("(") and not _begins_query(self.ahead(1)) and _is_known(self.ahead(1))

    def names(self) -> list[str]:
        self.expect("(")
        found = [self.name()]
        while self.accept(","):
            found.append(self.name())
        self.expect(")")
        return found

    def assignments(self, *, values_needed: bool) -> list[tuple[str, str | None]]:
        """`(name = value, …)`; the value may be left out unless it is needed."""
        self.expect("(")
        found = [self._assignment(values_needed)]
        while self.accept(","):
            found.append(self._assignment(values_needed))
        self.expect(")")
        return found

    def _assignment(self, value_needed: bool) -> tuple[str, str | None]:
        if value_needed and self.next.kind == "text":
            name = self.text(_("the name of an option"))
        else:
            name = self.name()
            while value_needed and self.accept("."):
                name = f"{name}.{self.name()}"
        if not self.accept("=") and not value_needed:
            return name, None
        return name, self._literal(name)

    def _literal(self, name: str) -> str:
        if self.next.kind == "number":
            return self.advance().value
        if self.comes("true") or self.comes("false"):
            return self.advance().value.lower()
        if not self.accept("date"):
            self.accept("timestamp")
        return self.text(name)

    def text(self, what: str) -> str:
        if self.next.kind != "text":
            raise _wrong(
                _("%(what)s must be a text in quotes or a number, not a parameter or an expression") % {"what": what}
            )
        return self.advance().value

    def format(self) -> str:
        written = self.name().lower()
        if written not in NAMED_FORMATS:
            raise _wrong(
                _("the format %(written)s cannot be written; possible are %(allowed_formats)s")
                % {"written": written, "allowed_formats": ALLOWED_FORMATS}
            )
        return written

    def query(self, what: str) -> str:
        """The rest of the text, which must begin like a query."""
        if not _begins_query(self.next):
            raise self._unexpected(
                _("%(what)s must continue with SELECT, WITH, VALUES, FROM or TABLE, not with {}") % {"what": what}
            )
        return self._text[self.next.start :]

    def _unexpected(self, sentence: str) -> Refused:
        return _wrong(sentence.format(repr(self.next.written if _is_known(self.next) else _("the end"))))


def _is_known(token: Token) -> bool:
    """Whether it is something that may stand in a head."""
    return token.kind not in ("end", "open") and (token.kind != "sign" or token.value in _SIGNS)


def _begins_query(token: Token) -> bool:
    return token.key == "(" or token.key in QUERY_WORDS


def _wrong(reason: str) -> Refused:
    return Refused("SYNTAX_ERROR", f"{reason[0].upper()}{reason[1:]}.", "text")
