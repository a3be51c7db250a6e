"""Where tables may lie: in buckets of the tenant, and where the caller may read or write."""

from __future__ import annotations

import re

from django.db.models import Q

from analytics import run as engine
from console.accounts.access import require
from console.accounts.actor import Actor, oss_resource
from console.sql.ddl.forms import Named
from console.sql.models import Bucket, ExternalTable, Schema
from console.web.errors import Refused

READ = "dla:ReadBucket"
WRITE = "dla:WriteBucket"
#: Schemas that are not made by users; `default` would hide Spark's.
RESERVED = frozenset({"mq", "gantry", "information_schema", "default", "mysql", "sys", "performance_schema"})
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}")


def checked(actor: Actor, location: str, action: str) -> str:
    """The folder in its canonical form, `oss://bucket/folder/`.

    Raises Refused when it is malformed or in no bucket of the tenant's (another tenant's bucket does not exist), and
    PermissionDenied when no policy allows `action` there.
    """
    bucket, key = split(location)
    if not Bucket.objects.filter(tenant=actor.tenant, name=bucket).exists():
        raise Refused("BUCKET_NOT_FOUND", f"There is no bucket {bucket!r} of yours; `{location}` lies in it.", "text")
    if not key:
        raise Refused(
            "LOCATION_INVALID", f"`{location}` is a whole bucket; name a folder: oss://{bucket}/folder/.", "text"
        )
    require(actor, action, oss_resource(actor.tenant, bucket, key), owner=actor.tenant)
    return f"oss://{bucket}/{key}/"


def split(location: str) -> tuple[str, str]:
    """Bucket and key of a location. Raises Refused when it is malformed or longer than 500 characters."""
    if len(location) > 500:
        raise Refused("LOCATION_INVALID", f"The location has {len(location)} characters; 500 are allowed.", "text")
    try:
        engine.parse_location(location)
    except engine.LakeError as error:
        raise Refused(
            "LOCATION_INVALID", f"{error.user_message[:1].upper()}{error.user_message[1:]}.", "text"
        ) from error
    bucket, _, key = location.removeprefix("oss://").partition("/")
    return bucket, "/".join(part for part in key.split("/") if part)


def of_managed_table(schema: Schema, table: str) -> str:
    """The folder of a table without a location of its own. Raises Refused when the schema has none either."""
    if not schema.location:
        raise Refused(
            "LOCATION_MISSING",
            f"The schema {schema.name} has no location: add `location 'oss://bucket/folder/'` to the table.",
            "text",
        )
    return f"{schema.location.rstrip('/')}/{table}/"


def checked_name(name: str, what: str) -> str:
    """A name that a schema or table may have. Raises Refused."""
    if not _NAME.fullmatch(name):
        raise Refused(
            "NAME_INVALID",
            f"{name!r} is no name of a {what}: 1 to 64 letters, digits, _ and -, and no - at the beginning.",
            "text",
        )
    return name


def schema_of(actor: Actor, named: str | None, default: str, *, locked: bool = False) -> Schema:
    """The tenant's schema, by the name in the statement or the default one. Raises Refused."""
    name = named or default
    if not name:
        raise Refused("SCHEMA_NOT_CHOSEN", "No schema is chosen: write `use <schema>` first, or name it.", "schema")
    if name.lower() in RESERVED:
        raise Refused("SCHEMA_READ_ONLY", f"The schema {name} cannot be changed; its tables are given.", "schema")
    schemas = Schema.objects.filter(tenant=actor.tenant, name__iexact=name)
    found = (schemas.select_for_update() if locked else schemas).first()
    if found is None:
        raise Refused("SCHEMA_NOT_FOUND", f"There is no schema {name!r}.", "schema")
    return found


def find_table(schema: Schema, name: Named) -> ExternalTable | None:
    """The table of that name; the case of letters does not count."""
    return schema.tables.filter(name__iexact=name.table).first()


def table_of(schema: Schema, name: Named) -> ExternalTable:
    """The table of that name. Raises Refused."""
    found = find_table(schema, name)
    if found is None:
        raise Refused("TABLE_NOT_FOUND", f"There is no table {schema.name}.{name.table}.", "text")
    return found


def table_around(actor: Actor, location: str, *, but: ExternalTable | None = None) -> str | None:
    """`schema.table` of a table of the tenant whose folder holds the location or lies in it; None without one."""
    parts = location.rstrip("/").split("/")
    above = [f"{'/'.join(parts[:count])}/" for count in range(3, len(parts) + 1)]
    overlapping = Q(location__startswith=location) | Q(location__in=above)
    found = ExternalTable.objects.filter(overlapping, schema__tenant=actor.tenant).select_related("schema")
    other = (found.exclude(pk=but.pk) if but else found).first()
    return f"{other.schema.name}.{other.name}" if other else None
