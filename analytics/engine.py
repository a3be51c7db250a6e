"""The engine: runs statements of tenants on Spark. Importing it starts nothing and imports neither Spark nor Arrow.

Spark is started by the first call that needs it, and stays for the life of the process.
"""

import io
import logging
import threading
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from analytics import lake, specs, uses
from analytics import session as spark_session
from analytics.errors import AnalyticsError, QueryCancelled
from analytics.reach import ask_for_addresses
from analytics.session import beyond, culprit, is_lost, was_ended_from_outside
from analytics.specs import Column, QueryResult, QuerySpec, TableSpec
from analytics.sql import csv_text, failures, insert, outline, result, running, sessions
from analytics.sql.backend import Backend
from analytics.sql.functions import REFUSED_FUNCTIONS
from analytics.sql.moves import discard as discard_write
from analytics.sql.moves import forget as forget_write
from analytics.sql.moves import placed as files_of_write
from analytics.sql.result import Written
from analytics.sql.running import cancel, progress
from analytics.uses import one as in_use
from analytics.wall import shortcoming as wall_shortcoming

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = [
    "REFUSED_FUNCTIONS",
    "ask_for_addresses",
    "beyond",
    "cancel",
    "culprit",
    "discard_write",
    "files_of_write",
    "forget_write",
    "in_use",
    "is_lost",
    "progress",
    "renew",
    "run_query",
    "statement_kind",
    "stop",
    "wall_shortcoming",
    "warm",
    "was_ended_from_outside",
]

_log = logging.getLogger(__name__)
#: The result file of EXPLAIN.
_PLAN_COLUMN = Column("Plan", "string")
#: Values of options shorter than this are delimiters and switches, and would be found everywhere.
_SHORTEST_SECRET = 6
_HIDDEN = "(hidden)"
_WARM_FOLDER = "oss://gantry-warm"
_WARM_TABLE = TableSpec(
    "numbers", f"{_WARM_FOLDER}/numbers/", "parquet", (Column("n", "bigint"), Column("name", "string"))
)
#: What users' statements are made of. Just-in-time compilation needs some rounds of it.
_WARM_STATEMENTS = (
    "select name, count(*), avg(n) from numbers where n > 10 group by name order by 2 desc limit 3",
    "select * from numbers where name = 'b' limit 4",
    "select name, sum(n) from numbers group by name",
    "select distinct name from numbers order by name",
    "select a.name, max(b.n) from numbers a join numbers b using (n) group by a.name having max(b.n) > 1",
    "select * from (select n, row_number() over (partition by name order by n desc) as r from numbers) where r = 1",
    "select count(distinct name), percentile_approx(n, 0.5), cast(1.5 as decimal(5, 2)) from numbers",
)
_WARM_ROUNDS = 5


def statement_kind(sql: str) -> str:
    """The kind of a statement without its hint: SELECT for every query, otherwise its first word, such as INSERT.

    Raises QueryRefused when it is empty, too large or too deeply nested. Starts nothing.
    """
    word = outline.check(sql)
    return "SELECT" if word in {"SELECT", "WITH", "VALUES", "FROM", "TABLE"} else word


def run_query(spec: QuerySpec) -> QueryResult:
    """Run a statement, write its result.csv, and tell what it cost; blocks until it ended.

    Raises QueryRefused (nothing was executed), QueryFailed (QueryTimedOut among them), QueryCancelled, LakeError,
    EngineUnavailable, EngineOutdated (`renew`), and EngineLost: then the process must end, for its Spark cannot be used
    again.
    """
    with uses.one():
        return _run(spec)


