"""Reads `create table`. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from console.sql.ddl import formats, types
from console.sql.ddl.formats import Storage
from console.sql.ddl.forms import Column, CreateTable, CreateTableLike, Named
from console.sql.ddl.tokens import Reader, refusal

MOST_COLUMNS = 2000
_CLAUSES = (
    "`comment`, `partitioned by (…)`, `using`, `options (…)`, `row format delimited`, `row format serde`, `stored as`,"
    " `location 'oss://…/'` or `tblproperties (…)`"
)


@dataclass
class _Draft:
    """The clauses seen so far."""

    line: int
    storage: Storage = field(default_factory=Storage)
    columns: tuple[Column, ...] = ()
    partition_columns: tuple[Column, ...] = ()
    partition_names: tuple[str, ...] = ()
    properties: dict[str, str] = field(default_factory=dict)
    comment: str = ""
    location: str = ""


def read_name(reader: Reader, what: str = "table") -> Named:
    """`table` or `schema.table`."""
    first = reader.name(what)
    return Named(reader.name(what), first) if reader.accept(".") else Named(first)


def read_create(reader: Reader, *, external: bool) -> CreateTable | CreateTableLike:
    """What stands behind `create [external] table`. Raises Refused."""
    if_not_exists = reader.accept("if", "not", "exists")
    draft = _Draft(reader.next.line)
    table = read_name(reader)
    if reader.accept("like"):
        other = read_name(reader)
        location = reader.text("a location") if reader.accept("location") else ""
        reader.end("`location 'oss://…/'`")
        return CreateTableLike(table, other, external, if_not_exists, location)
    if reader.next.value == "(":
        draft.columns = read_columns(reader)
    while _clause(reader, draft):
        pass
    reader.end(_CLAUSES)
    return _table(draft, table, external, if_not_exists)


def read_columns(reader: Reader) -> tuple[Column, ...]:
    """`(name type [comment '…'], …)`."""
    reader.expect("(")
    found: list[Column] = []
    while True:
        if len(found) >= MOST_COLUMNS:
            raise refusal(reader.next.line, f"a table has at most {MOST_COLUMNS} columns.")
        found.append(_column(reader))
        if not reader.accept(","):
            reader.expect(")")
            return tuple(found)


def _column(reader: Reader) -> Column:
    token = reader.next
    name = reader.name("column")
    if len(name) > 255 or any(ord(c) < 32 for c in name):
        raise refusal(token.line, f"column {name[:40]!r} is too long or has control characters; 255 are allowed.")
    spark_type = types.read(reader, name)
    if reader.accept("not", "null"):
        raise refusal(token.line, f"column {name} is NOT NULL, which files cannot promise; leave it out.")
    reader.accept("null")
    comment = reader.text("a comment") if reader.accept("comment") else ""
    return Column(name, spark_type, comment[:1024])


def _clause(reader: Reader, draft: _Draft) -> bool:
    """Read one clause; False when none comes."""
    if reader.accept("comment"):
        draft.comment = reader.text("a comment")
    elif reader.accept("location"):
        draft.location = reader.text("a location")
    elif reader.accept("tblproperties"):
        draft.properties |= formats.read_pairs(reader)
    elif reader.accept("partitioned", "by"):
        _read_partitions(reader, draft)
    else:
        return _storage_clause(reader, draft)
    return True


def _storage_clause(reader: Reader, draft: _Draft) -> bool:
    storage = draft.storage
    if reader.accept("using"):
        storage.format = formats.read_format(reader)
    elif reader.accept("stored", "as"):
        if reader.accept("inputformat"):
            raise refusal(draft.line, f"INPUTFORMAT is not offered; write `stored as` and {formats.ALLOWED_FORMATS}.")
        storage.format = formats.read_format(reader)
    elif reader.accept("options"):
        pairs = formats.read_pairs(reader)
        draft.location = next((pairs.pop(n) for n in list(pairs) if n.lower() == "path"), draft.location)
        storage.options |= pairs
    elif reader.accept("row", "format"):
        formats.read_row_format(reader, storage)
    else:
        return False
    return True


def _read_partitions(reader: Reader, draft: _Draft) -> None:
    """`(day date)` in Hive's way, `(day)` in Spark's."""
    reader.expect("(")
    columns: list[Column] = []
    names: list[str] = []
    while True:
        token = reader.next
        name = reader.name("column")
        if reader.next.value in (",", ")"):
            names.append(name)
        else:
            spark_type = types.read(reader, name)
            if types.is_nested(spark_type) or spark_type == "binary":
                raise refusal(token.line, f"column {name} is {spark_type}; names of folders cannot hold that.")
            columns.append(Column(name, spark_type, reader.text("a comment") if reader.accept("comment") else ""))
        if not reader.accept(","):
            reader.expect(")")
            break
    if columns and names:
        raise refusal(draft.line, "give either all partition columns a type or none.")
    draft.partition_columns, draft.partition_names = tuple(columns), tuple(names)


def _table(draft: _Draft, table: Named, external: bool, if_not_exists: bool) -> CreateTable:
    columns = _ordered(draft)
    partitions = tuple(c.name for c in draft.partition_columns) or draft.partition_names
    name, options = draft.storage.resolved(draft.properties)
    options = formats.checked(name, options, draft.line)
    if name == "csv" and (nested := next((c for c in columns if types.is_nested(c.type)), None)):
        raise refusal(
            draft.line,
            f"column {nested.name} is {nested.type}; text files hold no nested columns: use json or parquet.",
        )
    return CreateTable(
        table,
        columns,
        partitions,
        external,
        if_not_exists,
        name,
        options,
        draft.properties,
        draft.comment,
        draft.location,
    )


def _ordered(draft: _Draft) -> tuple[Column, ...]:
    """All columns, those of folders last; each name once."""
    columns = draft.columns + draft.partition_columns
    by_name = {column.name.lower(): column for column in columns}
    if len(by_name) < len(columns):
        twice = _first_twice([column.name for column in columns])
        raise refusal(draft.line, f"column {twice} is there twice; the case of letters does not count.")
    wanted = [name.lower() for name in draft.partition_names]
    missing = [name for name in draft.partition_names if name.lower() not in by_name]
    if draft.columns and missing:
        raise refusal(draft.line, f"partition column {missing[0]} is not among the columns.")
    if columns and len(wanted) + len(draft.partition_columns) >= len(columns):
        raise refusal(draft.line, "a table needs a column besides those of its partitions.")
    last = [by_name[name] for name in wanted if name in by_name]
    return tuple([c for c in columns if c.name.lower() not in wanted] + last)


def _first_twice(names: Sequence[str]) -> str:
    lowered = [name.lower() for name in names]
    return next(name for name in names if lowered.count(name.lower()) > 1)
