"""Reads definitions: `create`, `drop`, `alter`, `msck repair`, `refresh`, `truncate` of schemas and tables. Pure.

What is Hive's, DLA's or Spark's way of writing is taken; everything else is refused with its line and what is allowed.
"""

from __future__ import annotations

from console.sql.ddl import alter, tables
from console.sql.ddl.formats import read_pairs
from console.sql.ddl.forms import CreateSchema, Definition, DropSchema, DropTable, RepairTable, TruncateTable
from console.sql.ddl.tokens import Reader, refusal
from console.web.errors import Refused

#: The first words of definitions.
WORDS = frozenset({"create", "drop", "alter", "msck", "repair", "refresh", "truncate"})
_OFFERED = "schemas (or databases) and tables"


def parse(text: str) -> Definition:
    """The definition in a text that begins with one of WORDS. Raises Refused."""
    reader = Reader(text)
    word = reader.take().value.lower()
    match word:
        case "create":
            found = _create(reader)
        case "drop":
            found = _drop(reader)
        case "alter":
            found = _alter(reader)
        case _:
            found = _maintenance(reader, word)
    return found


def _create(reader: Reader) -> Definition:
    if reader.accept("schema") or reader.accept("database"):
        return _create_schema(reader)
    external = reader.accept("external")
    if reader.accept("table"):
        return tables.read_create(reader, external=external)
    raise _not_offered(reader, "created")


def _create_schema(reader: Reader) -> CreateSchema:
    if_not_exists = reader.accept("if", "not", "exists")
    name = reader.name("schema")
    comment = location = ""
    while True:
        if reader.accept("comment"):
            comment = reader.text("a comment")
        elif reader.accept("location"):
            location = reader.text("a location")
        elif reader.accept("with", "dbproperties"):
            location = _properties(reader) or location
        else:
            reader.end("`comment '…'`, `location 'oss://…/'` or `with dbproperties (catalog = 'oss', location = '…')`")
            return CreateSchema(name, if_not_exists, comment, location)


def _properties(reader: Reader) -> str:
    line = reader.next.line
    pairs = {name.lower(): value for name, value in read_pairs(reader).items()}
    catalog = pairs.pop("catalog", "oss")
    location = pairs.pop("location", "")
    if catalog.lower() != "oss":
        raise refusal(line, f"schemas over the catalog {catalog!r} are not offered; allowed is 'oss'.")
    if pairs:
        raise refusal(line, f"the property {next(iter(pairs))!r} is unknown; allowed are catalog and location.")
    return location


def _drop(reader: Reader) -> Definition:
    if reader.accept("schema") or reader.accept("database"):
        if_exists = reader.accept("if", "exists")
        name = reader.name("schema")
        cascade = reader.accept("cascade")
        if not cascade:
            reader.accept("restrict")
        reader.end("`restrict` or `cascade`")
        return DropSchema(name, if_exists, cascade)
    reader.accept("external")
    if reader.accept("table"):
        if_exists = reader.accept("if", "exists")
        dropped = DropTable(tables.read_name(reader), if_exists)
        reader.accept("purge")
        reader.end("the end of the statement: one table is dropped at a time")
        return dropped
    raise _not_offered(reader, "dropped")


def _alter(reader: Reader) -> Definition:
    if not reader.accept("table"):
        raise _not_offered(reader, "altered")
    return alter.read(reader)


def _maintenance(reader: Reader, word: str) -> Definition:
    if word == "msck":
        reader.expect("repair")
    if word in {"refresh", "truncate"}:
        reader.accept("table")
    else:
        reader.expect("table")
    name = tables.read_name(reader)
    if word in ("msck", "repair"):
        reader.accept("add", "partitions")
        reader.accept("sync", "partitions")
    reader.end("the end of the statement")
    return TruncateTable(name) if word == "truncate" else RepairTable(name)


def _not_offered(reader: Reader, verb: str) -> Refused:
    line = reader.next.line
    return Refused(
        "STATEMENT_NOT_OFFERED", f"Line {line}: {reader.next} cannot be {verb}; only {_OFFERED} can.", "text"
    )
