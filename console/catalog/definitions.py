"""Schemas and tables told as definitions: `show create`, `describe formatted`, `show table status`.

So is a table over files that are there: its definition is proposed, and carried out as its author leaves it.
"""

from __future__ import annotations

import re

from django.utils.translation import gettext as _

from analytics.errors import LakeError
from analytics.lake import Place
from console.accounts.actor import Actor, dla_resource
from console.catalog import ddl, partitions
from console.catalog import describe as catalog
from console.catalog.describe import Answer, Cells
from console.catalog.information_schema import rows
from console.catalog.models import ExternalTable, Schema
from console.catalog.queries import Table
from console.statements.ddl import definition, grammar
from console.statements.lexer import quoted
from console.web.errors import Refused

#: How `string` is written for drivers: the longest VARCHAR of MySQL and Hive alike.
_VARCHAR = "varchar(65535)"


def show_create_schema(actor: Actor, schema: str) -> Answer:
    """`show create schema`."""
    name = catalog.canonical(actor, schema)
    found = Schema.objects.filter(tenant=actor.tenant, name=name).first()
    text = f"CREATE SCHEMA {quoted(name)}"
    if found is not None:
        text += f"\nCOMMENT {literal(found.comment)}" if found.comment else ""
        text += f"\nLOCATION {literal(found.location)}" if found.location else ""
    return Answer(("Database", "Create Database"), [(name, text)])


def show_create_table(actor: Actor, schema: str, table: str) -> Answer:
    """`show create table`: a definition that makes the same table."""
    found = catalog.find(actor, schema, table)
    if found.own is None:
        columns = ",\n".join(_column(column, for_drivers=True) for column in found.columns(actor))
        return Answer(("Table", "Create Table"), [(found.name, f"CREATE TABLE {quoted(found.name)} (\n{columns}\n)")])
    return Answer(("Table", "Create Table"), [(found.name, create_table(found.schema, found.own, for_drivers=True))])


def create_table(schema: str, table: ExternalTable, *, for_drivers: bool = False) -> str:
    """The CREATE TABLE of a table; a managed one has no location in it.

    `for_drivers` writes it so that SQLAlchemy, which reads columns out of this text, understands it: what stands behind
    the columns in one line, and texts as VARCHAR, which is the same type here.
    """
    kind = "TABLE" if table.managed else "EXTERNAL TABLE"
    columns = ",\n".join(_column(column, for_drivers=for_drivers) for column in table.columns)
    clauses = []
    if table.comment:
        clauses.append(f"COMMENT {literal(table.comment)}")
    clauses.append(f"USING {table.format.upper()}")
    if table.options:
        pairs = ", ".join(f"{literal(name)} = {literal(value)}" for name, value in sorted(table.options.items()))
        clauses.append(f"OPTIONS ({pairs})")
    if table.partitions:
        clauses.append(f"PARTITIONED BY ({', '.join(map(quoted, table.partitions))})")
    if not table.managed:
        clauses.append(f"LOCATION {literal(table.location)}")
    behind = (" " if for_drivers else "\n").join([")", *clauses])
    return f"CREATE {kind} {quoted(schema)}.{quoted(table.name)} (\n{columns}\n{behind}"


def _column(column: dict[str, str], *, for_drivers: bool = False) -> str:
    comment = f" COMMENT {literal(column['comment'])}" if column.get("comment") else ""
    kind = _VARCHAR if for_drivers and column["type"] == "string" else column["type"]
    return f"  {quoted(column['name'])} {kind}{comment}"


def describe(actor: Actor, schema: str, table: str) -> Answer:
    """`describe formatted`: the columns, and under them what the table is."""
    found = catalog.find(actor, schema, table)
    described: list[Cells] = [(c["name"], c["type"], c.get("comment", "")) for c in found.columns(actor)]
    facts: list[tuple[str, str]] = [("Database", found.schema), ("Table", found.name), ("Type", found.kind)]
    if found.own is not None:
        own = found.own
        described += [("", "", ""), ("# Partition columns", "", ""), *((name, "", "") for name in own.partitions)]
        facts[2] = ("Type", "MANAGED" if own.managed else "EXTERNAL")
        facts += [
            ("Created", rows.text_of_time(own.created_at)),
            ("Provider", own.format),
            ("Comment", own.comment),
            ("Location", own.location),
            ("Options", ", ".join(f"{name}={value}" for name, value in sorted(own.options.items()))),
        ]
    described += [("", "", ""), ("# Detailed Table Information", "", "")]
    return Answer(("col_name", "data_type", "comment"), [*described, *((name, value, "") for name, value in facts)])


