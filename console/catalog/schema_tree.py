"""What the editor's tree and its completion show: schemas, tables and columns that the caller may name.

Schemas of the account are small enough to be listed; those of messages and of Gantry's own tables (`virtual.SCHEMAS`)
are searched, since an account may have ten thousand topics.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from analytics.errors import QueryRefused
from brokercore.names import DEAD_LETTER_PREFIX, RETRY_PREFIX
from console.accounts.actor import Actor
from console.catalog import queries, virtual
from console.statements import lexer
from console.topics.names import apart
from console.web.languages import gettext_lazy

#: Tables of a schema that the tree shows; the filter finds the others.
LISTED = 100
#: Tables whose columns the editor gets for completion with the page.
COMPLETED = 1000
_KINDS = {RETRY_PREFIX: gettext_lazy("retry"), DEAD_LETTER_PREFIX: gettext_lazy("dead letters")}
_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class Entry:
    """A table in the tree: of a physical topic name the part that tells it from others, and the rest beside it."""

    name: str
    label: str
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Tables:
    """The first tables of a schema that fit, and whether there are more."""

    schema: str
    names: list[str]
    more: bool

    @property
    def entries(self) -> list[Entry]:
        """The names as the tree shows them."""
        return [_entry(name) for name in self.names]


@dataclass(frozen=True, slots=True)
class ColumnRow:
    """A column as the tree shows it."""

    name: str
    type: str
    comment: str = ""


def schemas(actor: Actor) -> list[str]:
    """The account's schemas that the actor may query, and the virtual ones."""
    return [*queries.readable_schemas(actor), *virtual.SCHEMAS]


def tables(actor: Actor, schema: str, text: str = "", limit: int = LISTED) -> Tables:
    """Tables of a schema whose name has the text; none for a schema that is unknown or not allowed."""
    if schema in virtual.SCHEMAS:
        found = virtual.tables(actor, schema, f"%{_escaped(text)}%" if text else None, limit + 1)
    else:
        readable = queries.readable_schemas(actor).get(schema, [])
        found = [table.name for table in readable if text.lower() in table.name.lower()]
    return Tables(schema, found[:limit], len(found) > limit)


def columns(actor: Actor, schema: str, table: str) -> list[ColumnRow]:
    """Columns of a table, empty for one that is unknown or not allowed."""
    if schema in virtual.SCHEMAS:
        return [_row(column) for column in _virtual_columns(actor, schema, table)]
    readable = queries.readable_schemas(actor).get(schema, [])
    found = next((t for t in readable if t.name.lower() == table.lower()), None)
    return [_row(column) for column in found.columns] if found else []


def completions(actor: Actor) -> dict[str, Any]:
    """Schemas with their tables and columns, as names and types; searched schemas stand under `searched`."""
    known: dict[str, dict[str, list[list[str]]]] = {}
    left = COMPLETED
    for schema, readable in queries.readable_schemas(actor).items():
        known[schema] = {t.name: [[c["name"], c["type"]] for c in t.columns] for t in readable[: max(left, 0)]}
        left -= len(readable)
    return {"schemas": known, "searched": list(virtual.SCHEMAS)}


def quoted(name: str) -> str:
    """A name as it is written in a statement."""
    return name if _PLAIN_NAME.fullmatch(name) else lexer.quoted(name)


def _entry(name: str) -> Entry:
    prefix = next((one for one in _KINDS if name.startswith(one)), "")
    instance, label = apart(name.removeprefix(prefix))
    return Entry(name, label, ", ".join(str(part) for part in (_KINDS.get(prefix, ""), instance) if part))


def _row(column: dict[str, str]) -> ColumnRow:
    return ColumnRow(column["name"], column["type"], column.get("comment") or "")


def _virtual_columns(actor: Actor, schema: str, table: str) -> list[dict[str, str]]:
    try:
        return virtual.columns(actor, schema, table)
    except QueryRefused:  # the name may mean several tables: a statement says so, the tree shows full names
        return []


def _escaped(text: str) -> str:
    return re.sub(r"([\\%_])", r"\\\1", text)
