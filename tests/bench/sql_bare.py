"""The same statements in a bare PySpark script: `python -m tests.bench.sql_bare FLIGHTS BIG` prints seconds as JSON."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from tests.bench import sql_statements as statements


def main(flights: Path, big: Path) -> dict[str, float]:
    """Median seconds of each statement."""
    from pyspark.sql import SparkSession

    settings = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.driver.memory": "1g"}
    builder = SparkSession.builder.master("local[*]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.read.parquet(str(flights)).createOrReplaceTempView("flights")
    spark.read.parquet(str(big)).createOrReplaceTempView("big")

    def small(number: int) -> None:
        spark.sql(statements.small(number)).collect()

    def aggregate(_: int) -> None:
        spark.sql(statements.AGGREGATE).collect()

    def result(_: int) -> None:
        folder = tempfile.mkdtemp()
        spark.sql(statements.RESULT).write.mode("overwrite").csv(folder, header=True)
        shutil.rmtree(folder)

    for number in range(statements.WARM_UP):
        small(number)
    return {
        "small": _median(small, statements.QUERIES),
        "aggregate": _median(aggregate, statements.ROUNDS + 1),
        "result": _median(result, 1),
    }


def _median(work: Callable[[int], None], rounds: int) -> float:
    seconds = []
    for number in range(rounds):
        began = time.perf_counter()
        work(number)
        seconds.append(time.perf_counter() - began)
    return median(seconds)


if __name__ == "__main__":
    print("SECONDS " + json.dumps(main(Path(sys.argv[1]), Path(sys.argv[2]))))
