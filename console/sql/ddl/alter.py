"""Reads `alter table`. Pure."""

from __future__ import annotations

from console.sql.ddl import tables
from console.sql.ddl.formats import read_pairs
from console.sql.ddl.forms import AddColumns, AddPartition, Definition, Named, RenameTable, SetLocation, SetProperties
from console.sql.ddl.tokens import Reader

_ALLOWED = "`rename to`, `add columns (…)`, `add partition (…)`, `set location` or `set tblproperties (…)`"


def read(reader: Reader) -> Definition:
    """What stands behind `alter table`. Raises Refused."""
    table = tables.read_name(reader)
    found = _change(reader, table)
    reader.end("the end of the statement")
    return found


def _change(reader: Reader, table: Named) -> Definition:
    if reader.accept("rename", "to"):
        return RenameTable(table, tables.read_name(reader))
    if reader.accept("add", "columns") or reader.accept("add", "column"):
        return AddColumns(table, tables.read_columns(reader))
    if reader.accept("add", "if", "not", "exists", "partition") or reader.accept("add", "partition"):
        return _add_partition(reader, table)
    if reader.accept("set", "location"):
        return SetLocation(table, reader.text("a location"))
    if reader.accept("set", "tblproperties"):
        return SetProperties(table, read_pairs(reader))
    raise reader.unexpected(_ALLOWED)


def _add_partition(reader: Reader, table: Named) -> AddPartition:
    reader.expect("(")
    values = []
    while True:
        name = reader.name("column")
        reader.expect("=")
        values.append((name, reader.value("a value")))
        if not reader.accept(","):
            reader.expect(")")
            break
    location = reader.text("a location") if reader.accept("location") else ""
    return AddPartition(table, tuple(values), location)
