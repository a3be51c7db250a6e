"""Definitions of schemas and tables: read (`grammar`), decided and carried out here, without Spark (docs/sql.md)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from analytics import run as engine
from console.accounts.actor import Actor
from console.sql.catalog import Answer
from console.sql.ddl import alterations, forms, grammar, schema_changes, table_changes
from console.sql.ddl.tokens import Reader
from console.web.errors import Refused

#: The first words of definitions.
WORDS = grammar.WORDS
_RUNNERS: dict[type, Callable[[Actor, Any, str], Answer]] = {
    forms.CreateSchema: schema_changes.create,
    forms.DropSchema: schema_changes.drop,
    forms.CreateTable: table_changes.create,
    forms.CreateTableLike: table_changes.create_like,
    forms.DropTable: table_changes.drop,
    forms.RenameTable: alterations.rename,
    forms.AddColumns: alterations.add_columns,
    forms.AddPartition: alterations.add_partition,
    forms.SetLocation: alterations.set_location,
    forms.SetProperties: alterations.set_properties,
    forms.RepairTable: alterations.repair,
    forms.TruncateTable: alterations.truncate,
}


def run(actor: Actor, text: str, schema: str) -> Answer:
    """Read a definition and carry it out; `schema` is the default one. The answer has no rows.

    Raises Refused for what cannot be read or done, PermissionDenied, and Refused LAKE_UNAVAILABLE when the files of
    a table cannot be looked at.
    """
    wish = grammar.parse(text)
    try:
        return _RUNNERS[type(wish)](actor, wish, schema)
    except engine.LakeError as error:
        raise Refused("LAKE_UNAVAILABLE", f"The lake does not answer: {error.user_message}", "text") from error


def name_of(text: str) -> str:
    """What a task is called that runs a definition: `CREATE_TABLE`, `DROP_SCHEMA`. Raises Refused."""
    reader = Reader(text)
    first = reader.take().value.upper()
    what = next((word for word in ("schema", "database", "table") if _has(reader, word)), "table")
    return f"{first}_{'SCHEMA' if what == 'database' else what.upper()}"


def _has(reader: Reader, word: str) -> bool:
    reader.accept("external")
    reader.accept("repair")
    return reader.next.value.lower() == word
