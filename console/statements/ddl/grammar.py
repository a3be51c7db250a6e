"""Reads definitions: `create`, `drop`, `alter`, `msck repair`, `refresh`, `truncate` of schemas and tables. Pure.

What is Hive's, DLA's or Spark's way of writing is taken; everything else is refused with its line and what is allowed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from django.utils.translation import gettext as _

from console.statements.ddl import formats, types
from console.statements.ddl.definition import (
    AddColumns,
    AddPartition,
    Column,
    CreateSchema,
    CreateTable,
    CreateTableLike,
    Definition,
    DropSchema,
    DropTable,
    Named,
    RenameTable,
    RepairTable,
    SetLocation,
    SetProperties,
    TruncateTable,
)
from console.statements.ddl.formats import Storage, read_pairs
from console.statements.ddl.words import Reader, refusal
from console.web.errors import Refused

#: The first words of definitions.
WORDS = frozenset({"create", "drop", "alter", "msck", "repair", "refresh", "truncate"})
_OFFERED = "schemas (or databases) and tables"

_ALLOWED = "`rename to`, `add columns (…)`, `add partition (…)`, `set location` or `set tblproperties (…)`"

MOST_COLUMNS = 2000
_CLAUSES = (
    "`comment`, `partitioned by (…)`, `using`, `options (…)`, `row format delimited`, `row format serde`, `stored as`,"
    " `location 'oss://…/'` or `tblproperties (…)`"
)


def parse(text: str) -> Definition:
    """The definition in a text that begins with one of WORDS. Raises Refused."""
    return read_definition(Reader(text))


def read_definition(reader: Reader) -> Definition:
    """As `parse`, of a text whose parts are known."""
    word = reader.advance().value.lower()
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
        return read_create(reader, external=external)
    raise _not_offered(reader, "created")


def _create_schema(reader: Reader) -> CreateSchema:
    if_not_exists = reader.accept("if", "not", "exists")
    name = reader.name("schema")
    comment = location = ""
    while True:
        if reader.accept("comment"):
            comment = reader.text(_("a comment"))
        elif reader.accept("location"):
            location = reader.text(_("a location"))
        elif reader.accept("with", "dbproperties"):
            location = _properties(reader) or location
        else:
            reader.end(
                _("`comment '…'`, `location 'oss://…/'` or `with dbproperties (catalog = 'oss', location = '…')`")
            )
            return CreateSchema(name, if_not_exists, comment, location)


def _properties(reader: Reader) -> str:
    line = reader.next.line
    pairs = {name.lower(): value for name, value in read_pairs(reader).items()}
    catalog = pairs.pop("catalog", "oss")
    location = pairs.pop("location", "")
    if catalog.lower() != "oss":
        raise refusal(
            line, _("schemas over the catalog %(catalog)r are not supported; allowed is 'oss'.") % {"catalog": catalog}
        )
    if pairs:
        raise refusal(
            line,
            _("the property %(pairs)r is unknown; allowed are catalog and location.") % {"pairs": next(iter(pairs))},
        )
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
        dropped = DropTable(read_name(reader), if_exists)
        reader.accept("purge")
        reader.end(_("the end of the statement: one table is dropped at a time"))
        return dropped
    raise _not_offered(reader, "dropped")


def _alter(reader: Reader) -> Definition:
    if not reader.accept("table"):
        raise _not_offered(reader, "altered")
    return read(reader)


def _maintenance(reader: Reader, word: str) -> Definition:
    if word == "msck":
        reader.expect("repair")
    if word in {"refresh", "truncate"}:
        reader.accept("table")
    else:
        reader.expect("table")
    name = read_name(reader)
    if word in ("msck", "repair"):
        reader.accept("add", "partitions")
        reader.accept("sync", "partitions")
    reader.end(_("the end of the statement"))
    return TruncateTable(name) if word == "truncate" else RepairTable(name)


def _not_offered(reader: Reader, verb: str) -> Refused:
    line = reader.next.line
    return Refused(
        "STATEMENT_NOT_OFFERED",
        _("Line %(line)s: %(next)s cannot be %(verb)s; only %(offered)s can.")
        % {"line": line, "next": reader.next, "verb": verb, "offered": _OFFERED},
        "text",
    )


def read(reader: Reader) -> Definition:
    """What stands behind `alter table`. Raises Refused."""
    table = read_name(reader)
    found = _change(reader, table)
    reader.end(_("the end of the statement"))
    return found


def _change(reader: Reader, table: Named) -> Definition:
    if reader.accept("rename", "to"):
        return RenameTable(table, read_name(reader))
    if reader.accept("add", "columns") or reader.accept("add", "column"):
        return AddColumns(table, read_columns(reader))
    if reader.accept("add", "if", "not", "exists", "partition") or reader.accept("add", "partition"):
        return _add_partition(reader, table)
    if reader.accept("set", "location"):
        return SetLocation(table, reader.text(_("a location")))
    if reader.accept("set", "tblproperties"):
        return SetProperties(table, read_pairs(reader))
    raise reader.unexpected(_ALLOWED)


def _add_partition(reader: Reader, table: Named) -> AddPartition:
    reader.expect("(")
    values = []
    while True:
        name = reader.name("column")
        reader.expect("=")
        values.append((name, reader.value(_("a value"))))
        if not reader.accept(","):
            reader.expect(")")
            break
    location = reader.text(_("a location")) if reader.accept("location") else ""
    return AddPartition(table, tuple(values), location)


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
        location = reader.text(_("a location")) if reader.accept("location") else ""
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
            raise refusal(
                reader.next.line, _("a table has at most %(most_columns)s columns.") % {"most_columns": MOST_COLUMNS}
            )
        found.append(_column(reader))
        if not reader.accept(","):
            reader.expect(")")
            return tuple(found)


def _column(reader: Reader) -> Column:
    token = reader.next
    name = reader.name("column")
    if len(name) > 255 or any(ord(c) < 32 for c in name):
        raise refusal(
            token.line,
            _("column %(name)r is too long or has control characters; 255 are allowed.") % {"name": name[:40]},
        )
    spark_type = types.read(reader, name)
    if reader.accept("not", "null"):
        raise refusal(
            token.line, _("column %(name)s is NOT NULL, which files cannot promise; leave it out.") % {"name": name}
        )
    reader.accept("null")
    comment = reader.text(_("a comment")) if reader.accept("comment") else ""
    return Column(name, spark_type, comment[:1024])


def _clause(reader: Reader, draft: _Draft) -> bool:
    """Read one clause; False when none comes."""
    if reader.accept("comment"):
        draft.comment = reader.text(_("a comment"))
    elif reader.accept("location"):
        draft.location = reader.text(_("a location"))
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
            raise refusal(
                draft.line,
                _("INPUTFORMAT is not supported; write `stored as` and %(allowed_formats)s.")
                % {"allowed_formats": formats.ALLOWED_FORMATS},
            )
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
                raise refusal(
                    token.line,
                    _("column %(name)s is %(spark_type)s; names of folders cannot hold that.")
                    % {"name": name, "spark_type": spark_type},
                )
            columns.append(Column(name, spark_type, reader.text(_("a comment")) if reader.accept("comment") else ""))
        if not reader.accept(","):
            reader.expect(")")
            break
    if columns and names:
        raise refusal(draft.line, _("give either all partition columns a type or none."))
    draft.partition_columns, draft.partition_names = tuple(columns), tuple(names)


def _table(draft: _Draft, table: Named, external: bool, if_not_exists: bool) -> CreateTable:
    columns = _ordered(draft)
    partitions = tuple(c.name for c in draft.partition_columns) or draft.partition_names
    name, options = draft.storage.resolved(draft.properties)
    options = formats.checked(name, options, draft.line)
    if name == "csv" and (nested := next((c for c in columns if types.is_nested(c.type)), None)):
        raise refusal(
            draft.line,
            _("column %(nested)s is %(type)s; text files hold no nested columns: use json or parquet.")
            % {"nested": nested.name, "type": nested.type},
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
        raise refusal(draft.line, _("column %(twice)s appears twice; names are not case-sensitive.") % {"twice": twice})
    wanted = [name.lower() for name in draft.partition_names]
    missing = [name for name in draft.partition_names if name.lower() not in by_name]
    if draft.columns and missing:
        raise refusal(draft.line, _("partition column %(missing)s is not among the columns.") % {"missing": missing[0]})
    if columns and len(wanted) + len(draft.partition_columns) >= len(columns):
        raise refusal(draft.line, _("a table needs a column besides those of its partitions."))
    last = [by_name[name] for name in wanted if name in by_name]
    return tuple([c for c in columns if c.name.lower() not in wanted] + last)


def _first_twice(names: Sequence[str]) -> str:
    lowered = [name.lower() for name in names]
    return next(name for name in names if lowered.count(name.lower()) > 1)
