"""What `show` and `describe` tell about schemas and tables: only what the caller may query."""

from __future__ import annotations

from dataclasses import dataclass

from console.accounts.actor import Actor
from console.sql import queries
from console.sql.models import ExternalTable
from console.sql.patterns import is_like as _is_like

Cells = tuple[str | int | None, ...]


class UnknownSchemaError(LookupError):
    """The tenant has no such schema, or the caller may query nothing in it."""


class UnknownTableError(LookupError):
    """The schema has no such table, or the caller may not query it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Rows with the names of their columns; without columns the statement has done something and tells no rows."""

    columns: tuple[str, ...]
    rows: list[Cells]
    #: How many things a statement without rows has changed.
    affected: int = 0
    #: The columns that are integers, also where every value is null.
    integers: frozenset[str] = frozenset()


def schemas(actor: Actor, like: str | None) -> Answer:
    """`show databases`."""
    names = [name for name in queries.readable_schemas(actor) if _is_like(name, like)]
    return Answer(("Database",), [(name,) for name in names])


def tables(actor: Actor, schema: str, like: str | None, *, full: bool) -> Answer:
    """`show [full] tables`."""
    names = [table.name for table in _tables(actor, schema) if _is_like(table.name, like)]
    if full:
        return Answer((f"Tables_in_{schema}", "Table_type"), [(name, "BASE TABLE") for name in names])
    return Answer((f"Tables_in_{schema}",), [(name,) for name in names])


def columns(actor: Actor, schema: str, table: str, like: str | None, *, full: bool) -> Answer:
    """`show [full] columns`, `describe`: types are Spark's."""
    found = next((t for t in _tables(actor, schema) if t.name.lower() == table.lower()), None)
    if found is None:
        raise UnknownTableError(f"There is no table {table!r} in schema {schema!r}.")
    described = [c for c in found.columns if _is_like(c["name"], like)]
    if full:
        return Answer(
            ("Field", "Type", "Collation", "Null", "Key", "Default", "Extra", "Privileges", "Comment"),
            [(c["name"], c["type"], None, "YES", "", None, "", "select", "") for c in described],
        )
    return Answer(
        ("Field", "Type", "Null", "Key", "Default", "Extra"),
        [(c["name"], c["type"], "YES", "", None, "") for c in described],
    )


def _tables(actor: Actor, schema: str) -> list[ExternalTable]:
    readable = queries.readable_schemas(actor)
    if schema not in readable:
        raise UnknownSchemaError(f"There is no schema {schema!r}.")
    return readable[schema]
