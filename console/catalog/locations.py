"""Where tables may lie: in buckets of the tenant, and where the caller may read or write."""

from __future__ import annotations

import re
from collections.abc import Iterable

from django.core.exceptions import PermissionDenied
from django.db.models import Q
from django.utils.translation import gettext as _

from analytics import lake
from analytics.errors import LakeError, QueryRefused
from analytics.lake import Place, parse_location
from analytics.specs import Decide
from console.accounts.access import require
from console.accounts.actor import Actor, oss_resource
from console.accounts.models import Tenant
from console.audit import record as audit
from console.catalog.models import Bucket, ExternalTable, Schema
from console.statements.ddl.definition import Named
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
    place = place_of(location)
    if not Bucket.objects.filter(tenant=actor.tenant, name=place.bucket).exists():
        raise Refused(
            "BUCKET_NOT_FOUND",
            _("You have no bucket %(bucket)r, in which `%(location)s` lies.")
            % {"bucket": place.bucket, "location": location},
            "text",
        )
    if not place.key:
        raise Refused(
            "LOCATION_INVALID",
            _("`%(location)s` is a whole bucket; give a folder: oss://%(bucket)s/folder/.")
            % {"location": location, "bucket": place.bucket},
            "text",
        )
    require_place(actor, action, place)
    return place.as_folder


def require_place(actor: Actor, action: str, place: Place) -> None:
    """The action on a file, a folder or a bucket; what denies it on a folder above denies it here.

    Raises PermissionDenied, and records it.
    """
    _require_above(actor, action, place)
    require(actor, action, resource_of(actor, place), owner=actor.tenant)


def resource_of(actor: Actor, place: Place) -> str:
    """The name of a place in policies."""
    return oss_resource(actor.tenant, place.bucket, place.key)


def decider(actor: Actor, action: str) -> Decide | None:
    """Decides on many files at once, for whoever may use a table without a right on its folder.

    Only what a policy denies counts: on the file, or on a folder above it. None when nothing is denied to the actor
    anywhere. What it returns raises QueryRefused.
    """
    if all(statement.allow or not statement.matches_action_name(action) for statement in actor.statements):
        return None

    def decide(places: Iterable[Place]) -> None:
        above: dict[tuple[str, str], str] = {}
        for place in places:
            folder = place.bucket, place.key.rpartition("/")[0]
            if folder not in above:
                above[folder] = _denied_above(actor, action, place)
            if reason := above[folder] or _denied(actor, action, place.bucket, place.key):
                raise QueryRefused(f"{reason[:1].upper()}{reason[1:]}.", condition="PERMISSION_DENIED")

    return decide


def require_files(actor: Actor, action: str, location: str) -> None:
    """Nothing denies the action on any file that is in a folder now. Raises PermissionDenied, LakeError."""
    decide = decider(actor, action)
    if decide is None:
        return
    try:
        decide([parse_location(file.location) for file in lake.files(location, hidden=True)])
    except QueryRefused as refused:
        reason = refused.user_message
        audit.record(actor, action, resource_of(actor, place_of(location)), result="refused", detail={"reason": reason})
        raise PermissionDenied(reason) from refused


def _require_above(actor: Actor, action: str, place: Place) -> None:
    if place.key and (reason := _denied_above(actor, action, place)):
        audit.record(actor, action, resource_of(actor, place), result="refused", detail={"reason": reason})
        raise PermissionDenied(reason)


def _denied_above(actor: Actor, action: str, place: Place) -> str:
    """What denies the action on the bucket or on a folder that holds the place; empty for nothing."""
    parts = place.key.split("/")
    keys = ["/".join(parts[:count]) for count in range(len(parts))]
    return next(filter(None, (_denied(actor, action, place.bucket, key, is_folder=True) for key in keys)), "")


