"""Changes tables: names, columns, partitions, location, properties; looks at their folders again; empties them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db import transaction

from analytics import run as engine
from console.accounts.access import require
from console.accounts.actor import Actor, dla_resource
from console.audit import services as audit
from console.sql import storage
from console.sql.catalog import Answer
from console.sql.ddl import formats, locations, partitions, types
from console.sql.ddl.forms import (
    AddColumns,
    AddPartition,
    Named,
    RenameTable,
    RepairTable,
    SetLocation,
    SetProperties,
    TruncateTable,
)
from console.sql.ddl.table_changes import CREATE, DONE, stored
from console.sql.models import ExternalTable
from console.web.errors import Refused

ALTER = "dla:AlterTable"


def _altering(
    change: Callable[[Actor, ExternalTable, Any], dict[str, Any]],
) -> Callable[[Actor, Any, str], Answer]:
    """Find the table, decide, change it in one transaction, and record what `change` tells."""

    @transaction.atomic
    def run(actor: Actor, wish: Any, schema: str) -> Answer:
        table = _table(actor, wish.table, schema)
        resource = dla_resource(actor.tenant, table.schema.name, table.name)
        detail = change(actor, table, wish)
        affected = detail.pop("affected", 1)
        audit.record(actor, "sql.table.alter", resource, detail=detail)
        return Answer((), [], affected=affected) if affected != 1 else DONE

    return run


def _table(actor: Actor, name: Named, default: str) -> ExternalTable:
    schema = locations.schema_of(actor, name.schema, default, locked=True)
    require(actor, ALTER, dla_resource(actor.tenant, schema.name, name.table), owner=actor.tenant)
    return locations.table_of(schema, name)


@_altering
def rename(actor: Actor, table: ExternalTable, wish: RenameTable) -> dict[str, Any]:
    """`rename to`: within the schema; the files stay where they are."""
    if wish.new.schema and wish.new.schema.lower() != table.schema.name.lower():
        raise Refused("STATEMENT_NOT_OFFERED", "A table keeps its schema; only its name can change.", "text")
    new = locations.checked_name(wish.new.table, "table")
    require(actor, CREATE, dla_resource(actor.tenant, table.schema.name, new), owner=actor.tenant)
    other = locations.find_table(table.schema, wish.new)
    if other is not None and other.pk != table.pk:
        raise Refused("TABLE_EXISTS", f"The table {table.schema.name}.{new} exists already.", "text")
    table.name = new
    table.save(update_fields=["name"])
    return {"renamed_to": new}


@_altering
def add_columns(actor: Actor, table: ExternalTable, wish: AddColumns) -> dict[str, Any]:
    """`add columns`: behind the others, before those of partitions."""
    known = {column["name"].lower() for column in table.columns}
    for column in wish.columns:
        if column.name.lower() in known:
            raise Refused("COLUMN_TWICE", f"The table {table.name} has a column {column.name} already.", "text")
        if table.format == "csv" and types.is_nested(column.type):
            raise Refused("TYPE_NOT_OFFERED", f"Column {column.name} is nested, which text files cannot hold.", "text")
        known.add(column.name.lower())
    own = len(table.columns) - len(table.partitions)
    table.columns = table.columns[:own] + stored(wish.columns) + table.columns[own:]
    table.save(update_fields=["columns"])
    return {"columns_added": [column.name for column in wish.columns]}


@_altering
def add_partition(actor: Actor, table: ExternalTable, wish: AddPartition) -> dict[str, Any]:
    """`add partition`: a partition is a folder, and there as soon as it holds a file; one elsewhere is refused."""
    given = {name.lower(): value for name, value in wish.partition}
    if sorted(given) != sorted(name.lower() for name in table.partitions):
        columns = ", ".join(table.partitions) or "none"
        raise Refused("COLUMN_NOT_FOUND", f"The partition columns of {table.name} are: {columns}; name all.", "text")
    folder = partitions.folder(table, [given[name.lower()] for name in table.partitions])
    if wish.location and wish.location.rstrip("/") != folder.rstrip("/"):
        raise Refused(
            "LOCATION_INVALID", f"A partition lies in the folder of its name: `location '{folder}'`, or none.", "text"
        )
    return {"partition": folder}


@_altering
def set_location(actor: Actor, table: ExternalTable, wish: SetLocation) -> dict[str, Any]:
    """`set location`: of an external table; a managed one owns its folder."""
    if table.managed:
        raise Refused("STATEMENT_NOT_OFFERED", f"{table.name} is a managed table; its location cannot change.", "text")
    table.location = locations.checked(actor, wish.location, locations.READ)
    table.save(update_fields=["location"])
    return {"location": table.location}


@_altering
def set_properties(actor: Actor, table: ExternalTable, wish: SetProperties) -> dict[str, Any]:
    """`set tblproperties`: the comment, and what tells how to read the files."""
    properties = dict(wish.properties)
    comment = properties.pop("comment", None)
    options = formats.checked(table.format, formats.of_properties(table.format, properties), 1)
    rest = {name: value for name, value in properties.items() if name.lower() not in formats.HIVE_PROPERTIES}
    table.options = table.options | options | formats.checked(table.format, rest, 1)
    if comment is not None:
        table.comment = comment[:255]
    table.save(update_fields=["options", "comment"])
    return {"properties": wish.properties}


@_altering
def repair(actor: Actor, table: ExternalTable, wish: RepairTable) -> dict[str, Any]:
    """`msck repair table`, `refresh table`: counts the partitions that the folders give now.

    Nothing is kept about files, so a statement sees new ones by itself; what this adds is to say what is there.
    """
    locations.checked(actor, table.location, locations.READ)
    locations.require_files(actor, locations.READ, table.location)
    found = partitions.names(table) if table.partitions else []
    return {"partitions": len(found), "affected": len(found)}


@_altering
def truncate(actor: Actor, table: ExternalTable, wish: TruncateTable) -> dict[str, Any]:
    """`truncate table`: deletes the files of a managed table."""
    if not table.managed:
        raise Refused(
            "STATEMENT_NOT_OFFERED",
            f"{table.name} is an external table: its files are not deleted by SQL. Only managed tables are truncated.",
            "text",
        )
    locations.checked(actor, table.location, locations.WRITE)
    locations.require_files(actor, locations.WRITE, table.location)
    engine.remove(table.location)
    storage.changed(actor.tenant)
    return {"truncated": table.location}
