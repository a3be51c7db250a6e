"""Sessions of a Spark Connect server: one for every set of tables, which are temporary views in it.

The catalog of the server is shared by all its sessions, so no table of a tenant is ever made in it. Temporary views are
the session's own; a session knows the tables of one tenant's set, registers them when they are first named, and is
closed when it was not used for long.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from analytics.errors import EngineUnavailable
from analytics.specs import QuerySpec, TableSpec
from analytics.sql import spelling, table_sets
from analytics.sql.connect import channel, views

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

#: Sessions kept for the next statement with the same tables.
MOST_SESSIONS = 64
#: What holds for every statement; the server's own configuration cannot loosen it (docs/analytics.md).
_CONFIGURATION = {
    "spark.sql.runSQLOnFiles": "false",
    "spark.sql.variable.substitute": "false",
    "spark.sql.scripting.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.files.maxPartitionBytes": "16m",
    "spark.sql.shuffle.partitions": "16",
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
    "spark.sql.hive.manageFilesourcePartitions": "false",
    "parquet.hadoop.vectored.io.enabled": "false",
}

_lock = threading.Lock()
_sessions: "OrderedDict[object, ConnectSession]" = OrderedDict()


class ConnectSession:
    """A session of the server, and the views that stand for tables in it."""

    def __init__(self, spec: QuerySpec, specs: Mapping[str, list[TableSpec]]) -> None:
        self.spark: SparkSession = channel.open_session()
        self.schema = spec.schema.lower()
        #: Statements that use it; it is closed when it was dropped and the last one has ended.
        self.users = 0
        self.dropped = False
        self._lock = threading.Lock()
        self._tables = table_sets.by_relation(specs)
        self._names: dict[tuple[str, str], str] = {}
        self._registered: dict[tuple[str, str], int] = {}
        #: By thread: who wants to know what the nodes of an executed plan have counted.
        self.listeners: dict[int, Callable[[list[Any]], None]] = {}
        self._listen()
        try:
            self._configure(spec.tenant)
        except BaseException:
            self.close()
            raise

    def _configure(self, tenant: str) -> None:
        from pyspark import __version__

        wanted, found = (version.split(".")[:2] for version in (__version__, self.spark.version))
        if wanted != found:
            raise EngineUnavailable(
                f"The Spark Connect server {channel.address()} runs Spark {'.'.join(found)}; needed is"
                f" {'.'.join(wanted)}."
            )
        # The pool reaches the scheduler of the server with the rest of a session's configuration.
        for name, value in (_CONFIGURATION | {"spark.scheduler.pool": tenant}).items():
            self.spark.conf.set(name, value)

    def _listen(self) -> None:
        """PySpark gives the counts to the frame that was executed, which is made where nobody knows this session."""
        client: Any = self.spark.client
        build = client._build_metrics

        def listened(message: Any) -> list[Any]:
            nodes = list(build(message))
            if listener := self.listeners.get(threading.get_ident()):
                listener(nodes)
            return nodes

        client._build_metrics = listened

    def name_of(self, relation: tuple[str, str]) -> str:
        """The view of a table: its bare name, unless another table of the session has that."""
        with self._lock:
            name = self._names.get(relation)
            if name is None:
                taken = set(self._names.values())
                name = relation[1] if relation[1] not in taken and relation[0] == self.schema else _unique(relation)
                self._names[relation] = name
            return name

    def register(self, relations: Mapping[tuple[str, str], str]) -> int:
        """Make the views of the tables, anew when files came or went; returns the bytes of the tables' files.

        Raises QueryFailed as `table_sets.files_of`.
        """
        size = 0
        with self._lock:
            for relation, name in relations.items():
                table = self._tables[relation]
                files = table_sets.files_of(relation, table)
                size += sum(file.size for file in files)
                state = hash(tuple(files))
                if self._registered.get(relation) != state:
                    empty = table.may_be_empty and not files
                    frame: Any = (
                        views.empty_frame(self.spark, table) if empty else views.frame_of(self.spark, relation, table)
                    )
                    frame.createOrReplaceTempView(spelling.quoted(name))
                    self._registered[relation] = state
        return size

    def table(self, relation: tuple[str, str]) -> TableSpec:
        """What the console said of a table."""
        return self._tables[relation]

    def close(self) -> None:
        """Give the session back to the server; an outage is no reason to fail."""
        self.spark.stop()


def take(spec: QuerySpec) -> ConnectSession:
    """The session for the tenant, default schema and tables of a statement; to be given to `leave` afterwards."""
    key = table_sets.key_of(spec)
    with _lock:
        found = _sessions.get(key)
        if found is not None:
            _sessions.move_to_end(key)
            found.users += 1
            return found
    made = ConnectSession(spec, spec.tables)
    with _lock:
        found = _sessions.setdefault(key, made)
        found.users += 1
        surplus = [_sessions.popitem(last=False)[1] for _ in range(len(_sessions) - MOST_SESSIONS)]
    for session in [*surplus, *([made] if found is not made else [])]:
        _drop(session)
    return found


def private(spec: QuerySpec, looked_up: Mapping[tuple[str, str], TableSpec]) -> ConnectSession:
    """A session for one statement: tables that were looked up are of its author and of this moment."""
    session = ConnectSession(spec, table_sets.with_looked_up(spec, looked_up))
    session.users, session.dropped = 1, True
    return session


def leave(session: ConnectSession) -> None:
    """The statement has ended."""
    with _lock:
        session.users -= 1
        is_done = session.dropped and session.users == 0
    if is_done:
        session.close()


def drop(session: ConnectSession) -> None:
    """Do not use the session for another statement: the server does not know it any more."""
    with _lock:
        for key in [key for key, kept in _sessions.items() if kept is session]:
            del _sessions[key]
    _drop(session)


def forget() -> None:
    """Close all sessions."""
    with _lock:
        sessions = list(_sessions.values())
        _sessions.clear()
    for session in sessions:
        _drop(session)


def _drop(session: ConnectSession) -> None:
    with _lock:
        session.dropped = True
        is_done = session.users == 0
    if is_done:
        session.close()


def _unique(relation: tuple[str, str]) -> str:
    return "t_" + hashlib.sha256("\0".join(relation).encode()).hexdigest()[:24]
