"""Runs one statement: guard, session, result file, counters. What comes out is a QueryResult or one of our errors."""

import time
from pathlib import Path

from analytics.lake import lake_path, write_file
from analytics.specs import QueryResult, QuerySpec
from analytics.sql import backend, failures, ids, insert, result, running


def run_query(spec: QuerySpec) -> QueryResult:
    """Run a statement and write its result.

    Raises QueryRefused (nothing was executed), QueryFailed, QueryTimedOut, QueryCancelled, LakeError, EngineLost,
    EngineUnavailable.
    """
    started = time.monotonic()
    engine_query_id = spec.engine_query_id or ids.new_query_id()
    path = Path(lake_path(spec.result_file))
    spark = backend.get()
    with running.watched(spark, spec.task_id, spec.time_limit_s) as statement:
        try:
            with spark.statement(spec.tenant, statement.tag):
                frame = spark.prepare(spec)
                statement.check()
                if spec.target is None:
                    written = result.write(spark, frame, path, statement, spec.max_result_rows)
                else:
                    written = insert.write(spark, frame, spec.target, statement)
                    write_file(spec.result_file, insert.count_file(written))
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
        columns=written.columns if spec.target is None else [insert.RESULT_COLUMN],
        table_columns=tuple(written.columns) if spec.target is not None else (),
    )
