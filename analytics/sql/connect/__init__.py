"""A Spark Connect server, `sc://host:port` (`backend.Backend`): its JVM is elsewhere, and so is its parser.

An object serves one statement. The guard is `second_guard` over a parse of ours, then the server's own opinion
(`parsed`); tables are temporary views of a session of the tenant's (`sessions`).
"""

import contextlib
import threading
from collections.abc import Iterator, Mapping
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from analytics import lake
from analytics.errors import EngineLost, QueryFailed
from analytics.specs import Progress, QuerySpec, TableSpec
from analytics.sql import metrics, outline, second_guard, snapshots
from analytics.sql.connect import outage, parsed, sessions
from analytics.sql.connect.measures import Measures
from analytics.sql.connect.splice import spliced

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame


class Connect:
    """One statement's use of the server."""

    def __init__(self) -> None:
        self._session: sessions.ConnectSession | None = None
        self._thread = threading.get_ident()
        self._tags: list[str] = []
        self._measures = Measures()
        self._tables: list[TableSpec] = []
        self._input_bytes = 0
        self._explained = ""
        self._counted: tuple[Any, list[str]] | None = None

    def prepare(self, spec: QuerySpec) -> "DataFrame":
        """The statement over views of the session, as a relation: it is sent for analysis, never as a command.

        A session that the server has forgotten, since it was started anew, is replaced once: nothing was executed.
        """
        try:
            return self._prepared(spec)
        except Exception as error:
            if outage.of(error) is None:
                raise
            self._give_up_session()
            if not outage.is_forgotten(error):
                raise outage.unreachable(error) from error
        try:
            return self._prepared(spec)
        except Exception as error:
            if outage.of(error) is None:
                raise
            raise outage.unreachable(error) from error

    def _prepared(self, spec: QuerySpec) -> "DataFrame":
        first_word = outline.check(spec.sql)
        tables = {schema: [table.name for table in listed] for schema, listed in spec.tables.items()}
        guarded = second_guard.check(spec.sql, schema=spec.schema, tables=tables, lookup=spec.lookup)
        looked_up: Mapping[tuple[str, str], TableSpec] = guarded.looked_up
        session = self._use(sessions.private(spec, looked_up) if looked_up else sessions.take(spec))
        names = {relation: session.name_of(relation) for relation in guarded.relations}
        self._input_bytes = session.register(names)
        self._tables = [session.table(relation) for relation in names]
        frame = self._relation(spliced(spec.sql, guarded, spec.schema, names), spec.parameters)
        self._explained = frame._explain_string(mode="extended")
        parsed.check(self._explained, names.values(), first_word)
        return frame  # type: ignore[no-any-return]

    def _relation(self, sql: str, parameters: tuple[object, ...]) -> Any:
        from pyspark.sql.connect.dataframe import DataFrame
        from pyspark.sql.connect.functions import builtin
        from pyspark.sql.connect.plan import SQL

        values = [builtin.lit(_value(value)) for value in parameters]
        return DataFrame(SQL(sql, values, {}, []), self._spark)

    @property
    def _spark(self) -> Any:
        if self._session is None:
            raise EngineLost("The statement has no session of the Spark Connect server.", is_remote=True)
        return self._session.spark

    def _use(self, session: sessions.ConnectSession) -> sessions.ConnectSession:
        self._session = session
        client = self._spark.client
        client.register_progress_handler(self._progressed)
        session.listeners[self._thread] = self._scanned
        _make_active(session.spark)
        for tag in self._tags:
            client.add_tag(tag)
        return session

    def _leave_session(self) -> sessions.ConnectSession | None:
        session, self._session = self._session, None
        if session is not None:
            client: Any = session.spark.client
            session.listeners.pop(self._thread, None)
            with contextlib.suppress(ValueError):
                client.remove_progress_handler(self._progressed)
            client.clear_tags()
            _make_active(None)
            sessions.leave(session)
        return session

    def _give_up_session(self) -> None:
        session = self._leave_session()
        if session is not None:
            sessions.drop(session)

    @contextlib.contextmanager
    def statement(self, tenant: str, tag: str) -> Iterator[None]:
        """The tag of the block's operations; the tenant's pool is a setting of its session."""
        self._tags.append(tag)
        try:
            with snapshots.removed_afterwards():
                yield
        except Exception as error:
            if isinstance(outage.of(error), EngineLost):
                self._give_up_session()
            raise
        finally:
            self._leave_session()

    @contextlib.contextmanager
    def tagged(self, tag: str) -> Iterator[None]:
        """A further tag on the operations of the block; when it ends, the rows that it wrote are known."""
        client = self._spark.client
        client.add_tag(tag)
        try:
            yield
            self._note_written_rows()
        finally:
            client.remove_tag(tag)

    def cancel(self, tag: str) -> None:
        """Operations that run now; a dead server is noticed by the statement's own thread."""
        session = self._session
        if session is not None:
            with contextlib.suppress(Exception):
                session.spark.interruptTag(tag)

    def kill(self) -> None:
        """Close the session under the statement: the server ends all that runs in it, and the call returns."""
        session = self._session
        if session is not None:
            sessions.drop(session)
            session.close()

    def counters(self, tag: str) -> metrics.Counters:
        """From the server's messages on progress and on the executed plan."""
        return self._measures.counters(tag)

    def progress(self, tag: str) -> Progress | None:
        """From the server's messages on progress."""
        return self._measures.progress(tag)

    def most_rows(self, frame: "DataFrame") -> int | None:
        """The LIMIT at the end of the optimised plan."""
        return parsed.most_rows(self._explained)

    def input_bytes(self, frame: "DataFrame") -> int:
        """The sizes of the files of the tables, whatever the statement needs of them."""
        return self._input_bytes

    def explained(self, frame: "DataFrame", mode: str) -> str:
        """As `DataFrame.explain` prints it."""
        return str(frame._explain_string(mode=mode))  # type: ignore[operator]

    def interrupted(self, frame: "DataFrame") -> "SparkColumn":
        """Asked of the task's thread for each row, as in `classic`."""
        from pyspark.sql.connect.functions import builtin

        return builtin.call_function("java_method", builtin.lit("java.lang.Thread"), builtin.lit("interrupted"))

    def counted(self, frame: "DataFrame") -> "DataFrame":
        """The frame, observed: the server tells the rows of a write in no other way."""
        from pyspark.sql.connect.functions import builtin
        from pyspark.sql.connect.observation import Observation

        observation = Observation()
        self._counted = observation, sorted(self._spark.client.get_tags())
        return frame.observe(observation, builtin.count(builtin.lit(1)).alias("rows"))  # type: ignore[arg-type]

    def _note_written_rows(self) -> None:
        if self._counted is not None:
            (observation, tags), self._counted = self._counted, None
            rows = int(observation.get["rows"])
            self._measures.wrote(tags, rows, _rows_of(self._tables, otherwise=rows), self._input_bytes)

    def _progressed(self, stages: Any, inflight_tasks: int, operation_id: str, done: bool) -> None:
        if threading.get_ident() == self._thread:
            self._measures.progressed(operation_id, self._spark.client.get_tags(), stages or [])

    def _scanned(self, nodes: list[Any]) -> None:
        self._measures.scanned(self._spark.client.get_tags(), nodes)


def _make_active(spark: Any) -> None:
    """Tell PySpark which session this thread works with: its parser of types is asked without one being named."""
    from pyspark.sql.connect.session import SparkSession

    SparkSession._active_session.session = spark


def _value(value: object) -> object:
    if value is None or isinstance(value, str | bool | int | float | bytes | Decimal | date):
        return value
    raise QueryFailed(
        f"A parameter cannot be a {type(value).__name__}; numbers, texts, dates, times, bytes and null are possible."
    )


def _rows_of(tables: list[TableSpec], *, otherwise: int) -> int:
    """The rows of the tables by the footers of their Parquet files: a write tells nothing of what it read."""
    import pyarrow.parquet as pq

    rows = 0
    for table in tables:
        if table.format != "parquet":
            return otherwise
        for file in lake.files(table.location):
            with lake.open_file(file.location) as opened:
                rows += pq.read_metadata(opened).num_rows
    return rows
