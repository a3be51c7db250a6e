"""The rows of `information_schema`: what the caller may query, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from analytics.errors import LakeError
from console.accounts.actor import Actor
from console.catalog import describe, mysql_types, partitions
from console.catalog.describe import Cells
from console.catalog.queries import INFORMATION_SCHEMA, SYSTEM_VIEW, VIEW, Table

CATALOG = "def"
CHARACTER_SET, COLLATION = "utf8mb4", "utf8mb4_bin"
#: Name, default collation, description, bytes of a character; collation ids as MySQL numbers them.
CHARACTER_SETS: list[Cells] = [
    ("binary", "binary", "Binary pseudo charset", 1),
    (CHARACTER_SET, "utf8mb4_0900_ai_ci", "UTF-8 Unicode", 4),
]
COLLATIONS: list[Cells] = [
    ("binary", "binary", 63, "Yes", "Yes", 1, "NO PAD"),
    ("utf8mb4_0900_ai_ci", CHARACTER_SET, 255, "Yes", "Yes", 0, "NO PAD"),
    ("utf8mb4_bin", CHARACTER_SET, 46, "", "Yes", 1, "PAD SPACE"),
    ("utf8mb4_general_ci", CHARACTER_SET, 45, "", "Yes", 1, "PAD SPACE"),
    ("utf8mb4_unicode_ci", CHARACTER_SET, 224, "", "Yes", 8, "PAD SPACE"),
]
ENGINES: list[Cells] = [("spark", "DEFAULT", "Apache Spark over the files of a lake", "NO", "NO", "NO")]


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose rows, and the schema and table that the query asks for when it asks for one alone."""

    reading: describe.Reading
    schema: str | None = None
    table: str | None = None

    @property
    def actor(self) -> Actor:
        """Who asks."""
        return self.reading.actor

    def schemas(self) -> list[str]:
        """The schemas to look into."""
        names = self.reading.schema_names
        return [name for name in names if self.schema is None or name.lower() == self.schema.lower()]

    def tables(self) -> Iterator[Table]:
        """The tables to tell about."""
        for schema in self.schemas():
            if self.table is None:
                yield from self.reading.tables_of(schema)
                continue
            try:
                yield self.reading.find(schema, self.table)
            except describe.UnknownTableError:
                continue


def _schemata(scope: Scope) -> Iterable[Cells]:
    for name in scope.schemas():
        yield (CATALOG, name, CHARACTER_SET, COLLATION, None, "NO")


def _tables(scope: Scope) -> Iterable[Cells]:
    for table in scope.tables():
        made = text_of_time(table.own.created_at) if table.own else None
        engine_name = "spark" if table.own else None
        yield (
            CATALOG, table.schema, table.name, table.kind, engine_name, 10 if table.own else None,
            table.own.format.upper() if table.own else None, None, None, None, None, None, None, None,
            made, None, None, COLLATION if table.own else None, None, create_options(table), comment_of(table),
        )  # fmt: skip


def create_options(table: Table) -> str:
    """What MySQL has no column for: external or managed, partitioned."""
    if table.own is None:
        return ""
    return ("managed" if table.own.managed else "external") + (" partitioned" if table.own.partitions else "")


def comment_of(table: Table) -> str:
    """The comment; drivers take the word VIEW there for the kind, as MySQL writes it."""
    return "VIEW" if table.kind == VIEW else table.comment


def _columns(scope: Scope) -> Iterable[Cells]:
    shared: list[dict[str, str]] = []  # all topics have the same columns
    for table in scope.tables():
        columns = shared if table.schema == "mq" and shared else table.columns(scope.actor)
        if table.schema == "mq":
            shared = columns
        for number, column in enumerate(columns, 1):
            yield _column(table, number, column)


def _column(table: Table, number: int, column: dict[str, str]) -> Cells:
    kind = mysql_types.of(column["type"])
    is_text = kind.data_type == "text"
    return (
        CATALOG, table.schema, table.name, column["name"], number, None, "YES", kind.data_type,
        kind.characters, kind.characters, kind.precision, kind.scale, kind.datetime_precision,
        CHARACTER_SET if is_text else None, COLLATION if is_text else None, kind.column_type,
        "", "", "select", column.get("comment", ""), "", None,
    )  # fmt: skip


def _partitions(scope: Scope) -> Iterable[Cells]:
    for table in scope.tables():
        names: list[str] = []
        if table.own is not None and table.own.partitions:
            try:
                names = partitions.names(table.own)
            except LakeError:
                names = []
        method = ("LIST COLUMNS", ",".join(table.own.partitions)) if names and table.own else (None, None)
        for number, name in enumerate(names or [None], 1):
            yield (
                CATALOG, table.schema, table.name, name, None, number if name else None, None, method[0], None,
                method[1], None, name and ",".join(v or "NULL" for v in partitions.values(name)), None, None, None,
                None, None, None, None, None, None, None, "", None, None,
            )  # fmt: skip


def _views(scope: Scope) -> Iterable[Cells]:
    for table in scope.tables():
        if table.kind in (VIEW, SYSTEM_VIEW):
            yield (
                CATALOG, table.schema, table.name, "", "NONE", "NO", "gantry@%", "INVOKER", CHARACTER_SET, COLLATION
            )  # fmt: skip


def _schema_privileges(scope: Scope) -> Iterable[Cells]:
    for name in scope.schemas():
        if name != INFORMATION_SCHEMA:
            yield (grantee(scope.actor), CATALOG, name, "SELECT", "NO")


def grantee(actor: Actor) -> str:
    """The caller as MySQL writes accounts."""
    return f"'{actor.name}'@'%'"


def text_of_time(moment: datetime) -> str:
    """A time as MySQL shows it, in UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


FILLERS: dict[str, Callable[[Scope], Iterable[Cells]]] = {
    "CHARACTER_SETS": lambda _: CHARACTER_SETS,
    "COLLATIONS": lambda _: COLLATIONS,
    "COLLATION_CHARACTER_SET_APPLICABILITY": lambda _: [row[:2] for row in COLLATIONS],
    "COLUMNS": _columns,
    "ENGINES": lambda _: ENGINES,
    "PARTITIONS": _partitions,
    "SCHEMATA": _schemata,
    "SCHEMA_PRIVILEGES": _schema_privileges,
    "TABLES": _tables,
    "USER_PRIVILEGES": lambda scope: [(grantee(scope.actor), CATALOG, "USAGE", "NO")],
    "VIEWS": _views,
}
