"""Run by test_on_spark.py in a process of its own: statements over a lake on object storage, what came out as JSON.

`python on_spark.py`; the environment says where the lake is and which jars Spark needs.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import threading
from datetime import date

import pyarrow as pa
import pyarrow.parquet as pq

from analytics import engine, lake
from analytics.errors import AnalyticsError
from analytics.specs import Column, QuerySpec, TableSpec, Target

SCHEMA = (Column("id", "bigint"), Column("name", "string"))
ROWS = 30_000


def main() -> None:
    """Print one JSON object."""
    with io.BytesIO() as file:
        pq.write_table(pa.table({"id": range(ROWS), "name": [f"n,{n}" for n in range(ROWS)]}), file)
        file.seek(0)
        lake.write_file("oss://alice-lake/demo/t/part-0.parquet", file)
    said: dict[str, object] = {"formats": {}, "inserted": {}}
    said["small"] = statement("small", "select count(*) as n, max(name) as m from t")
    said["parts"] = rows_of("parts", "select id, name from t order by id")
    for file_format in ("parquet", "csv", "json", "orc"):
        table = TableSpec(f"t_{file_format}", f"oss://alice-lake/demo/{file_format}/", file_format, SCHEMA)
        target = Target("demo", table, create=True)
        made = statement(f"ctas-{file_format}", "select id, name from t", target=target)
        more = Target("demo", table)
        added = statement(f"again-{file_format}", "select id, name from t where id < 5", target=more)
        said["inserted"][file_format] = [made, added]  # type: ignore[index]
        asked = f"select count(*) as n, sum(id) as s, max(name) as m from t_{file_format}"
        said["formats"][file_format] = statement(f"read-{file_format}", asked, [table])  # type: ignore[index]
    said["staging"] = [f.location for f in lake.files("oss://alice-lake/", hidden=True) if "_temporary" in f.location]
    said["drafts"] = [f.location for f in lake.files("oss://" + results(), hidden=True) if ".draft-" in f.location]
    said["plan"] = statement("plan", "select * from t", explain="formatted")
    said["too large"] = statement(
        "large", "select a.id, repeat('x', 1000) as x from range(100000) a cross join range(100000) b", most=9_000_000
    )
    secret = os.environ["GANTRY_LAKE_ACCESS_KEY_SECRET"]
    listed = subprocess.run(["ps", "axwww", "-o", "args"], capture_output=True, text=True, check=True).stdout
    said["secret is listed"] = secret in listed
    said["cancelled"] = cancelled()
    engine.stop()
    print(json.dumps(said))


def results() -> str:
    return lake.result_location("1000001", "mq-private", "x", date(2026, 1, 15)).split("/")[2]


def cancelled() -> str:
    timer = threading.Timer(2, engine.cancel, ["cancelled"])
    timer.start()
    return str(statement("cancelled", "select a.id from range(1000000000) a cross join range(1000) b"))


def statement(
    task_id: str,
    sql: str,
    tables: list[TableSpec] | None = None,
    *,
    most: int | None = None,
    explain: str | None = None,
    target: Target | None = None,
) -> object:
    """The first rows, or the error."""
    table = TableSpec("t", "oss://alice-lake/demo/t/", "parquet", SCHEMA)
    location = lake.result_location("1000001", "mq-private", task_id, date(2026, 1, 15))
    spec = QuerySpec(
        task_id=task_id,
        tenant="alice",
        sql=sql,
        schema="demo",
        tables={"demo": [table, *(tables or [])]},
        parameters=(),
        result_file=location,
        time_limit_s=200,
        max_result_bytes=most,
        explain=explain,
        target=target,
    )
    try:
        engine.run_query(spec)
    except AnalyticsError as error:
        return f"{type(error).__name__}: {error.user_message}"
    return lake.preview_result(location, 100)[1]


def rows_of(task_id: str, sql: str) -> object:
    """How many rows the whole result has, its first and last."""
    told = statement(task_id, sql)
    if isinstance(told, str):
        raise SystemExit(told)
    rows = list(lake.read_result(lake.result_location("1000001", "mq-private", task_id, date(2026, 1, 15)))[1])
    return [len(rows), rows[0], rows[-1]]


if __name__ == "__main__":
    main()
