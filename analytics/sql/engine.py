"""Runs one statement: guard, session, result file, counters. What comes out is a QueryResult or one of our errors."""

import time
from dataclasses import replace

from analytics import lake
from analytics.specs import QueryResult, QuerySpec
from analytics.sql import explaining, failures, ids, insert, result, running
from analytics.sql.backend import Backend


def run_query(spec: QuerySpec) -> QueryResult:
    """Run a statement and write its result.

    Raises QueryRefused (nothing was executed), QueryFailed, QueryTimedOut, QueryCancelled, LakeError, EngineLost,
    EngineUnavailable.
    """
    started = time.monotonic()
    engine_query_id = spec.engine_query_id or ids.new_query_id()
    writes_table = spec.target is not None and spec.explain is None
    spark = Backend()
    with running.watched(spark, spec.task_id, spec.time_limit_s) as statement:
        try:
            with spark.statement(_pool(spec), statement.tag):
                frame = spark.prepare(spec)
                statement.check()
                if spec.explain is not None:
                    written = explaining.write(spark, frame, spec, f"{statement.tag}-plan")
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
