"""Reads CREATE [TEMPORARY] TABLE: columns of all kinds, watermark, key, partitions and options, as they are written.

What the options mean is known to `connectors`, what expressions mean to `dialect`. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from console.jobs.compiler import types
from console.jobs.compiler.words import Reader
from console.statements.lexer import Token

#: Wider tables are not read.
MOST_COLUMNS = 1000


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of the job's text: characters in front of it, and in front of what follows."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ColumnText:
    """`name type`, `name type METADATA [FROM 'key'] [VIRTUAL]` or `name AS expression`."""

    name: Token
    #: As Spark names it; empty for a computed column.
    type: str = ""
    metadata: Token | None = None
    virtual: bool = False
    computed: Span | None = None


@dataclass(frozen=True, slots=True)
class WatermarkText:
    """`WATERMARK FOR column AS column [- INTERVAL …]`."""

    column: Token
    expression: Span


@dataclass(frozen=True, slots=True)
class OptionText:
    """`'name' = 'value'`."""

    name: Token
    value: Token


@dataclass(slots=True)
class TableText:
    """A definition as it is written."""

    name: Token
    temporary: bool
    columns: list[ColumnText] = field(default_factory=list)
    watermark: WatermarkText | None = None
    key: list[Token] = field(default_factory=list)
    partitions: list[Token] = field(default_factory=list)
    options: list[OptionText] = field(default_factory=list)


def read(reader: Reader) -> TableText:
    """The definition. Raises TextRefused with what stands in the wrong place and what is expected there."""
    reader.expect("create")
    temporary = reader.accept("temporary")
    reader.expect("table")
    if reader.accept("if"):
        reader.expect("not", "exists")
    table = TableText(_table_name(reader), temporary)
    if reader.next.key in ("as", "like"):
        raise reader.unexpected("the columns in parentheses, since CREATE TABLE … AS and LIKE are not possible")
    reader.expect("(")
    while True:
        _element(reader, table)
        if len(table.columns) > MOST_COLUMNS:
            raise reader.refusal(table.name, f"a table has at most {MOST_COLUMNS} columns.")
        if not reader.accept(","):
            break
    reader.expect(")")
    if reader.accept("comment"):
        reader.quoted("a comment")
    if reader.accept("partitioned"):
        reader.expect("by")
        table.partitions = reader.column_names()
    reader.expect("with")
    table.options = _options(reader)
    reader.end(
        "the end of the statement, since CREATE TABLE … LIKE and AS are not possible" if reader.next.key else "`;`"
    )
    _require_consistent(reader, table)
    return table


def _table_name(reader: Reader) -> Token:
    name = reader.name("table")
    if reader.next.key == ".":
        raise reader.unexpected("a name without a catalog and a schema, since the tables of a job are its own")
    return name


def _element(reader: Reader, table: TableText) -> None:
    if reader.next.key == "watermark" and reader.ahead(1).key == "for":
        first = reader.expect("watermark", "for")
        if table.watermark is not None:
            raise reader.refusal(first, f"table {table.name.value} has two watermarks; allowed is one.")
        column = reader.name("column")
        if reader.next.key == ".":
            raise reader.unexpected("`AS`, since the column of a watermark is not a field of another one")
        reader.expect("as")
        table.watermark = WatermarkText(column, _expression(reader))
    elif reader.next.key in ("primary", "constraint"):
        _key(reader, table)
    elif reader.next.key == "unique" and reader.ahead(1).key == "(":
        raise reader.unexpected("PRIMARY KEY (…) NOT ENFORCED, since UNIQUE is not possible")
    else:
        table.columns.append(_column(reader))


def _key(reader: Reader, table: TableText) -> None:
    first = reader.next
    if reader.accept("constraint"):
        reader.name("constraint")
    reader.expect("primary", "key")
    if table.key:
        raise reader.refusal(first, f"table {table.name.value} has two primary keys; allowed is one.")
    table.key = reader.column_names()
    reader.expect("not", "enforced")


def _column(reader: Reader) -> ColumnText:
    name = reader.name("column")
    if reader.accept("as"):
        computed = _expression(reader)
        _comment(reader)
        return ColumnText(name, computed=computed)
    kind = types.read(reader, name.value)
    metadata, virtual = None, False
    if reader.next.key == "primary":
        raise reader.unexpected("PRIMARY KEY (…) NOT ENFORCED behind the columns")
    if reader.accept("metadata"):
        metadata = reader.quoted("the metadata's key") if reader.accept("from") else name
        virtual = reader.accept("virtual")
    _comment(reader)
    return ColumnText(name, kind, metadata, virtual)


def _comment(reader: Reader) -> None:
    if reader.accept("comment"):
        reader.quoted("a comment")


def _expression(reader: Reader) -> Span:
    """All up to the `,` or `)` that is not within it, or to a comment."""
    first, depth, end = reader.next, 0, reader.next.start
    while reader.next.kind != "end":
        token = reader.next
        if depth == 0 and (token.key in (",", ")") or (token.key == "comment" and reader.ahead(1).kind == "text")):
            break
        depth += (token.key in ("(", "[")) - (token.key in (")", "]"))
        end = token.start + len(token.written)
        reader.advance()
    if end == first.start:
        raise reader.unexpected("an expression")
    return Span(first.start, end)


def _options(reader: Reader) -> list[OptionText]:
    reader.expect("(")
    found: dict[str, OptionText] = {}
    while True:
        name = reader.quoted("the name of an option")
        if name.value in found:
            raise reader.refusal(name, f"the option {name.value} is set twice.")
        reader.expect("=")
        found[name.value] = OptionText(name, reader.quoted(f"the value of {name.value}"))
        if not reader.accept(","):
            break
    reader.expect(")")
    return list(found.values())


def _require_consistent(reader: Reader, table: TableText) -> None:
    names: dict[str, Token] = {}
    for column in table.columns:
        if column.name.value.lower() in names:
            raise reader.refusal(column.name, f"the column {column.name.value} is declared twice.")
        names[column.name.value.lower()] = column.name
    used = [*table.key, *table.partitions, *([table.watermark.column] if table.watermark else [])]
    for name in used:
        if name.value.lower() not in names:
            known = ", ".join(token.value for token in names.values())
            raise reader.refusal(name, f"table {table.name.value} has no column {name.value}; it has {known}.")
    if not names:
        raise reader.refusal(table.name, f"table {table.name.value} has no columns.")
