"""A Spark session with a catalog of its own for every set of tables: one tenant's tables do not exist for another.

`SparkSession.newSession` would share the catalog with all others. Here each session is built with a state of its own:
its databases and tables are those of the statement, and nothing else is in it, whatever the guard let through. The
JVM, the scheduler and the memory are shared. A new session costs 20 ms, a table 30 ms, once.
"""

import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from analytics import lake
from analytics import session as spark_session
from analytics.errors import LakeError, QueryFailed
from analytics.lake import allowed_paths
from analytics.lake.locations import Place, parse_location
from analytics.specs import Decide, QuerySpec, TableSpec
from analytics.sql import spelling, tables
from analytics.sql.spelling import full_name, quoted
from analytics.sql.tables import FILE_FORMATS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Relation = tuple[str, str]
#: Sessions kept for the next statement with the same tables; each holds about 1 MB in the JVM.
MOST_SESSIONS = 64
_lock = threading.Lock()
_sessions: "OrderedDict[object, TenantSession]" = OrderedDict()


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
        return [parse_location(file.location) for file in files]
    except LakeError as error:
        raise QueryFailed(
            f"The table {'.'.join(relation)} cannot be read, since a file of it has a name that is not allowed:"
            f" {error.user_message}.",
            "TABLE_UNUSABLE",
        ) from error


def decide_tables(relation: Relation, table: TableSpec, decide_: Decide, files: Iterable[lake.LakeFile]) -> None:
    """Have every file decided; of a topic's table those of its archive. Raises QueryRefused, QueryFailed."""
    if table.format == "mq" and table.location:
        files = lake.files(table.location)
    decide_(places_of(relation, files))


class TenantSession:
    """A session in which only the tables of one QuerySpec can exist; they are registered when first named."""

    def __init__(self, spark: "SparkSession", schema: str, specs: dict[str, list[TableSpec]]) -> None:
        self.spark = spark
        self._lock = threading.Lock()
        self._tables = by_relation(specs)
        self._registered: dict[tuple[str, str], int] = {}
        for name in specs:
            spelling.create_database(spark, name.lower())
        if schema in specs:
            spark.sql(f"use {quoted(schema.lower())}")

    def register(self, relations: Iterable[tuple[str, str]], decide: Decide | None = None) -> None:
        """Make the tables known to the session; take notice of files that came or went since they were.

        `decide` is asked about every file, also when others have used the session before. Raises QueryFailed as
        `table_sets.files_of`, and QueryRefused.
        """
        with self._lock:
            for relation in relations:
                table = self._tables[relation]
                files = files_of(relation, table)
                if decide is not None:
                    decide_tables(relation, table, decide, files)
                state = hash(tuple(files))
                known = self._registered.get(relation)
                if known is None:
                    tables.create(self.spark, relation, table)
                elif known != state:
                    self.spark.catalog.refreshTable(full_name(relation))
                self._registered[relation] = state


def of(spec: QuerySpec) -> TenantSession:
    """The session for the tenant, default schema and tables of a statement."""
    key = key_of(spec)
    root = spark_session.get()
    with _lock:
        found = _sessions.get(key)
        if found is None or found.spark.sparkContext is not root.sparkContext:
            found = _sessions[key] = TenantSession(with_own_catalog(root), spec.schema, spec.tables)
        _sessions.move_to_end(key)
        while len(_sessions) > MOST_SESSIONS:
            _sessions.popitem(last=False)
        return found


def private(spec: QuerySpec, looked_up: Mapping[tuple[str, str], TableSpec]) -> TenantSession:
    """A session for one statement: its tables are of its author and of this moment, and no other statement's."""
    return TenantSession(with_own_catalog(spark_session.get()), spec.schema, with_looked_up(spec, looked_up))


def forget() -> None:
    """Drop all sessions, after Spark has stopped."""
    with _lock:
        _sessions.clear()


def with_own_catalog(root: "SparkSession") -> "SparkSession":
    """A session that shares nothing with `root` but the JVM."""
    from pyspark.sql import SparkSession

    jvm: Any = root._jvm
    context = root.sparkContext._jsc.sc()
    java_session = jvm.org.apache.spark.sql.classic.SparkSession(context, jvm.java.util.HashMap())
    listener = java_session.sharedState().statusStore().listener()
    if listener.isDefined():  # it feeds a web page that we do not show, and each session would add one to every event
        context.removeSparkListener(listener.get())
    spark = SparkSession(root.sparkContext, java_session, {})
    spark_session.drop_functions(spark)
    allowed_paths.start(spark)
    return spark