def _run(spec: QuerySpec) -> QueryResult:
    started = time.monotonic()
    engine_query_id = spec.engine_query_id or specs.new_query_id()
    writes_table = spec.target is not None and spec.explain is None
    spark = Backend()
    with running.watched(spark, spec.task_id, spec.time_limit_s) as statement:
        try:
            with spark.statement(_pool(spec), statement.tag):
                frame = spark.prepare(spec)
                statement.check()
                if spec.explain is not None:
                    written = _write_plan(spark, frame, spec, f"{statement.tag}-plan")
                elif spec.target is None:
                    limits = result.Limits(spec.max_result_rows, spec.max_result_bytes, spec.result_room)
                    written = result.write(spark, frame, spec.result_file, statement, limits)
                else:
                    written = insert.write(spark, frame, spec.target, statement)
                    written = replace(written, size=lake.write_file(spec.result_file, insert.count_file(written)))
                counters = spark.counters(written.tag)
        except Exception as error:
            statement.check()
            raise failures.translate(error) from error
    return QueryResult(
        row_count=counters.output_rows if written.rows is None else written.rows,
        scanned_row_count=counters.input_rows,
        scanned_data_bytes=counters.input_bytes,
        engine_query_id=engine_query_id,
        elapse_ms=round((time.monotonic() - started) * 1000),
        columns=[insert.RESULT_COLUMN] if writes_table else written.columns,
        result_bytes=written.size,
        table_columns=tuple(written.columns) if writes_table else (),
        table_bytes=written.stored,
    )


def _pool(spec: QuerySpec) -> str:
    """The share of the cores: of the tenant's statements, those whose client waits have one of their own."""
    return f"{spec.tenant} waited for" if spec.synchronous else spec.tenant


def _write_plan(backend: Backend, frame: "DataFrame", spec: QuerySpec, tag: str) -> Written:
    """Leave the plan in the result file; the statement is not run. Raises LakeError, and what Spark raises."""
    import pyarrow as pa

    lines = _shown(backend.explained(frame, spec.explain or "simple"), spec).splitlines()
    while lines and not lines[-1].strip():
        lines.pop()
    table = pa.table({_PLAN_COLUMN.name: pa.array(lines, pa.string())})
    content = io.BytesIO(b"".join([csv_text.header([_PLAN_COLUMN]), *map(bytes, csv_text.rows(table))]))
    return Written(len(lines), tag, [_PLAN_COLUMN], lake.write_file(spec.result_file, content))


def _shown(plan: str, spec: QuerySpec) -> str:
    """The plan without addresses of the storage and without values of options, which may be secrets."""
    for value in sorted({value for table in _tables(spec) for _, value in table.options}, key=len, reverse=True):
        if len(value) >= _SHORTEST_SECRET:
            plan = plan.replace(value, _HIDDEN)
    return lake.as_locations(plan).replace("spark_catalog.", "")


def _tables(spec: QuerySpec) -> list[TableSpec]:
    listed = [table for tables in spec.tables.values() for table in tables]
    return [*listed, spec.target.table] if spec.target else listed


def stop() -> None:
    """Cancel what runs and end Spark with its JVM. The next call that needs it starts a new one."""
    running.cancel_all(QueryCancelled("The SQL engine is shutting down."))
    spark_session.stop()
    sessions.forget()


def renew(addresses: Iterable[str]) -> None:
    """Have an engine that may connect to these `host:port`: end one that may not, unless somebody is in it.

    The next call that needs an engine starts another. Raises EngineOutdated while somebody is in it.
    """
    uses.renew(addresses, stop)


def warm() -> None:
    """Start Spark and return when it takes statements; go on warming it in the background for some seconds.

    The first user's statement is then as fast as the later ones: the JVM has compiled what all of them use. Raises
    EngineUnavailable with one sentence that says what to do.
    """
    with uses.one():
        spark_session.get()
    threading.Thread(target=_warm_all, name="warm Spark").start()


def _warm_all() -> None:
    _write_warm_table()
    for number in range(_WARM_ROUNDS):
        for sql in _WARM_STATEMENTS:
            if not (spark_session.is_alive() and threading.main_thread().is_alive()):
                return
            try:
                run_query(_warm_spec(f"{number}", sql))
            except AnalyticsError as error:
                _log.info("Warming Spark ended: %s", error.user_message)
                return


def _warm_spec(name: str, sql: str) -> QuerySpec:
    return QuerySpec(
        task_id=f"warm-{name}",
        tenant="gantry",
        sql=sql,
        schema="warm",
        tables={"warm": [_WARM_TABLE]},
        parameters=(),
        result_file=f"{_WARM_FOLDER}/result.csv",
        time_limit_s=600,
    )


def _write_warm_table() -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not lake.files(_WARM_TABLE.location):
        content = io.BytesIO()
        pq.write_table(pa.table({"n": range(1000), "name": ["abc"[n % 3] for n in range(1000)]}), content)
        content.seek(0)
        lake.write_file(f"{_WARM_TABLE.location}part-0.parquet", content)
