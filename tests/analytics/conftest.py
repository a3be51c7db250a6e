"""One Spark for the whole package, a lake with the demo tables, and a cast: `alice` owns demo, `bob` owns secret."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from analytics import engine, lake
from analytics import session as spark_session
from analytics.demo import write_demo_tables
from analytics.specs import Column, QueryResult, QuerySpec, TableSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    Ask = Callable[..., QueryResult]

_numbers = itertools.count()


@pytest.fixture(scope="package")
def spark() -> Iterator[SparkSession]:
    """The one session of the process; statements of tenants run in sessions derived from it."""
    yield spark_session.get()
    engine.stop()


@pytest.fixture(scope="package")
def demo_tables() -> list[TableSpec]:
    return write_demo_tables("alice-lake", "demo")


def write_table(location: str, table: pa.Table) -> None:
    """Put a table into the lake, as one file."""
    folder = Path(lake.lake_path(location))
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, folder / "part-0.parquet")


@pytest.fixture(scope="package")
def secret_table() -> TableSpec:
    """A table of tenant bob."""
    write_table("oss://bob-lake/secret/salaries/", pa.table({"salary": [70_001, 80_002]}))
    return TableSpec("salaries", "oss://bob-lake/secret/salaries/", "parquet", (Column("salary", "bigint"),))


def specification(sql: str, tables: dict[str, list[TableSpec]], **changes: object) -> QuerySpec:
    """A QuerySpec of alice with a task of its own; any field can be given."""
    task_id = f"q{next(_numbers):05d}"
    fields: dict[str, object] = {
        "task_id": task_id,
        "tenant": "alice",
        "sql": sql,
        "schema": "demo",
        "tables": tables,
        "parameters": (),
        "result_file": lake.result_location("1000001", "mq-private", task_id, date(2026, 1, 15)),
        "time_limit_s": 240.0,
    }
    return QuerySpec(**{**fields, **changes})  # type: ignore[arg-type]


@pytest.fixture
def ask(spark: SparkSession, demo_tables: list[TableSpec]) -> Ask:
    """Run a statement of alice on her demo tables."""

    def run_it(sql: str, **changes: object) -> QueryResult:
        return engine.run_query(specification(sql, {"demo": demo_tables}, **changes))

    return run_it


def result_text(spec: QuerySpec) -> str:
    """The whole result file of a statement."""
    with lake.open_result(spec.result_file) as file:
        return file.read().decode(errors="surrogateescape")


@pytest.fixture
def csv_of(spark: SparkSession, demo_tables: list[TableSpec]) -> Callable[..., str]:
    """Run a statement of alice and return its result file."""

    def run_it(sql: str, **changes: object) -> str:
        spec = specification(sql, {"demo": demo_tables}, **changes)
        engine.run_query(spec)
        return result_text(spec)

    return run_it
