"""The query of an inflow task over sample events, made by the engine before there is a task: nothing is delivered."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from analytics import session as spark_session
from analytics import uses
from analytics.errors import PipelineFailed, PipelineRefused
from analytics.inflow.delivery import text_of
from analytics.inflow.sql_rows import Made, Row
from analytics.inflow.transform import Event, Transformed
from analytics.pipelines.inflow_sql import EVENTS, ROW_OF_EVENT, BatchSql
from analytics.pipelines.runner import Names, in_session, translated
from analytics.specs import Decide, TableSpec
from analytics.sql import sessions


@dataclass(frozen=True)
class Trial:
    """A query that is tried for a tenant, and the tables of the catalog that it may read."""

    tenant: str
    sql: str
    tables: Mapping[str, list[TableSpec]] = field(default_factory=dict)
    decide: Decide | None = None
    time_limit_s: float = 10.0


def tried(trial: Trial, events: Sequence[Event]) -> Transformed:
    """What the query makes of the events.

    Raises TransformFailed, PipelineRefused for what no task could be started with, PipelineFailed for what fails or
    takes longer than the limit, and EngineUnavailable, EngineLost or EngineBusy where the engine is to blame.
    """
    texts = [text_of(event) for event in events]
    tag = f"trial-{uuid.uuid4().hex}"
    is_late = threading.Event()
    with uses.one(), translated():
        spark = sessions.with_own_catalog(spark_session.get())

        def end() -> None:
            is_late.set()
            spark.sparkContext.cancelJobsWithTag(tag)

        names = Names(spark, sessions.TenantSession(spark, "", dict(trial.tables)), trial)
        names.know(EVENTS)
        query = BatchSql(spark, "noop", "")
        limit = threading.Timer(trial.time_limit_s, end)
        limit.start()
        try:
            with in_session(spark, trial.tenant, tag):
                found = query.tried(texts, lambda: names.judged(trial.sql, 0))
        except Exception as error:
            if is_late.is_set() and not isinstance(error, PipelineRefused):
                raise PipelineFailed(f"The query takes longer than {trial.time_limit_s:g} s.") from error
            raise
        finally:
            limit.cancel()
    rows: dict[bytes, list[Row]] = {}
    for number, kind, content, topic in found:
        rows.setdefault(texts[number], []).append(Row(content, kind == ROW_OF_EVENT, topic))
    return Made(rows, {}).apply(events)
