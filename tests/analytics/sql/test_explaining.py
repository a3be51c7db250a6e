"""EXPLAIN: the plan as a result, without what the statement's author may not see."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from analytics import engine, lake
from analytics.errors import QueryRefused
from analytics.specs import Column, QueryResult, TableSpec
from tests.analytics.conftest import result_text, specification

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERY = "select carrier, count(*) from flights where month = 1 group by carrier"


@pytest.mark.parametrize(
    ("mode", "sign"),
    [
        ("simple", "== Physical Plan =="),
        ("extended", "== Analyzed Logical Plan =="),
        ("formatted", "== Physical Plan =="),
        ("cost", "Statistics(sizeInBytes="),
        ("codegen", "WholeStageCodegen"),
    ],
)
def test_the_plan_is_the_result_a_line_in_each_row(ask: Callable[..., QueryResult], mode: str, sign: str) -> None:
    result = ask(QUERY, explain=mode, result_file=f"oss://alice-lake/plan-{mode}.csv")
    columns, rows = lake.preview_result(f"oss://alice-lake/plan-{mode}.csv", 1_000_000)
    assert (columns, result.columns) == (["Plan"], [Column("Plan", "string")])
    assert result.row_count == len(rows)
    assert any(sign in (line or "") for (line,) in rows)
    assert (result.scanned_row_count, result.scanned_data_bytes) == (0, 0)


def test_files_are_shown_by_their_location_in_the_lake(csv_of: Callable[..., str]) -> None:
    plan = csv_of(QUERY, explain="simple")
    assert "oss://alice-lake/demo/flights" in plan
    assert lake.lake_path("oss://alice-lake") not in plan
    assert "spark_catalog" not in plan


def test_values_of_options_are_hidden(spark: SparkSession) -> None:
    folder = Path(lake.lake_path("oss://alice-lake/plans/t/"))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "data.csv").write_text("a\nNone of it\n")
    options = (("nullValue", "a well-kept secret"),)
    table = TableSpec("t", "oss://alice-lake/plans/t/", "csv", (Column("a", "string"),), options=options)
    for mode in ("extended", "cost", "formatted"):
        spec = specification("select * from t where a <> 'a well-kept secret'", {"demo": [table]}, explain=mode)
        engine.run_query(spec)
        assert "well-kept" not in result_text(spec)
        assert "(hidden)" in result_text(spec)


def test_what_the_guard_refuses_is_not_explained(ask: Callable[..., QueryResult]) -> None:
    with pytest.raises(QueryRefused, match="no schema secret"):
        ask("select * from secret.salaries", explain="extended")
