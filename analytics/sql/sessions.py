"""A Spark session with a catalog of its own for every set of tables: one tenant's tables do not exist for another.

`SparkSession.newSession` would share the catalog with all others. Here each session is built with a state of its own:
its databases and tables are those of the statement, and nothing else is in it, whatever the guard let through. The
JVM, the scheduler and the memory are shared. A new session costs 20 ms, a table 30 ms, once.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from analytics import session as spark_session
from analytics.lake import reach
from analytics.specs import Decide, QuerySpec, TableSpec
from analytics.sql import naming, table_sets, tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Sessions kept for the next statement with the same tables; each holds about 1 MB in the JVM.
MOST_SESSIONS = 64

_lock = threading.Lock()
_sessions: "OrderedDict[object, TenantSession]" = OrderedDict()


class TenantSession:
    """A session in which only the tables of one QuerySpec can exist; they are registered when first named."""

    def __init__(self, spark: "SparkSession", schema: str, specs: dict[str, list[TableSpec]]) -> None:
        self.spark = spark
        self._lock = threading.Lock()
        self._tables = table_sets.by_relation(specs)
        self._registered: dict[tuple[str, str], int] = {}
        for name in specs:
            naming.create_database(spark, name.lower())
        if schema in specs:
            spark.sql(f"use {tables.quoted(schema.lower())}")

    def register(self, relations: Iterable[tuple[str, str]], decide: Decide | None = None) -> None:
        """Make the tables known to the session; take notice of files that came or went since they were.

        `decide` is asked about every file, also when others have used the session before. Raises QueryFailed as
        `table_sets.files_of`, and QueryRefused.
        """
        with self._lock:
            for relation in relations:
                table = self._tables[relation]
                files = table_sets.files_of(relation, table)
                if decide is not None:
                    table_sets.decide(relation, table, decide, files)
                state = hash(tuple(files))
                known = self._registered.get(relation)
                if known is None:
                    tables.create(self.spark, relation, table)
                elif known != state:
                    self.spark.catalog.refreshTable(tables.full_name(relation))
                self._registered[relation] = state


def of(spec: QuerySpec) -> TenantSession:
    """The session for the tenant, default schema and tables of a statement."""
    key = table_sets.key_of(spec)
    root = spark_session.get()
    with _lock:
        found = _sessions.get(key)
        if found is None or found.spark.sparkContext is not root.sparkContext:
            found = _sessions[key] = TenantSession(_with_own_catalog(root), spec.schema, spec.tables)
        _sessions.move_to_end(key)
        while len(_sessions) > MOST_SESSIONS:
            _sessions.popitem(last=False)
        return found


def private(spec: QuerySpec, looked_up: Mapping[tuple[str, str], TableSpec]) -> TenantSession:
    """A session for one statement: its tables are of its author and of this moment, and no other statement's."""
    return TenantSession(
        _with_own_catalog(spark_session.get()), spec.schema, table_sets.with_looked_up(spec, looked_up)
    )


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
    reach.start(spark)
    return spark
