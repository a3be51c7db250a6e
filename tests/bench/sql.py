"""Times of small async queries through the MySQL door, beside those of the vendor's sample row."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pymysql
from pymysql.connections import Connection
from pymysql.cursors import DictCursor

from tests.bench import figures
from tests.bench.copy import running_copy

QUERIES = 20
WARM_UP = 100
PATIENCE_SECONDS = 120
POLL_SECONDS = 0.02
STATEMENT = "select carrier, count(*) as flights from flights where month = {month} group by carrier"
#: elapse_time and mq_total_time, in ms, of the row in the vendor's page on async queries with message receipt.
PUBLISHED = {"elapse_time": 490.0, "mq_total_time": 307.0}


def main(demo_file: Path | None) -> str:
    """Run the queries against the copy of `demo_file`, or against one of their own, and return the table."""
    with running_copy(demo_file) as demo:
        sql = demo["sql"]
        connection = pymysql.connect(
            host=sql["host"],
            port=sql["port"],
            user=sql["user"],
            password=sql["password"],
            database=sql["database"],
            cursorclass=DictCursor,
            autocommit=True,
        )
        with connection:
            for number in range(WARM_UP):
                _query(connection, demo, number)
            rows = [_query(connection, demo, number) for number in range(QUERIES)]
    return figures.table(
        (f"{QUERIES} small queries, warm; ms", "median", "p95", "published sample"),
        [
            (name, *figures.median_and_p95([row[name] for row in rows]), figures.number(PUBLISHED.get(name, 0)))
            if name in PUBLISHED
            else (name, *figures.median_and_p95([row[name] for row in rows]), "")
            for name in ("submit to task id", "elapse_time", "mq_total_time", "submit to notified")
        ],
    )


def _query(connection: Connection[DictCursor], demo: dict[str, Any], number: int) -> dict[str, float]:
    """Submit one query, wait for its notification and return its times in ms."""
    began = time.perf_counter()
    task_id = str(_rows(connection, _hint(demo) + STATEMENT.format(month=number % 12 + 1))[0]["ASYNC_TASK_ID"])
    submitted = time.perf_counter()
    while True:
        (row,) = _rows(connection, f"show query_task where id = '{task_id}'")
        if row["mq_status"]:
            break
        if row["status"] == "FAILURE" or time.perf_counter() - began > PATIENCE_SECONDS:
            raise RuntimeError(f"the query {task_id} is {row['status']}: {row['message'] or 'no notification came'}")
        time.sleep(POLL_SECONDS)
    notified = time.perf_counter()
    if row["status"] != "SUCCESS" or row["mq_status"] != "SUCCESS":
        raise RuntimeError(f"the query {task_id} failed: {row['message'] or row['mq_error_msg']}")
    return {
        "submit to task id": (submitted - began) * 1000,
        "elapse_time": float(row["elapse_time"]),
        "mq_total_time": float(row["mq_total_time"]),
        "submit to notified": (notified - began) * 1000,
    }


def _rows(connection: Connection[DictCursor], statement: str) -> list[dict[str, Any]]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall())


def _hint(demo: dict[str, Any]) -> str:
    port = demo["namesrv"].rpartition(":")[2]
    options = {
        "run_async": "true",
        "mq-notify-by": "ons",
        "mq-topic": "query-done",
        "mq-producer-id": "GID_query",
        "mq-endpoint": f"http://{demo['instance_id']}.localhost:{port}",
    }
    return "/*+ " + ", ".join(f"{name}={value}" for name, value in options.items()) + " */ "
