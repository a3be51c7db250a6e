"""Schemas that every account has and nobody makes: `mq` with the messages, `gantry` with what Gantry knows.

Their tables are not listed for a statement, there may be tens of thousands: each one that it names is looked up, and
the caller's right to it decided then.
"""

from __future__ import annotations

from collections.abc import Callable

from django.utils.translation import gettext as _

from analytics.errors import QueryRefused
from analytics.specs import TableSpec
from console.accounts.actor import Actor
from console.catalog.virtual import gantry, mq
from console.statements.like import is_like

SCHEMAS = (mq.SCHEMA, gantry.SCHEMA)
#: Tables that a list shows unless it asks for more.
LISTED = 1_000
Column = dict[str, str]


def lookup(actor: Actor) -> Callable[[str, str], TableSpec | None]:
    """What a statement of the caller may name besides its own tables: (schema, table) as written → the table.

    None in other schemas than SCHEMAS. The callable raises QueryRefused for what does not exist and for what the caller
    may not read, with the same words: nobody learns which of the two it is. So it does for a name that may mean several
    tables.
    """

    def find(schema: str, table: str) -> TableSpec | None:
        found = _find(actor, schema, table)
        if found is None and schema.lower() in SCHEMAS:
            raise QueryRefused(
                _("There is no table %(schema)s.`%(table)s` that you may query.") % {"schema": schema, "table": table}
            )
        return found

    return find


def tables(actor: Actor, schema: str, like: str | None = None, limit: int = LISTED) -> list[str]:
    """Names of the tables that the caller may query, at most `limit`; `like` is a pattern of LIKE."""
    if schema.lower() == mq.SCHEMA:
        return mq.names(actor, like, limit)
    if schema.lower() == gantry.SCHEMA:
        return [name for name in gantry.names(actor) if is_like(name, like)][:limit]
    return []


def columns(actor: Actor, schema: str, table: str) -> list[Column]:
    """Name, type and comment of each column, as ExternalTable has them; empty for a table that `lookup` finds not."""
    found = _find(actor, schema, table)
    if found is None:
        return []
    described = mq.COLUMNS if found.format == "mq" else gantry.columns_of(found.name)
    return [{"name": name, "type": kind, "comment": comment} for name, kind, comment in described]


def _find(actor: Actor, schema: str, table: str) -> TableSpec | None:
    if schema.lower() == mq.SCHEMA:
        return mq.find(actor, table)
    if schema.lower() == gantry.SCHEMA:
        return gantry.find(actor, table)
    return None