def _denied(actor: Actor, action: str, bucket: str, key: str, *, is_folder: bool = False) -> str:
    """The sentence of the statement that denies it; empty for none. A folder may be written with a slash behind it."""
    resource = oss_resource(actor.tenant, bucket, key)
    for written in (resource, f"{resource}/") if is_folder else (resource,):
        found = actor.decide(action, written, owner=actor.tenant)
        if found.statement is not None and not found.statement.allow:
            return found.reason
    return ""


def buckets_of(tenant: Tenant) -> frozenset[str]:
    """Names of the buckets of an account."""
    return frozenset(Bucket.objects.filter(tenant=tenant).values_list("name", flat=True))


def place_of(location: str) -> Place:
    """The place that a location means. Raises Refused when it is malformed or longer than 500 characters."""
    if len(location) > 500:
        raise Refused(
            "LOCATION_INVALID",
            _("The location has %(location)s characters; 500 are allowed.") % {"location": len(location)},
            "text",
        )
    try:
        return parse_location(location)
    except LakeError as error:
        raise Refused(
            "LOCATION_INVALID", f"{error.user_message[:1].upper()}{error.user_message[1:]}.", "text"
        ) from error


def of_managed_table(schema: Schema, table: str) -> str:
    """The folder of a table without a location of its own. Raises Refused when the schema has none either."""
    if not schema.location:
        raise Refused(
            "LOCATION_MISSING",
            _("The schema %(schema)s has no location: add `location 'oss://bucket/folder/'` to the table.")
            % {"schema": schema.name},
            "text",
        )
    return f"{schema.location.rstrip('/')}/{table}/"


def checked_name(name: str, what: str) -> str:
    """A name that a schema or table may have; `what` is which of the two. Raises Refused."""
    if not _NAME.fullmatch(name):
        text = (
            _("%(name)r is not a valid schema name: 1 to 64 letters, digits, _ and -, and no - at the beginning.")
            if what == "schema"
            else _("%(name)r is not a valid table name: 1 to 64 letters, digits, _ and -, and no - at the beginning.")
        )
        raise Refused("NAME_INVALID", text % {"name": name}, "text")
    return name


def schema_of(actor: Actor, named: str | None, default: str, *, locked: bool = False) -> Schema:
    """The tenant's schema, by the name in the statement or the default one. Raises Refused."""
    name = named or default
    if not name:
        raise Refused("SCHEMA_NOT_CHOSEN", _("No schema is chosen: write `use <schema>` first, or name it."), "schema")
    if name.lower() in RESERVED:
        raise Refused(
            "SCHEMA_READ_ONLY",
            _("The schema %(name)s cannot be changed; its tables are built in.") % {"name": name},
            "schema",
        )
    schemas = Schema.objects.filter(tenant=actor.tenant, name__iexact=name)
    found = (schemas.select_for_update() if locked else schemas).first()
    if found is None:
        raise Refused("SCHEMA_NOT_FOUND", _("There is no schema %(name)r.") % {"name": name}, "schema")
    return found


def find_table(schema: Schema, name: Named) -> ExternalTable | None:
    """The table of that name; the case of letters does not count."""
    return schema.tables.filter(name__iexact=name.table).first()


def table_of(schema: Schema, name: Named) -> ExternalTable:
    """The table of that name. Raises Refused."""
    found = find_table(schema, name)
    if found is None:
        raise Refused(
            "TABLE_NOT_FOUND",
            _("There is no table %(schema)s.%(table)s.") % {"schema": schema.name, "table": name.table},
            "text",
        )
    return found


def table_around(actor: Actor, location: str, *, but: ExternalTable | None = None) -> str | None:
    """`schema.table` of a table of the tenant whose folder holds the location or lies in it; None without one."""
    parts = location.rstrip("/").split("/")
    above = [f"{'/'.join(parts[:count])}/" for count in range(3, len(parts) + 1)]
    overlapping = Q(location__startswith=location) | Q(location__in=above)
    found = ExternalTable.objects.filter(overlapping, schema__tenant=actor.tenant).select_related("schema")
    other = (found.exclude(pk=but.pk) if but else found).first()
    return f"{other.schema.name}.{other.name}" if other else None
