"""Definitions of schemas and tables, decided and carried out here, without Spark (docs/use/sql.md).

Everything but the files of tables is a row of Schema or ExternalTable.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from analytics import lake
from analytics.errors import LakeError
from analytics.infer import infer_table
from analytics.specs import Inferred
from console.accounts.access import require
from console.accounts.actor import Actor, dla_resource
from console.accounts.models import Tenant
from console.audit import record as audit
from console.catalog import bucket_events, locations, partitions, queries, storage
from console.catalog.describe import Answer
from console.catalog.models import BucketChange, ExternalTable, Schema
from console.statements.ddl import definition, formats, grammar, types
from console.statements.ddl.definition import (
    AddColumns,
    AddPartition,
    Column,
    CreateSchema,
    CreateTable,
    CreateTableLike,
    DropSchema,
    DropTable,
    Named,
    RenameTable,
    RepairTable,
    SetLocation,
    SetProperties,
    TruncateTable,
)
from console.statements.ddl.words import Reader
from console.web.after_commit import after_commit
from console.web.errors import Refused
from console.web.words import counted

log = logging.getLogger(__name__)
CREATE_SCHEMA, DROP_SCHEMA = "dla:CreateSchema", "dla:DropSchema"
CREATE_TABLE, DROP_TABLE = "dla:CreateTable", "dla:DropTable"
ALTER = "dla:AlterTable"
DONE = Answer((), [], affected=1)
NOTHING_TO_DO = Answer((), [])


def run(actor: Actor, text: str, schema: str) -> Answer:
    """Read a definition and carry it out, as `carry_out` does. Raises Refused for what cannot be read, too."""
    return carry_out(actor, grammar.parse(text), schema)


def carry_out(actor: Actor, wish: definition.Definition, schema: str) -> Answer:
    """Do what a definition asks for; `schema` is the default one. The answer has no rows.

    Raises Refused for what cannot be done, PermissionDenied, and Refused LAKE_UNAVAILABLE when the files of a table
    cannot be looked at.
    """
    try:
        return _RUNNERS[type(wish)](actor, wish, schema)
    except LakeError as error:
        raise Refused(
            "LAKE_UNAVAILABLE",
            _("The lake does not answer: %(user_message)s") % {"user_message": error.user_message},
            "text",
        ) from error


def name_of(reader: Reader) -> str:
    """What a task is called that runs a definition: `CREATE_TABLE`, `DROP_SCHEMA`. The reader stays where it is."""
    position = 1
    while reader.ahead(position).key in ("external", "repair"):
        position += 1
    what = reader.ahead(position).value.lower()
    kind = "SCHEMA" if what in ("schema", "database") else "TABLE"
    return f"{reader.next.value.upper()}_{kind}"


@transaction.atomic
def create_table(actor: Actor, wish: CreateTable, schema: str) -> Answer:
    """`create table`; without columns they are read from the files that are there."""
    found = _new_table(actor, wish.table, schema, if_not_exists=wish.if_not_exists)
    if found is None:
        return NOTHING_TO_DO
    location, managed = _place(actor, found, wish.table, wish.location, external=wish.external)
    columns, partitions = _columns(actor, wish, location)
    _register(
        actor,
        found,
        wish.table.table,
        location=location,
        managed=managed,
        format=wish.format,
        columns=columns,
        partitions=partitions,
        options=wish.options,
        comment=(wish.comment or wish.properties.get("comment", ""))[:255],
    )
    return DONE


@transaction.atomic
def create_table_like(actor: Actor, wish: CreateTableLike, schema: str) -> Answer:
    """`create table … like …`: the definition of another table, none of its rows."""
    found = _new_table(actor, wish.table, schema, if_not_exists=wish.if_not_exists)
    if found is None:
        return NOTHING_TO_DO
    from_schema = locations.schema_of(actor, wish.other.schema, schema)
    resource = dla_resource(actor.tenant, from_schema.name, wish.other.table)
    require(actor, queries.SUBMIT, resource, owner=actor.tenant)
    other = locations.table_of(from_schema, wish.other)
    location, managed = _place(actor, found, wish.table, wish.location, external=wish.external)
    _register(
        actor,
        found,
        wish.table.table,
        location=location,
        managed=managed,
        **{name: getattr(other, name) for name in ("format", "columns", "partitions", "options", "comment")},
    )
    return DONE


@transaction.atomic
def drop_table(actor: Actor, wish: DropTable, schema: str) -> Answer:
    """`drop table`: the files of a managed table go with it, those of an external one stay."""
    found = locations.schema_of(actor, wish.table.schema, schema, locked=True)
    require(actor, DROP_TABLE, dla_resource(actor.tenant, found.name, wish.table.table), owner=actor.tenant)
    if wish.if_exists and locations.find_table(found, wish.table) is None:
        return NOTHING_TO_DO
    remove_table(actor, found, locations.table_of(found, wish.table))
    return DONE


def remove_table(actor: Actor, schema: Schema, table: ExternalTable) -> None:
    """Drop a table in the caller's transaction.

    Raises PermissionDenied, also when its files must not be removed, and Refused while another table lies over them.
    """
    resource = dla_resource(actor.tenant, schema.name, table.name)
    require(actor, DROP_TABLE, resource, owner=actor.tenant)
    if table.managed:
        other = locations.table_around(actor, table.location, but=table)
        if other is not None:
            raise Refused(
                "LOCATION_IN_USE",
                _(
                    "The table %(other)s uses the files of %(table)s, which would be deleted with it: drop "
                    "%(other)s first."
                )
                % {"other": other, "table": table.name},
                "text",
            )
        locations.checked(actor, table.location, locations.WRITE)
        locations.require_files(actor, locations.WRITE, table.location)
        after_commit(_remove_files, actor.tenant, table.location, bucket_events.begin_removal(actor, table.location))
    audit.record(actor, "sql.table.drop", resource, detail={"location": table.location, "files_removed": table.managed})
    table.delete()


def _remove_files(tenant: Tenant, location: str, changes: list[BucketChange]) -> None:
    storage.changed(tenant)
    try:
        lake.remove(location)
    except LakeError:
        log.exception("the files of the dropped table at %s stay", location)
        return
    bucket_events.settle(changes, is_done=True)


def _new_table(actor: Actor, name: Named, default: str, *, if_not_exists: bool) -> Schema | None:
    """The schema that the new table goes to; None when the table is there and that is no error."""
    found = locations.schema_of(actor, name.schema, default, locked=True)
    locations.checked_name(name.table, "table")
    require(actor, CREATE_TABLE, dla_resource(actor.tenant, found.name, name.table), owner=actor.tenant)
    if locations.find_table(found, name) is None:
        return found
    if if_not_exists:
        return None
    raise Refused(
        "TABLE_EXISTS",
        _("The table %(found)s.%(table)s already exists.") % {"found": found.name, "table": name.table},
        "text",
    )


def _place(actor: Actor, schema: Schema, name: Named, location: str, *, external: bool) -> tuple[str, bool]:
    """Location of the new table, and whether it is a managed one."""
    if location:
        return locations.checked(actor, location, locations.READ), False
    if external:
        raise Refused("LOCATION_MISSING", _("An external table needs `location 'oss://bucket/folder/'`."), "text")
    place = locations.checked(actor, locations.of_managed_table(schema, name.table), locations.WRITE)
    other = locations.table_around(actor, place)
    if other is not None:
        raise Refused(
            "LOCATION_IN_USE",
            _("The folder %(place)s overlaps with that of the table %(other)s; give the table a location of its own.")
            % {"place": place, "other": other},
            "text",
        )
    if lake.files(place):
        raise Refused(
            "LOCATION_NOT_EMPTY",
            _(
                "There are files in %(place)s already, and dropping the table would delete them: create "
                "an external table over them with `location '%(place)s'`."
            )
            % {"place": place},
            "text",
        )
    return place, True


def _columns(actor: Actor, wish: CreateTable, location: str) -> tuple[list[dict[str, str]], list[str]]:
    if wish.columns:
        return stored(wish.columns), list(wish.partitions)
    inferred = infer(actor, location, wish.format, wish.options)
    known = {column.name.lower(): column for column in inferred.columns}
    missing = [name for name in wish.partitions if name.lower() not in {n.lower() for n in inferred.partitions}]
    if missing:
        folders = ", ".join(inferred.partitions) or "none"
        raise Refused(
            "COLUMN_NOT_FOUND",
            _("No folder gives the column %(missing)s; folders give %(folders)s.")
            % {"missing": missing[0], "folders": folders},
            "text",
        )
    return [{"name": c.name, "type": c.type} for c in known.values()], list(inferred.partitions)


def infer(actor: Actor, location: str, file_format: str | None, options: dict[str, str] | None = None) -> Inferred:
    """Format, columns and partitions of the files in a folder. Raises Refused when they cannot be told.

    Raises PermissionDenied when one of the files is denied to the actor.
    """
    try:
        locations.require_files(actor, locations.READ, location)
        return infer_table(location, file_format, options or {}, actor.tenant.uid)
    except LakeError as error:
        raise Refused(
            "COLUMNS_UNKNOWN",
            _("%(user_message)s Write the columns: (name type, …).") % {"user_message": error.user_message},
            "text",
        ) from error


def stored(columns: tuple[Column, ...]) -> list[dict[str, str]]:
    """Columns as ExternalTable keeps them."""
    return [{"name": c.name, "type": c.type} | ({"comment": c.comment} if c.comment else {}) for c in columns]


def _register(actor: Actor, schema: Schema, name: str, **values: Any) -> None:
    ExternalTable.objects.create(schema=schema, name=name, **values)
    audit.record(
        actor,
        "sql.table.create",
        dla_resource(actor.tenant, schema.name, name),
        detail={"location": values["location"], "format": values["format"], "managed": values["managed"]},
    )


@transaction.atomic
def create_schema(actor: Actor, wish: CreateSchema, schema: str) -> Answer:
    """`create schema`."""
    name = locations.checked_name(wish.schema, "schema")
    resource = dla_resource(actor.tenant, name)
    require(actor, CREATE_SCHEMA, resource, owner=actor.tenant)
    if name.lower() in locations.RESERVED:
        reserved = ", ".join(sorted(locations.RESERVED))
        raise Refused(
            "NAME_RESERVED",
            _("The name %(name)s is reserved, as are %(reserved)s; choose another.")
            % {"name": name, "reserved": reserved},
            "text",
        )
    location = locations.checked(actor, wish.location, locations.READ) if wish.location else ""
    if Schema.objects.filter(tenant=actor.tenant, name__iexact=name).exists():
        if wish.if_not_exists:
            return NOTHING_TO_DO
        raise Refused("SCHEMA_EXISTS", _("The schema %(name)s already exists.") % {"name": name}, "text")
    Schema.objects.create(tenant=actor.tenant, name=name, location=location, comment=wish.comment[:255])
    audit.record(actor, "sql.schema.create", resource, detail={"location": location})
    return DONE


@transaction.atomic
def drop_schema(actor: Actor, wish: DropSchema, schema: str) -> Answer:
    """`drop schema`: with tables only by `cascade`, which needs the right to drop each."""
    resource = dla_resource(actor.tenant, wish.schema)
    require(actor, DROP_SCHEMA, resource, owner=actor.tenant)
    if wish.if_exists and not Schema.objects.filter(tenant=actor.tenant, name__iexact=wish.schema).exists():
        return NOTHING_TO_DO
    found = locations.schema_of(actor, wish.schema, "", locked=True)
    tables = list(found.tables.all())
    if tables and not wish.cascade:
        count = counted(len(tables), "table")
        raise Refused(
            "SCHEMA_NOT_EMPTY",
            _("The schema %(found)s has %(count)s: drop them first, or add `cascade`.")
            % {"found": found.name, "count": count},
            "text",
        )
    for table in tables:
        remove_table(actor, found, table)
    found.delete()
    audit.record(actor, "sql.schema.drop", resource, detail={"tables": [table.name for table in tables]})
    return Answer((), [], affected=1 + len(tables))


def _altering(
    change: Callable[[Actor, ExternalTable, Any], dict[str, Any]],
) -> Callable[[Actor, Any, str], Answer]:
    """Find the table, decide, change it in one transaction, and record what `change` tells."""

    @transaction.atomic
    def run(actor: Actor, wish: Any, schema: str) -> Answer:
        table = _table_to_alter(actor, wish.table, schema)
        resource = dla_resource(actor.tenant, table.schema.name, table.name)
        detail = change(actor, table, wish)
        affected = detail.pop("affected", 1)
        audit.record(actor, "sql.table.alter", resource, detail=detail)
        return Answer((), [], affected=affected) if affected != 1 else DONE

    return run


def _table_to_alter(actor: Actor, name: Named, default: str) -> ExternalTable:
    schema = locations.schema_of(actor, name.schema, default, locked=True)
    require(actor, ALTER, dla_resource(actor.tenant, schema.name, name.table), owner=actor.tenant)
    return locations.table_of(schema, name)


@_altering
def rename(actor: Actor, table: ExternalTable, wish: RenameTable) -> dict[str, Any]:
    """`rename to`: within the schema; the files stay where they are."""
    if wish.new.schema and wish.new.schema.lower() != table.schema.name.lower():
        raise Refused("STATEMENT_NOT_OFFERED", _("A table keeps its schema; only its name can change."), "text")
    new = locations.checked_name(wish.new.table, "table")
    require(actor, CREATE_TABLE, dla_resource(actor.tenant, table.schema.name, new), owner=actor.tenant)
    other = locations.find_table(table.schema, wish.new)
    if other is not None and other.pk != table.pk:
        raise Refused(
            "TABLE_EXISTS",
            _("The table %(name)s.%(new)s already exists.") % {"name": table.schema.name, "new": new},
            "text",
        )
    table.name = new
    table.save(update_fields=["name"])
    return {"renamed_to": new}


@_altering
def add_columns(actor: Actor, table: ExternalTable, wish: AddColumns) -> dict[str, Any]:
    """`add columns`: behind the others, before those of partitions."""
    known = {column["name"].lower() for column in table.columns}
    for column in wish.columns:
        if column.name.lower() in known:
            raise Refused(
                "COLUMN_TWICE",
                _("The table %(table)s already has a column %(column)s.")
                % {"table": table.name, "column": column.name},
                "text",
            )
        if table.format == "csv" and types.is_nested(column.type):
            raise Refused(
                "TYPE_NOT_OFFERED",
                _("Column %(column)s is nested, which text files cannot hold.") % {"column": column.name},
                "text",
            )
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
        raise Refused(
            "COLUMN_NOT_FOUND",
            _("The partition columns of %(table)s are: %(columns)s; name all.")
            % {"table": table.name, "columns": columns},
            "text",
        )
    folder = partitions.folder(table, [given[name.lower()] for name in table.partitions])
    if wish.location and wish.location.rstrip("/") != folder.rstrip("/"):
        raise Refused(
            "LOCATION_INVALID",
            _("A partition must be in the folder that has its name: `location '%(folder)s'`, or none.")
            % {"folder": folder},
            "text",
        )
    return {"partition": folder}


@_altering
def set_location(actor: Actor, table: ExternalTable, wish: SetLocation) -> dict[str, Any]:
    """`set location`: of an external table; a managed one owns its folder."""
    if table.managed:
        raise Refused(
            "STATEMENT_NOT_OFFERED",
            _("%(table)s is a managed table; its location cannot change.") % {"table": table.name},
            "text",
        )
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
            _("%(table)s is an external table: its files are not deleted by SQL. Only managed tables are truncated.")
            % {"table": table.name},
            "text",
        )
    locations.checked(actor, table.location, locations.WRITE)
    locations.require_files(actor, locations.WRITE, table.location)
    changes = bucket_events.begin_removal(actor, table.location)
    lake.remove(table.location)
    bucket_events.settle(changes, is_done=True)
    storage.changed(actor.tenant)
    return {"truncated": table.location}


_RUNNERS: dict[type, Callable[[Actor, Any, str], Answer]] = {
    definition.CreateSchema: create_schema,
    definition.DropSchema: drop_schema,
    definition.CreateTable: create_table,
    definition.CreateTableLike: create_table_like,
    definition.DropTable: drop_table,
    definition.RenameTable: rename,
    definition.AddColumns: add_columns,
    definition.AddPartition: add_partition,
    definition.SetLocation: set_location,
    definition.SetProperties: set_properties,
    definition.RepairTable: repair,
    definition.TruncateTable: truncate,
}
