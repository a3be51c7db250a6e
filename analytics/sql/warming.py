"""Makes the first statement of a user as fast as the later ones: the JVM runs and has compiled what all of them use."""

from pathlib import Path

from analytics import session as spark_session
from analytics.lake import lake_path
from analytics.specs import Column, QuerySpec, TableSpec
from analytics.sql import engine

_FOLDER = "oss://gantry-warm"
_TABLE = TableSpec("numbers", f"{_FOLDER}/numbers/", "parquet", (Column("n", "bigint"), Column("name", "string")))
_STATEMENTS = (
    "select name, count(*), avg(n) from numbers where n > 10 group by name order by 2 desc limit 3",
    "select * from numbers where name = 'b' limit 4",
)


def warm() -> None:
    """Start Spark and run two small statements from guard to result file."""
    spark_session.get()
    _write_table()
    for number, sql in enumerate(_STATEMENTS):
        spec = QuerySpec(
            task_id=f"warm-{number}",
            tenant="gantry",
            sql=sql,
            schema="warm",
            tables={"warm": [_TABLE]},
            parameters=(),
            result_file=f"{_FOLDER}/result.csv",
            time_limit_s=60,
        )
        engine.run_query(spec)


def _write_table() -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = Path(lake_path(_TABLE.location)) / "part-0.parquet"
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.exists():
        pq.write_table(pa.table({"n": range(1000), "name": ["abc"[n % 3] for n in range(1000)]}), file)
