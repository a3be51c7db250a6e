"""A table as a catalog tells of it, and the kinds of tables there are."""

from __future__ import annotations

from dataclasses import dataclass, field

from console.accounts.actor import Actor
from console.sql import virtual
from console.sql.models import ExternalTable

#: Its tables are answered by the console (`information_schema`).
INFORMATION_SCHEMA = "information_schema"
#: Kinds of tables, by the names that drivers filter by: the tenant's own, external ones too, are base tables.
BASE_TABLE, VIEW, SYSTEM_VIEW = "BASE TABLE", "VIEW", "SYSTEM VIEW"


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
