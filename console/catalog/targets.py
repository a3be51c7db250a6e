"""Where `insert …` and `create table … as …` write: who may, decided at submission and again at the run.

See docs/use/sql.md.

The query behind the head is guarded like any other; here is only what concerns the table that its rows go to.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django.utils.translation import gettext as _

from analytics.specs import Column, TableSpec
from console.accounts.access import require
from console.accounts.actor import Actor, dla_resource
from console.catalog import locations
from console.catalog.models import ExternalTable, Schema
from console.statements.ddl import formats
from console.statements.write import CreateTableAs, Insert, TargetStatement
from console.web.errors import Refused

INSERT = "dla:InsertTable"
CREATE = "dla:CreateTable"
#: What the task's name is in `show query_task`.
TASK_NAMES = {Insert: "INSERT", CreateTableAs: "CREATE_TABLE_AS_SELECT"}
#: Runs instead of a CREATE TABLE IF NOT EXISTS whose table exists.
NOTHING_TO_WRITE = "select cast(0 as bigint) as rows"
#: Buckets that only the console and its jobs write, whoever owns them.
_OURS = ("aliyun-oa-query-results-", "gantry-metrics", "gantry-archive", "gantry-pipelines", "gantry-tracking")

FIELDS_OF_A_TABLE = ("location", "format", "columns", "partitions", "options", "comment", "managed")


def prepare(actor: Actor, parsed: TargetStatement, schema: str) -> dict[str, Any]:
    """Decide whether the actor may write there; returns what QueryTask.target keeps.

    `schema` is the default schema. Raises Refused for a table, column, bucket or location that is not there or not
    allowed, PermissionDenied without dla:InsertTable or dla:CreateTable on the table and dla:WriteBucket on its
    location.
    """
    found = locations.schema_of(actor, parsed.schema, schema)
    if isinstance(parsed, Insert):
        return _prepare_insert(actor, parsed, found)
    return _prepare_create(actor, parsed, found)


def _prepare_insert(actor: Actor, parsed: Insert, schema: Schema) -> dict[str, Any]:
    found = schema.tables.filter(name__iexact=parsed.table).first()
    # Before it is told that there is none: who may write nothing is not told which tables there are.
    name = found.name if found else parsed.table
    require(actor, INSERT, dla_resource(actor.tenant, schema.name, name), owner=actor.tenant)
    table = found or table_of(schema, parsed.table)
    require_writing(actor, INSERT, schema, table.name, table.location)
    names = {column["name"].lower(): column["name"] for column in table.columns}
    partitions = {name.lower() for name in table.partitions}
    fixed = [name.lower() for name, _unused in parsed.partition]
    _no_twice([*fixed, *(name.lower() for name in parsed.columns)], _("the statement"))
    for name in parsed.columns if names else ():
        if name.lower() not in names:
            known = ", ".join(names.values())
            raise Refused(
                "COLUMN_NOT_FOUND",
                _("The table %(table)s has no column %(name)r; it has %(known)s.")
                % {"table": table.name, "name": name, "known": known},
                "text",
            )
    for name in fixed:
        if name not in partitions:
            known = ", ".join(table.partitions) or "none"
            message = _("%(name)r is not a partition column of %(table)s; its partition columns: %(known)s.") % {
                "name": name,
                "table": table.name,
                "known": known,
            }
            raise Refused("COLUMN_NOT_FOUND", message, "text")
    return {
        "statement": "insert",
        "schema": schema.name,
        "table": table.name,
        "location": table.location,
        "overwrite": parsed.overwrite,
        "columns": list(parsed.columns),
        "partition": [list(pair) for pair in parsed.partition],
    }


def _prepare_create(actor: Actor, parsed: CreateTableAs, schema: Schema) -> dict[str, Any]:
    locations.checked_name(parsed.table, "table")
    _no_twice([name.lower() for name in parsed.partitions], "PARTITIONED BY")
    require(actor, CREATE, dla_resource(actor.tenant, schema.name, parsed.table), owner=actor.tenant)
    location = parsed.location or locations.of_managed_table(schema, parsed.table)
    location = require_writing(actor, CREATE, schema, parsed.table, location)
    storage, options = _storage(parsed)
    exists = schema.tables.filter(name__iexact=parsed.table).exists()
    if exists and not parsed.if_not_exists:
        raise Refused(
            "TABLE_EXISTS",
            _("The table %(schema)s.%(table)s already exists.") % {"schema": schema.name, "table": parsed.table},
            "text",
        )
    return {
        "statement": "create",
        "schema": schema.name,
        "table": parsed.table,
        "if_not_exists": parsed.if_not_exists,
        "format": storage,
        "partitions": list(parsed.partitions),
        "location": location,
        "options": options,
        "comment": parsed.comment[:255],
        "managed": not parsed.location,
    }


def _storage(parsed: CreateTableAs) -> tuple[str, dict[str, str]]:
    """Format and options of the table, as DDL would have them."""
    name = {"": "parquet", "textfile": "csv"}.get(parsed.format, parsed.format)
    hive = {key: value for key, value in parsed.properties.items() if key.lower() in formats.HIVE_PROPERTIES}
    others = {key: value for key, value in parsed.properties.items() if key not in hive}
    options = formats.checked(name, parsed.options | others, 1)
    name, options = formats.Storage(format=parsed.format, options=options).resolved(hive)
    return name, formats.checked(name, options, 1)


def table_spec(table: ExternalTable, owned: Collection[str]) -> TableSpec:
    """A table in the words of analytics; what is stored is judged again, as if it were written now.

    `owned` are the buckets of the table's account.
    """
    columns = tuple(Column(c["name"], c["type"]) for c in table.columns)
    options = tuple(sorted(table.options.items()))
    return TableSpec(
        table.name,
        table.location,
        table.format,
        columns,
        tuple(table.partitions),
        options,
        may_be_empty=table.managed and bool(columns),
        problem=_problem(table, owned),
    )


def _problem(table: ExternalTable, owned: Collection[str]) -> str:
    """Why a stored table cannot be read: its rules may be older than those of now."""
    name = f"{table.schema.name}.{table.name}"
    again = _("Drop it and create it again.")
    try:
        place = locations.place_of(table.location)
        if table.format not in formats.FORMATS:
            return _("The table %(name)s cannot be used: its format is %(format)s. %(again)s") % {
                "name": name,
                "format": table.format,
                "again": again,
            }
        formats.checked(table.format, table.options, 1)
    except Refused as refused:
        return _("The table %(name)s cannot be used: %(message)s %(again)s") % {
            "name": name,
            "message": refused.message,
            "again": again,
        }
    if not place.key or place.bucket not in owned:
        return _(
            "The table %(name)s cannot be used: its location %(location)s is not a folder in your buckets. %(again)s"
        ) % {"name": name, "location": table.location, "again": again}
    return ""


def table_of(schema: Schema, name: str) -> ExternalTable:
    found = schema.tables.filter(name__iexact=name).first()
    if found is None:
        raise Refused(
            "TABLE_NOT_FOUND",
            _("There is no table %(name)r in schema %(schema)s.") % {"name": name, "schema": schema.name},
            "text",
        )
    return found


def require_writing(actor: Actor, action: str, schema: Schema, table: str, location: str) -> str:
    """The action on the table, and WriteBucket on its location, which lies in a bucket of the tenant; the location."""
    require(actor, action, dla_resource(actor.tenant, schema.name, table), owner=actor.tenant)
    require_own_bucket(location)
    return locations.checked(actor, location, locations.WRITE)


def require_own_bucket(location: str) -> None:
    """Raise Refused for a location in a bucket that only the console writes."""
    bucket = locations.place_of(location).bucket
    if bucket.startswith(_OURS):
        message = _("The bucket %(bucket)s is for the console only; choose a bucket of your own.") % {"bucket": bucket}
        raise Refused("BUCKET_READ_ONLY", message, "text")


def _no_twice(names: list[str], where: str) -> None:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise Refused(
            "COLUMN_TWICE",
            _("The column %(twice)r appears twice in %(where)s.") % {"twice": twice, "where": where},
            "text",
        )
