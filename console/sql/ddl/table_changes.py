"""Makes and drops tables. Everything but their files is a row of ExternalTable."""

from __future__ import annotations

import logging
from typing import Any

from django.db import transaction

from analytics import run as engine
from console.accounts.access import require
from console.accounts.actor import Actor, dla_resource
from console.accounts.models import Tenant
from console.audit import services as audit
from console.sql import storage
from console.sql.catalog import Answer
from console.sql.ddl import locations
from console.sql.ddl.forms import Column, CreateTable, CreateTableLike, DropTable, Named
from console.sql.models import ExternalTable, Schema
from console.web.after_commit import after_commit
from console.web.errors import Refused

log = logging.getLogger(__name__)
CREATE = "dla:CreateTable"
DROP = "dla:DropTable"
DONE = Answer((), [], affected=1)
NOTHING_TO_DO = Answer((), [])


@transaction.atomic
def create(actor: Actor, wish: CreateTable, schema: str) -> Answer:
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
def create_like(actor: Actor, wish: CreateTableLike, schema: str) -> Answer:
    """`create table … like …`: the definition of another table, none of its rows."""
    found = _new_table(actor, wish.table, schema, if_not_exists=wish.if_not_exists)
    if found is None:
        return NOTHING_TO_DO
    from_schema = locations.schema_of(actor, wish.other.schema, schema)
    resource = dla_resource(actor.tenant, from_schema.name, wish.other.table)
    require(actor, "dla:SubmitQuery", resource, owner=actor.tenant)
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
def drop(actor: Actor, wish: DropTable, schema: str) -> Answer:
    """`drop table`: the files of a managed table go with it, those of an external one stay."""
    found = locations.schema_of(actor, wish.table.schema, schema, locked=True)
    require(actor, DROP, dla_resource(actor.tenant, found.name, wish.table.table), owner=actor.tenant)
    if wish.if_exists and locations.find_table(found, wish.table) is None:
        return NOTHING_TO_DO
    remove(actor, found, locations.table_of(found, wish.table))
    return DONE


def remove(actor: Actor, schema: Schema, table: ExternalTable) -> None:
    """Drop a table in the caller's transaction.

    Raises PermissionDenied, also when its files must not be removed, and Refused while another table lies over them.
    """
    resource = dla_resource(actor.tenant, schema.name, table.name)
    require(actor, DROP, resource, owner=actor.tenant)
    if table.managed:
        other = locations.table_around(actor, table.location, but=table)
        if other is not None:
            raise Refused(
                "LOCATION_IN_USE",
                f"The table {other} lies over the files of {table.name}, which would go with it: drop {other} first.",
                "text",
            )
        locations.checked(actor, table.location, locations.WRITE)
        locations.require_files(actor, locations.WRITE, table.location)
        after_commit(_remove_files, actor.tenant, table.location)
    audit.record(actor, "sql.table.drop", resource, detail={"location": table.location, "files_removed": table.managed})
    table.delete()


def _remove_files(tenant: Tenant, location: str) -> None:
    storage.changed(tenant)
    try:
        engine.remove(location)
    except engine.LakeError:
        log.exception("the files of the dropped table at %s stay", location)


def _new_table(actor: Actor, name: Named, default: str, *, if_not_exists: bool) -> Schema | None:
    """The schema that the new table goes to; None when the table is there and that is no error."""
    found = locations.schema_of(actor, name.schema, default, locked=True)
    locations.checked_name(name.table, "table")
    require(actor, CREATE, dla_resource(actor.tenant, found.name, name.table), owner=actor.tenant)
    if locations.find_table(found, name) is None:
        return found
    if if_not_exists:
        return None
    raise Refused("TABLE_EXISTS", f"The table {found.name}.{name.table} exists already.", "text")


def _place(actor: Actor, schema: Schema, name: Named, location: str, *, external: bool) -> tuple[str, bool]:
    """Location of the new table, and whether it is a managed one."""
    if location:
        return locations.checked(actor, location, locations.READ), False
    if external:
        raise Refused("LOCATION_MISSING", "An external table needs `location 'oss://bucket/folder/'`.", "text")
    place = locations.checked(actor, locations.of_managed_table(schema, name.table), locations.WRITE)
    other = locations.table_around(actor, place)
    if other is not None:
        raise Refused(
            "LOCATION_IN_USE",
            f"The folder {place} overlaps with that of the table {other}; give the table a location of its own.",
            "text",
        )
    if engine.files(place):
        raise Refused(
            "LOCATION_NOT_EMPTY",
            f"There are files in {place} already, and dropping the table would delete them: make an external table"
            f" over them with `location '{place}'`.",
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
        raise Refused("COLUMN_NOT_FOUND", f"No folder gives the column {missing[0]}; folders give {folders}.", "text")
    return [{"name": c.name, "type": c.type} for c in known.values()], list(inferred.partitions)


def infer(
    actor: Actor, location: str, file_format: str | None, options: dict[str, str] | None = None
) -> engine.Inferred:
    """Format, columns and partitions of the files in a folder. Raises Refused when they cannot be told.

    Raises PermissionDenied when one of the files is denied to the actor.
    """
    try:
        locations.require_files(actor, locations.READ, location)
        return engine.infer_table(location, file_format, options or {}, actor.tenant.uid)
    except engine.LakeError as error:
        raise Refused("COLUMNS_UNKNOWN", f"{error.user_message} Write the columns: (name type, …).", "text") from error


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
