"""The figures of async SQL, through the MySQL endpoint of a copy that is started for them and ended again."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from analytics.java import find_java
from tests.bench import figures, sql_crowd, sql_setup
from tests.bench import sql_statements as statements
from tests.support.product import ROOT, Product
from tests.support.sql_client import Row, SqlClient

#: elapse_time and mq_total_time, in ms, of the row in the vendor's page on async queries with message receipt.
PUBLISHED = {"elapse_time": 490.0, "mq_total_time": 307.0}
BARS = {"elapse_time": 150.0, "mq_total_time": 50.0}
BAR_OVERHEAD = 1.15


def main() -> str:
    """Take all figures and return the tables."""
    with _copy() as (product, first_query), SqlClient(product.demo) as client:
        big = sql_setup.big_table(product)
        keys = sql_setup.accounts(product)
        mine = SqlClient(product.demo, user=keys[0][0], password=keys[0][1], database="bench")
        for number in range(statements.WARM_UP):
            client.ended(client.submit(statements.small(number), notify=True), notified=True, every=0.01)
        small = [_small(client, number) for number in range(statements.QUERIES)]
        ours = {
            "small": median(row["elapse_time"] for row in small) / 1000,
            "aggregate": median(_seconds(mine, statements.AGGREGATE) for _ in range(statements.ROUNDS + 1)),
        }
        ours["result"], large = sql_crowd.large_result(product, mine, keys[1])
        rows = [
            ("first query after the start; s", figures.number(first_query), ""),
            *large,
            *sql_crowd.fifty(product, keys),
            *sql_crowd.short_beside_scans(product, mine, keys[1]),
            *sql_crowd.cancelling(mine),
            *sql_crowd.after_a_death(product, client),
        ]
        bare = _bare(product, big)
    return "\n\n".join((_small_table(small), _overhead_table(ours, bare), _other_table(rows)))


@contextmanager
def _copy() -> Iterator[tuple[Product, float]]:
    """A copy of its own, and how long its first query took, in seconds from its submission."""
    with tempfile.TemporaryDirectory(prefix="gantry-bench-") as folder:
        environ = {"GANTRY_SQL_RUNNING_PER_TENANT": "4"}
        product = Product(Path(folder) / "home", environ).start()
        try:
            with SqlClient(product.demo) as client:
                began = time.monotonic()
                client.ended(client.submit(statements.small(0)))
                first = time.monotonic() - began
            yield product, first
        finally:
            product.stop()


def _small(client: SqlClient, number: int) -> Row:
    """One small query: its row, and how long its client waited."""
    began = time.perf_counter()
    task_id = client.submit(statements.small(number), notify=True)
    submitted = time.perf_counter()
    row = client.ended(task_id, notified=True, every=0.01)
    if row["status"] != "SUCCESS" or row["mq_status"] != "SUCCESS":
        raise RuntimeError(f"the query {task_id} failed: {row['message'] or row['mq_error_msg']}")
    times = {"submit to task id": submitted - began, "submit to notified": time.perf_counter() - began}
    return row | {name: seconds * 1000 for name, seconds in times.items()}


def _seconds(client: SqlClient, statement: str) -> float:
    row = client.ended(client.submit(statement), seconds=300)
    if row["status"] != "SUCCESS":
        raise RuntimeError(f"{statement} failed: {row['message']}")
    return float(row["elapse_time"]) / 1000


def _bare(product: Product, big: Path) -> dict[str, float]:
    """The same statements in a bare script, while the copy has nothing to do."""
    flights = product.home / "lake" / "gantry-demo" / "demo" / "flights"
    command = [sys.executable, "-m", "tests.bench.sql_bare", str(flights), str(big)]
    environ = product.environ | {"JAVA_HOME": str(find_java(product.home))}
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=True)
    line = next(line for line in done.stdout.splitlines() if line.startswith("SECONDS "))
    return dict(json.loads(line.removeprefix("SECONDS ")))


def _small_table(rows: list[Row]) -> str:
    names = ("submit to task id", "elapse_time", "mq_total_time", "submit to notified")
    return figures.table(
        (f"{statements.QUERIES} small queries, warm; ms", "median", "p95", "bar", "published sample"),
        [
            (
                name,
                *figures.median_and_p95([float(row[name]) for row in rows]),
                *(figures.number(known[name]) if name in known else "" for known in (BARS, PUBLISHED)),
            )
            for name in names
        ],
    )


def _overhead_table(ours: dict[str, float], bare: dict[str, float]) -> str:
    names = {
        "small": "small query",
        "aggregate": f"aggregate of {sql_setup.ROWS:,} rows in 1,000 groups",
        "result": f"result of {sql_setup.RESULT_ROWS:,} rows",
    }
    return figures.table(
        ("median; s", "elapse_time", "bare spark.sql", "ratio", "bar"),
        [
            (
                text,
                figures.number(ours[name]),
                figures.number(bare[name]),
                figures.number(ours[name] / bare[name]),
                str(BAR_OVERHEAD),
            )
            for name, text in names.items()
        ],
    )


def _other_table(rows: list[tuple[str, str, str]]) -> str:
    return figures.table(("", "figure", "of them, or bar"), rows)
