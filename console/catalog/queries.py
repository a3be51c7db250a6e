"""The schemas and tables that somebody may query, and a table as a catalog tells of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from django.db.models import Prefetch

from console.accounts.actor import Actor, dla_resource
from console.catalog import virtual
from console.catalog.models import ExternalTable, Schema

#: Its tables are answered by the console (`information_schema`).
INFORMATION_SCHEMA = "information_schema"
#: Kinds of tables, by the names that drivers filter by: the tenant's own, external ones too, are base tables.
BASE_TABLE, VIEW, SYSTEM_VIEW = "BASE TABLE", "VIEW", "SYSTEM VIEW"

SUBMIT = "dla:SubmitQuery"


@dataclass(frozen=True, slots=True)
class Table:
    """A table that the caller may query. `own` is None for those of the virtual schemas."""

    schema: str
    name: str
    kind: str
    comment: str = ""
    own: ExternalTable | None = None
    known_columns: tuple[dict[str, str], ...] = field(default=(), repr=False)

    def columns(self, actor: Actor) -> list[dict[str, str]]:
        """Name, Spark's type and comment of each column."""
        if self.own is not None:
            return list(self.own.columns)
        return list(self.known_columns) or virtual.columns(actor, self.schema, self.name)


def readable_schemas(actor: Actor) -> dict[str, list[ExternalTable]]:
    """The schemas and tables that the actor may query: all that a statement of theirs can name."""
    tables = Prefetch("tables", queryset=ExternalTable.objects.order_by("name"))
    readable = {}
    for schema in Schema.objects.filter(tenant=actor.tenant).prefetch_related(tables):
        allowed = [t for t in schema.tables.all() if _may_query(actor, schema.name, t.name)]
        if allowed or _may_query(actor, schema.name):
            readable[schema.name] = allowed
    return readable


def may_query_in(actor: Actor, schema: Schema) -> bool:
    """Whether the actor may query the schema or one of its tables: `readable_schemas` has it then."""
    if _may_query(actor, schema.name):
        return True
    return any(_may_query(actor, schema.name, table) for table in schema.tables.values_list("name", flat=True))


def _may_query(actor: Actor, schema: str, table: str = "*") -> bool:
    return actor.decide(SUBMIT, dla_resource(actor.tenant, schema, table), owner=actor.tenant).allowed
