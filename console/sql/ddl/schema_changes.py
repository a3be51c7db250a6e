"""Makes and drops schemas."""

from __future__ import annotations

from django.db import transaction

from console.accounts.access import require
from console.accounts.actor import Actor, dla_resource
from console.audit import services as audit
from console.sql.catalog import Answer
from console.sql.ddl import locations, table_changes
from console.sql.ddl.forms import CreateSchema, DropSchema
from console.sql.models import Schema
from console.web.errors import Refused

CREATE = "dla:CreateSchema"
DROP = "dla:DropSchema"
DONE = Answer((), [], affected=1)
NOTHING_TO_DO = Answer((), [])


@transaction.atomic
def create(actor: Actor, wish: CreateSchema, schema: str) -> Answer:
    """`create schema`."""
    name = locations.checked_name(wish.schema, "schema")
    resource = dla_resource(actor.tenant, name)
    require(actor, CREATE, resource, owner=actor.tenant)
    if name.lower() in locations.RESERVED:
        reserved = ", ".join(sorted(locations.RESERVED))
        raise Refused("NAME_RESERVED", f"The name {name} is reserved, as are {reserved}; choose another.", "text")
    location = locations.checked(actor, wish.location, locations.READ) if wish.location else ""
    if Schema.objects.filter(tenant=actor.tenant, name__iexact=name).exists():
        if wish.if_not_exists:
            return NOTHING_TO_DO
        raise Refused("SCHEMA_EXISTS", f"The schema {name} exists already.", "text")
    Schema.objects.create(tenant=actor.tenant, name=name, location=location, comment=wish.comment[:255])
    audit.record(actor, "sql.schema.create", resource, detail={"location": location})
    return DONE


@transaction.atomic
def drop(actor: Actor, wish: DropSchema, schema: str) -> Answer:
    """`drop schema`: with tables only by `cascade`, which needs the right to drop each."""
    resource = dla_resource(actor.tenant, wish.schema)
    require(actor, DROP, resource, owner=actor.tenant)
    if wish.if_exists and not Schema.objects.filter(tenant=actor.tenant, name__iexact=wish.schema).exists():
        return NOTHING_TO_DO
    found = locations.schema_of(actor, wish.schema, "", locked=True)
    tables = list(found.tables.all())
    if tables and not wish.cascade:
        count = f"{len(tables)} table{'s' if len(tables) > 1 else ''}"
        raise Refused(
            "SCHEMA_NOT_EMPTY", f"The schema {found.name} has {count}: drop them first, or add `cascade`.", "text"
        )
    for table in tables:
        table_changes.remove(actor, found, table)
    found.delete()
    audit.record(actor, "sql.schema.drop", resource, detail={"tables": [table.name for table in tables]})
    return Answer((), [], affected=1 + len(tables))
