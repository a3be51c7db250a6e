"""A Spark session with a catalog of its own for every set of tables: one tenant's tables do not exist for another.

`SparkSession.newSession` would share the catalog with all others. Here each session is built with a state of its own:
its databases and tables are those of the statement, and nothing else is in it, whatever the guard let through. The
JVM, the scheduler and the memory are shared. A new session costs 20 ms, a table 30 ms, once.
"""

import os
import threading
from collections import OrderedDict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from analytics import session as spark_session
from analytics.errors import QueryFailed
from analytics.lake import lake_path
from analytics.specs import QuerySpec, TableSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Sessions kept for the next statement with the same tables; each holds about 1 MB in the JVM.
MOST_SESSIONS = 64
_FORMATS = {"parquet": "", "orc": "", "json": "", "csv": "options (header 'true', escape '\"', multiLine 'true')"}

_lock = threading.Lock()
_sessions: "OrderedDict[object, TenantSession]" = OrderedDict()


class TenantSession:
    """A session in which only the tables of one QuerySpec can exist; they are registered when first named."""

    def __init__(self, spark: "SparkSession", schema: str, tables: dict[str, list[TableSpec]]) -> None:
        self.spark = spark
        self._lock = threading.Lock()
        self._tables = {(name.lower(), table.name.lower()): table for name, specs in tables.items() for table in specs}
        self._registered: dict[tuple[str, str], int] = {}
        for name in tables:
            spark.sql(f"create database if not exists {_quoted(name.lower())}")
        if schema in tables:
            spark.sql(f"use {_quoted(schema.lower())}")

    def register(self, relations: Iterable[tuple[str, str]]) -> None:
        """Make the tables known to the session; take notice of files that came or went since they were.

        Raises QueryFailed for a table whose location has no files: an empty result would hide it.
        """
        with self._lock:
            for relation in relations:
                table = self._tables[relation]
                path = lake_path(table.location)
                state = _state_of_files(path)
                if state is None:
                    raise QueryFailed(f"The table {'.'.join(relation)} has no files at {table.location}.")
                known = self._registered.get(relation)
                if known is None:
                    self.spark.sql(self._create_statement(relation, table, path))
                elif known != state:
                    self.spark.catalog.refreshTable(_full_name(relation))
                self._registered[relation] = state

    def _create_statement(self, relation: tuple[str, str], table: TableSpec, path: str) -> str:
        if table.format not in _FORMATS:
            raise QueryFailed(
                f"The table {'.'.join(relation)} has the format {table.format}; possible are {', '.join(_FORMATS)}."
            )
        columns = ", ".join(f"{_quoted(column.name)} {self._type(column.type)}" for column in table.columns)
        location = path.replace("\\", "\\\\").replace("'", "\\'")
        return (
            f"create table {_full_name(relation)} {f'({columns})' if columns else ''} using {table.format} "
            f"{_FORMATS[table.format]} location '{location}'"
        )

    def _type(self, text: str) -> str:
        """The type as Spark writes it, so that nothing but a type gets into the statement."""
        types: Any = self.spark._jvm.org.apache.spark.sql.types  # type: ignore[union-attr]
        return str(getattr(getattr(types, "DataType$"), "MODULE$").fromDDL(text).sql())


def of(spec: QuerySpec) -> TenantSession:
    """The session for the tenant, default schema and tables of a statement."""
    key = (spec.tenant, spec.schema, tuple((name, tuple(tables)) for name, tables in sorted(spec.tables.items())))
    root = spark_session.get()
    with _lock:
        found = _sessions.get(key)
        if found is None or found.spark.sparkContext is not root.sparkContext:
            found = _sessions[key] = TenantSession(_with_own_catalog(root), spec.schema, spec.tables)
        _sessions.move_to_end(key)
        while len(_sessions) > MOST_SESSIONS:
            _sessions.popitem(last=False)
        return found


def forget() -> None:
    """Drop all sessions, after Spark has stopped."""
    with _lock:
        _sessions.clear()


def _with_own_catalog(root: "SparkSession") -> "SparkSession":
    from pyspark.sql import SparkSession

    jvm: Any = root._jvm
    context = root.sparkContext._jsc.sc()
    java_session = jvm.org.apache.spark.sql.classic.SparkSession(context, jvm.java.util.HashMap())
    listener = java_session.sharedState().statusStore().listener()
    if listener.isDefined():  # it feeds a web page that we do not show, and each session would add one to every event
        context.removeSparkListener(listener.get())
    spark = SparkSession(root.sparkContext, java_session, {})
    spark_session.drop_functions(spark)
    return spark


def _state_of_files(path: str) -> int | None:
    """A number that changes when files of the table come, go or change; None when there are none."""
    files = [
        (os.path.join(folder, name), status.st_mtime_ns, status.st_size)
        for folder, _, names in os.walk(path)
        for name in names
        if not name.startswith(("_", ".")) and (status := os.stat(os.path.join(folder, name)))
    ]
    return hash(tuple(sorted(files))) if files else None


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _full_name(relation: tuple[str, str]) -> str:
    return ".".join(map(_quoted, relation))
