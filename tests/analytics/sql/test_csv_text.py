"""Any value is written the same by the driver and by Spark's tasks, and is read back as Spark holds it."""

from __future__ import annotations

import base64
import csv
import io
import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from analytics import lake
from analytics.sql import result, running
from analytics.sql.backend import Backend

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = "s string, d decimal(38,18), f double, t timestamp, n timestamp_ntz, a date, b binary, l long, j array<string>"
LOCATION = "oss://alice-lake/property/result.csv"
TEXTS = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from('",\r\n\0\\ '), max_size=20)
STAMPS = st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29))  # noqa: DTZ001  the zone is added where there is one
ROWS = st.lists(
    st.tuples(
        TEXTS,
        st.decimals(-(10**19), 10**19, places=18, allow_nan=False),
        st.floats(),
        STAMPS.map(lambda stamp: stamp.replace(tzinfo=UTC)),
        STAMPS,
        st.dates(),
        st.binary(max_size=12),
        st.integers(-(2**63), 2**63 - 1),
        st.lists(TEXTS | st.none(), max_size=3),
    ).flatmap(lambda row: st.tuples(*[st.just(value) | st.none() for value in row])),
    min_size=60,
    max_size=120,
)


@given(ROWS)
#: No shrinking: an example costs two jobs, and the row that differs is told.
@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
def test_values_are_exact_both_ways(spark: SparkSession, rows: list[tuple[object, ...]]) -> None:
    frame = spark.createDataFrame(rows, SCHEMA).coalesce(1)
    contents = []
    for small in (10_000, -1):
        with pytest.MonkeyPatch.context() as patch, running.watched(Backend(), f"csv{small}", 120) as statement:
            patch.setattr(result, "SMALL_ROWS", small)
            patch.setattr(result, "SMALL_INPUT_BYTES", 2**70 if small > 0 else -1)
            written = result.write(Backend(), frame, LOCATION, statement, result.Limits())
            assert written.tag.endswith("small" if small > 0 else "large")
        with lake.open_file(LOCATION) as file:
            contents.append(file.read())
        assert written.size == len(contents[-1])
    assert contents[0] == contents[1]
    by_python = list(csv.reader(io.StringIO(contents[0].decode(), newline="")))[1:]
    names, found = lake.read_result(LOCATION)
    assert names == list("sdftnablj")
    for cells, plain, row in zip(found, by_python, rows, strict=True):
        assert [cell or "" for cell in cells] == plain
        assert [cell is None for cell in cells] == [value is None for value in row]
        for cell, value in zip(cells, row, strict=True):
            assert cell is None or as_value(cell, value) == comparable(value)


def as_value(cell: str, like: object) -> object:
    """The cell as a value of the type that was written."""
    if isinstance(like, datetime):
        return datetime.fromisoformat(cell).replace(tzinfo=like.tzinfo)
    return _READERS[type(like)](cell)


_READERS: dict[type, Callable[[str], object]] = {
    str: str,
    float: lambda cell: repr(float(cell)),
    Decimal: Decimal,
    date: date.fromisoformat,
    int: int,
    bytes: lambda cell: base64.b64decode(cell, validate=True),
    bytearray: lambda cell: base64.b64decode(cell, validate=True),
    list: json.loads,
}


def comparable(value: object) -> object:
    """A NaN equals another, and a zero has its sign."""
    return repr(value) if isinstance(value, float) else value
