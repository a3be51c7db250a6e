from __future__ import annotations

import os
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from analytics import lake
from analytics.demo import write_demo_tables
from analytics.specs import TableSpec


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, TableSpec]:
    monkeypatch.setenv("GANTRY_LAKE", str(tmp_path))
    started = time.monotonic()
    specs = write_demo_tables("demo-lake", "demo")
    assert time.monotonic() - started < 30  # it takes 2 s; a busy machine may be slow, a loop in Python is slower still
    return {spec.name: spec for spec in specs}


def test_the_demo_schema_holds_the_five_tables_of_the_package(tables: dict[str, TableSpec]) -> None:
    rows = {name: pq.read_table(lake.lake_path(spec.location)).num_rows for name, spec in tables.items()}
    assert rows == {"flights": 336_776, "airlines": 16, "airports": 1_458, "planes": 3_322, "weather": 26_115}


def test_a_missing_value_is_null_and_the_types_are_those_told(tables: dict[str, TableSpec]) -> None:
    flights = pq.read_table(lake.lake_path(tables["flights"].location))
    assert [column.name for column in tables["flights"].columns] == flights.column_names
    assert flights.column("dep_time").null_count == 8_255
    assert flights.column("tailnum").null_count == 2_512
    assert str(flights.schema.field("dep_delay").type) == "int32"
    assert str(flights.column("time_hour")[0].as_py()) == "2013-01-01 10:00:00+00:00"


def test_writing_them_again_changes_nothing(tables: dict[str, TableSpec]) -> None:
    file = Path(lake.lake_path(tables["flights"].location)) / "part-0.parquet"
    before = os.stat(file).st_mtime_ns
    assert write_demo_tables("demo-lake", "demo") == list(tables.values())
    assert os.stat(file).st_mtime_ns == before
