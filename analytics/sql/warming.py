"""Makes the first statement of a user as fast as the later ones: the JVM runs and has compiled what all of them use."""

import io
import logging
import threading

from analytics import lake
from analytics import session as spark_session
from analytics.errors import AnalyticsError
from analytics.specs import Column, QuerySpec, TableSpec
from analytics.sql import engine

_log = logging.getLogger(__name__)
_FOLDER = "oss://gantry-warm"
_TABLE = TableSpec("numbers", f"{_FOLDER}/numbers/", "parquet", (Column("n", "bigint"), Column("name", "string")))
#: What users' statements are made of. Just-in-time compilation needs some rounds of it.
_STATEMENTS = (
    "select name, count(*), avg(n) from numbers where n > 10 group by name order by 2 desc limit 3",
    "select * from numbers where name = 'b' limit 4",
    "select name, sum(n) from numbers group by name",
    "select distinct name from numbers order by name",
    "select a.name, max(b.n) from numbers a join numbers b using (n) group by a.name having max(b.n) > 1",
    "select * from (select n, row_number() over (partition by name order by n desc) as r from numbers) where r = 1",
    "select count(distinct name), percentile_approx(n, 0.5), cast(1.5 as decimal(5, 2)) from numbers",
)
_ROUNDS = 5


def warm() -> None:
    """Start Spark and return when it takes statements; go on warming it in the background for some seconds."""
    spark_session.get()
    threading.Thread(target=_run_all, name="warm Spark").start()


def _run_all() -> None:
    _write_table()
    for number in range(_ROUNDS):
        for sql in _STATEMENTS:
            if not (spark_session.is_alive() and threading.main_thread().is_alive()):
                return
            try:
                _run(f"{number}", sql)
            except AnalyticsError as error:
                _log.info("Warming Spark ended: %s", error.user_message)
                return


def _run(name: str, sql: str) -> None:
    spec = QuerySpec(
        task_id=f"warm-{name}",
        tenant="gantry",
        sql=sql,
        schema="warm",
        tables={"warm": [_TABLE]},
        parameters=(),
        result_file=f"{_FOLDER}/result.csv",
        time_limit_s=600,
    )
    engine.run_query(spec)


def _write_table() -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not lake.files(_TABLE.location):
        content = io.BytesIO()
        pq.write_table(pa.table({"n": range(1000), "name": ["abc"[n % 3] for n in range(1000)]}), content)
        content.seek(0)
        lake.write_file(f"{_TABLE.location}part-0.parquet", content)
