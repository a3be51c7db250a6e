"""A table over files that are there: its definition is proposed, and carried out as its author leaves it."""

from __future__ import annotations

import re

from analytics import run as engine
from console.accounts.actor import Actor, dla_resource
from console.sql import ddl, definitions
from console.sql.ddl import forms, grammar, table_changes
from console.sql.models import ExternalTable, Schema
from console.web.errors import Refused


def propose(actor: Actor, place: engine.Place) -> str:
    """The CREATE TABLE for the files of a folder, in the first schema where the caller may make it. Raises Refused."""
    folder = place.as_folder
    found = table_changes.infer(actor, folder, None)
    table = ExternalTable(
        name=name_of(folder),
        location=folder,
        format=found.format,
        columns=[{"name": column.name, "type": column.type} for column in found.columns],
        partitions=list(found.partitions),
        options=dict(found.options),
    )
    return definitions.create_table(_schema(actor, table.name), table)


def name_of(location: str) -> str:
    """A name for a table over a folder: that of the folder."""
    last = location.rstrip("/").rpartition("/")[2].lower()
    return re.sub(r"[^a-z0-9_]+", "_", last).strip("_")[:64] or "files"


def carry_out(actor: Actor, text: str) -> str:
    """Make the table of a definition that names its schema; returns `schema.table`. Raises Refused."""
    wish = grammar.parse(text)
    if not isinstance(wish, forms.CreateTable) or not wish.table.schema:
        raise Refused("SYNTAX_ERROR", "Write one CREATE EXTERNAL TABLE, with the schema in front of its name.", "text")
    ddl.run(actor, text, "")
    return f"{wish.table.schema}.{wish.table.table}"


def _schema(actor: Actor, table: str) -> str:
    """The first schema in which the caller may make the table, or a name that says to choose one."""
    for name in Schema.objects.filter(tenant=actor.tenant).values_list("name", flat=True):
        if actor.decide(table_changes.CREATE, dla_resource(actor.tenant, name, table), owner=actor.tenant).allowed:
            return str(name)
    return "schema"