def table_status(actor: Actor, schema: str, like: str | None) -> Answer:
    """`show table status`, in MySQL's columns; what files do not tell is null."""
    return Answer(
        ("Name", "Engine", "Version", "Row_format", "Rows", "Avg_row_length", "Data_length", "Max_data_length",
         "Index_length", "Data_free", "Auto_increment", "Create_time", "Update_time", "Check_time", "Collation",
         "Checksum", "Create_options", "Comment"),
        [_status(table) for table in catalog.tables_of(actor, schema, like)],
    )  # fmt: skip


def _status(table: Table) -> Cells:
    if table.own is None:
        return (table.name, *(None,) * 15, "", rows.comment_of(table))
    made = rows.text_of_time(table.own.created_at)
    return (
        table.name, "spark", 10, table.own.format.upper(), *(None,) * 7, made, None, None, rows.COLLATION, None,
        rows.create_options(table), table.comment,
    )  # fmt: skip


def show_partitions(actor: Actor, schema: str, table: str) -> Answer:
    """`show partitions`. Raises Refused for a table without them, and when the lake does not answer."""
    found = catalog.find(actor, schema, table)
    if found.own is None or not found.own.partitions:
        raise Refused(
            "STATEMENT_NOT_OFFERED",
            _("The table %(schema)s.%(found)s is not partitioned.") % {"schema": found.schema, "found": found.name},
            "text",
        )
    try:
        return Answer(("partition",), [(name,) for name in partitions.names(found.own)])
    except LakeError as error:
        raise Refused(
            "LAKE_UNAVAILABLE",
            _("The lake does not answer: %(user_message)s") % {"user_message": error.user_message},
            "text",
        ) from error


def literal(text: str) -> str:
    """A text in quotes, as the reader of definitions takes it."""
    written = text.replace("\\", "\\\\").replace("'", "''").replace("\n", "\\n").replace("\t", "\\t")
    return "'" + written.replace("\x00", "\\0") + "'"


def propose(actor: Actor, place: Place) -> str:
    """The CREATE TABLE for the files of a folder, in the first schema where the caller may make it. Raises Refused."""
    folder = place.as_folder
    found = ddl.infer(actor, folder, None)
    table = ExternalTable(
        name=name_for(folder),
        location=folder,
        format=found.format,
        columns=[{"name": column.name, "type": column.type} for column in found.columns],
        partitions=list(found.partitions),
        options=dict(found.options),
    )
    return create_table(_schema_for(actor, table.name), table)


def name_for(location: str) -> str:
    """A name for a table over a folder: that of the folder."""
    last = location.rstrip("/").rpartition("/")[2].lower()
    return re.sub(r"[^a-z0-9_]+", "_", last).strip("_")[:64] or "files"


def carry_out(actor: Actor, text: str) -> str:
    """Make the table of a definition that names its schema; returns `schema.table`. Raises Refused."""
    wish = grammar.parse(text)
    if not isinstance(wish, definition.CreateTable) or not wish.table.schema:
        raise Refused(
            "SYNTAX_ERROR", _("Write one CREATE EXTERNAL TABLE, with the schema in front of its name."), "text"
        )
    ddl.carry_out(actor, wish, "")
    return f"{wish.table.schema}.{wish.table.table}"


def _schema_for(actor: Actor, table: str) -> str:
    """The first schema in which the caller may make the table, or a name that says to choose one."""
    for name in Schema.objects.filter(tenant=actor.tenant).values_list("name", flat=True):
        if actor.decide(ddl.CREATE_TABLE, dla_resource(actor.tenant, name, table), owner=actor.tenant).allowed:
            return str(name)
    return "schema"
