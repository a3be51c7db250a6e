"""Rows that the console gives, and names that Spark's CREATE refuses."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from analytics import engine, lake
from analytics.errors import QueryFailed
from analytics.specs import Column, TableSpec
from analytics.sql import spelling
from tests.analytics.conftest import result_text, specification, write_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = (
    Column("at", "timestamp"), Column("who", "string"), Column("n", "bigint"), Column("ok", "boolean"),
    Column("share", "double"), Column("level", "int"),
)  # fmt: skip
NOON = datetime(2026, 1, 15, 12, tzinfo=UTC)


def ask(sql: str, rows: Iterator[tuple[object, ...]]) -> list[dict[str, str]]:
    table = TableSpec("audit", "", "rows", COLUMNS, rows=lambda: rows)
    spec = specification(sql, {}, schema="gantry", lookup=lambda schema, name: table if name == "audit" else None)
    engine.run_query(spec)
    return list(csv.DictReader(io.StringIO(result_text(spec))))


def test_rows_of_the_console_are_a_table_for_one_statement(spark: SparkSession) -> None:
    rows = [(NOON, "alice", 1, True, 0.5, 7), (None, None, None, None, None, None)]
    assert ask("select * from gantry.audit order by n nulls last", iter(rows)) == [
        {"at": "2026-01-15 12:00:00", "who": "alice", "n": "1", "ok": "true", "share": "0.5", "level": "7"},
        dict.fromkeys([column.name for column in COLUMNS], ""),
    ]
    assert lake.files("oss://gantry-snapshots/") == [], "a snapshot goes with its statement"


def test_no_rows_are_an_empty_table(spark: SparkSession) -> None:
    assert ask("select count(*) as n from audit", iter([])) == [{"n": "0"}]


def test_more_rows_than_a_chunk_arrive(spark: SparkSession) -> None:
    rows = ((NOON, f"user-{number}", number, True, 0.0, 0) for number in range(12_001))
    assert ask("select count(*) as n, max(n) as last from audit", rows) == [{"n": "12001", "last": "12000"}]


def test_a_snapshot_goes_when_the_statement_fails(spark: SparkSession) -> None:
    with pytest.raises(QueryFailed):
        ask("select no_such_column from audit", iter([(NOON, "alice", 1, True, 0.5, 7)]))
    assert lake.files("oss://gantry-snapshots/") == []


def test_schemas_and_tables_may_have_hyphens(spark: SparkSession) -> None:
    write_table("oss://alice-lake/my-schema/my-table/", pa.table({"n": [1, 2]}))
    table = TableSpec("my-table", "oss://alice-lake/my-schema/my-table/", "parquet", (Column("n", "bigint"),))
    for sql in (
        "select sum(`my-table`.n) as s from `my-schema`.`my-table`",
        "select sum(n) as s from (select `My-Table`.* from `my-table`)",
    ):
        spec = specification(sql, {"my-schema": [table]}, schema="my-schema")
        engine.run_query(spec)
        assert result_text(spec) == "s\n3\n"


def test_a_safe_name_is_plain_and_tells_names_apart() -> None:
    names = ["orders", "MQ_INST_1%orders", "MQ_INST_1-orders", "%DLQ%GID", "ÄÖ", ""]
    safe = [spelling.safe(name) for name in names]
    assert safe[0] == "orders"
    assert all(map(spelling.is_plain, safe))
    assert len(set(safe)) == len(names)
