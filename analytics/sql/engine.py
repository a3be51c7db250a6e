"""Runs one statement: guard, session, result file, counters. What comes out is a QueryResult or one of our errors."""

import itertools
import secrets
import string
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from analytics import session as spark_session
from analytics.lake import lake_path
from analytics.specs import QueryResult, QuerySpec
from analytics.sql import failures, guard, metrics, result, running, sessions

_sequence = itertools.count()
#: Tells the processes apart in an engine_query_id, as a coordinator's id does in the vendor's.
_PROCESS_ID = "".join(secrets.choice(string.ascii_lowercase + string.digits) for _ in range(5))


def run_query(spec: QuerySpec) -> QueryResult:
    """Run a statement and write its result.

    Raises QueryRefused (nothing was executed), QueryFailed, QueryTimedOut, QueryCancelled, LakeError, EngineLost,
    EngineUnavailable.
    """
    started = time.monotonic()
    engine_query_id = _engine_query_id(datetime.now(UTC))
    path = Path(lake_path(spec.result_file))
    context = spark_session.get().sparkContext
    with running.watched(context, spec.task_id, spec.time_limit_s) as statement:
        try:
            context.setLocalProperty("spark.scheduler.pool", spec.tenant)
            context.setInterruptOnCancel(True)
            context.addJobTag(statement.tag)
            written = _execute(spec, path, statement)
            counters = metrics.read(context, written.tag)
        except Exception as error:
            statement.check()
            raise failures.translate(error) from error
        finally:
            _clear_thread(context, statement.tag)
    return QueryResult(
        row_count=counters.output_rows if written.rows is None else written.rows,
        scanned_row_count=counters.input_rows,
        scanned_data_bytes=counters.input_bytes,
        engine_query_id=engine_query_id,
        elapse_ms=round((time.monotonic() - started) * 1000),
        columns=written.columns,
    )


def _execute(spec: QuerySpec, path: Path, statement: running.Statement) -> result.Written:
    tenant = sessions.of(spec)
    tables = {schema: [table.name for table in tables] for schema, tables in spec.tables.items()}
    guarded = guard.check(tenant.spark, spec.sql, schema=spec.schema, tables=tables, parameters=spec.parameters)
    tenant.register(guarded.relations)
    statement.check()
    from pyspark.sql import DataFrame

    jvm: Any = tenant.spark._jvm
    rows = jvm.org.apache.spark.sql.classic.Dataset.ofRows(tenant.spark._jsparkSession, guarded.plan)
    return result.write(DataFrame(rows, tenant.spark), path, statement, spec.max_result_rows)


def _clear_thread(context: Any, tag: str) -> None:
    """The thread is used again for another tenant: nothing of this statement may stay with it."""
    try:
        context.removeJobTag(tag)
        context.setLocalProperty("spark.scheduler.pool", None)
    except Exception:  # noqa: BLE001  a dead JVM has no thread to clear; the statement's own error tells it
        return


def _engine_query_id(now: datetime) -> str:
    return f"{now:%Y%m%d_%H%M%S}_{next(_sequence) % 100_000:05d}_{_PROCESS_ID}"
