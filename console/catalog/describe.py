"""What `show` and `describe` tell about schemas and tables: only what the caller may query."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from django.utils.translation import gettext as _

from console.accounts.actor import Actor, dla_resource
from console.catalog import mysql_types, queries, virtual
from console.catalog.information_schema import definitions
from console.catalog.models import ExternalTable
from console.catalog.queries import BASE_TABLE, INFORMATION_SCHEMA, VIEW, Table
from console.statements.like import is_like

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


class Reading:
    """What the caller may query, read once for all questions of one statement."""

    def __init__(self, actor: Actor) -> None:
        self.actor = actor

    @cached_property
    def own(self) -> dict[str, list[ExternalTable]]:
        """The account's own schemas and their tables."""
        return queries.readable_schemas(self.actor)

    @cached_property
    def schema_names(self) -> list[str]:
        """Names of all schemas in which the caller may query something, the virtual ones last."""
        return [*self.own, *(name for name in virtual.SCHEMAS if _may_use(self.actor, name)), INFORMATION_SCHEMA]

    def canonical(self, schema: str) -> str:
        """The schema's name as it was made; the case of letters does not count. Raises UnknownSchemaError."""
        found = next((name for name in self.schema_names if name.lower() == schema.lower()), None)
        if found is None:
            raise UnknownSchemaError(_("There is no schema %(schema)r.") % {"schema": schema})
        return found

    def tables_of(self, schema: str, like: str | None = None) -> list[Table]:
        """The tables of a schema; of a virtual one virtual.LISTED at the most. Raises UnknownSchemaError."""
        name = self.canonical(schema)
        if name == INFORMATION_SCHEMA:
            return [table for table in definitions.listed() if is_like(table.name, like)]
        if name in virtual.SCHEMAS:
            return [Table(name, table, VIEW) for table in virtual.tables(self.actor, name, like)]
        return [Table(name, t.name, BASE_TABLE, t.comment, t) for t in self.own[name] if is_like(t.name, like)]

    def find(self, schema: str, table: str) -> Table:
        """One table. Raises UnknownSchemaError and UnknownTableError."""
        name = self.canonical(schema)
        if name in virtual.SCHEMAS:
            columns = virtual.columns(self.actor, name, table)
            if columns:
                return Table(name, table, VIEW, known_columns=tuple(columns))
        else:
            for found in self.tables_of(name):
                if found.name.lower() == table.lower():
                    return found
        raise UnknownTableError(
            _("There is no table %(table)r in schema %(schema)r.") % {"table": table, "schema": schema}
        )


def schemas(actor: Actor, like: str | None) -> Answer:
    """`show databases`."""
    return Answer(("Database",), [(name,) for name in Reading(actor).schema_names if is_like(name, like)])


def tables_of(actor: Actor, schema: str, like: str | None = None) -> list[Table]:
    """As Reading.tables_of, for one question."""
    return Reading(actor).tables_of(schema, like)


def find(actor: Actor, schema: str, table: str) -> Table:
    """As Reading.find, for one question."""
    return Reading(actor).find(schema, table)


def canonical(actor: Actor, schema: str) -> str:
    """As Reading.canonical, for one question."""
    return Reading(actor).canonical(schema)


def tables(actor: Actor, schema: str, like: str | None, *, full: bool) -> Answer:
    """`show [full] tables`."""
    found = tables_of(actor, schema, like)
    head = f"Tables_in_{schema}" + (f" ({like})" if like is not None else "")
    if full:
        return Answer((head, "Table_type"), [(table.name, table.kind) for table in found])
    return Answer((head,), [(table.name,) for table in found])


def columns(actor: Actor, schema: str, table: str, like: str | None, *, full: bool) -> Answer:
    """`show columns`, `describe`: types are Spark's. `show full columns`, which drivers send: MySQL's."""
    found = find(actor, schema, table)
    described = [c for c in found.columns(actor) if is_like(c["name"], like)]
    if full:
        return Answer(
            ("Field", "Type", "Collation", "Null", "Key", "Default", "Extra", "Privileges", "Comment"),
            [_full(c["name"], mysql_types.of(c["type"]), c.get("comment", "")) for c in described],
        )
    return Answer(
        ("Field", "Type", "Null", "Key", "Default", "Extra"),
        [(c["name"], c["type"], "YES", "", None, "") for c in described],
    )


def _full(name: str, kind: mysql_types.MysqlType, comment: str) -> Cells:
    collation = "utf8mb4_bin" if kind.data_type == "text" else None
    return (name, kind.column_type, collation, "YES", "", None, "", "select", comment)


def _may_use(actor: Actor, schema: str) -> bool:
    """Whether the caller may query a virtual schema at all; each table is decided on its own."""
    return actor.decide(queries.SUBMIT, dla_resource(actor.tenant, schema), owner=actor.tenant).allowed
