"""The tables of a statement, as the sessions of every kind of Spark keep them."""

from collections.abc import Hashable, Iterable, Mapping

from analytics import lake
from analytics.errors import LakeError, QueryFailed
from analytics.lake.locations import Place, parse
from analytics.specs import Decide, QuerySpec, TableSpec
from analytics.sql.tables import FILE_FORMATS

Relation = tuple[str, str]


def key_of(spec: QuerySpec) -> Hashable:
    """Equal for statements that can share a session: tenant, default schema, and every table they may name."""
    return spec.tenant, spec.schema, tuple((name, tuple(listed)) for name, listed in sorted(spec.tables.items()))


def by_relation(specs: Mapping[str, list[TableSpec]]) -> dict[Relation, TableSpec]:
    """The tables by schema and name; the case of letters does not count."""
    return {(name.lower(), spec.name.lower()): spec for name, listed in specs.items() for spec in listed}


def with_looked_up(spec: QuerySpec, looked_up: Mapping[Relation, TableSpec]) -> dict[str, list[TableSpec]]:
    """The statement's tables and those that were looked up for it."""
    listed = {name: list(specs) for name, specs in spec.tables.items()}
    for (schema, _), table in looked_up.items():
        listed.setdefault(schema, []).append(table)
    return listed


def files_of(relation: Relation, table: TableSpec) -> list[lake.LakeFile]:
    """The files of a table, none for one that is not made of files.

    Raises QueryFailed for a table whose location has no files, unless it may be empty: an empty result would hide a
    mistake.
    """
    if table.problem:
        raise QueryFailed(table.problem, "TABLE_UNUSABLE")
    if table.format not in FILE_FORMATS:
        return []
    files = lake.files(table.location)
    if not files and not table.may_be_empty:
        raise QueryFailed(f"The table {'.'.join(relation)} has no files at {table.location}.")
    places_of(relation, files)
    return files


def places_of(relation: Relation, files: Iterable[lake.LakeFile]) -> list[Place]:
    """The files as places. Raises QueryFailed for a name that is none: Spark would take it for a pattern of names."""
    try:
        return [parse(file.location) for file in files]
    except LakeError as error:
        raise QueryFailed(
            f"The table {'.'.join(relation)} cannot be read, since a file of it has a name that is not allowed:"
            f" {error.user_message}.",
            "TABLE_UNUSABLE",
        ) from error


def decide(relation: Relation, table: TableSpec, decide_: Decide, files: Iterable[lake.LakeFile]) -> None:
    """Have every file decided; of a topic's table those of its archive. Raises QueryRefused, QueryFailed."""
    if table.format == "mq" and table.location:
        files = lake.files(table.location)
    decide_(places_of(relation, files))
