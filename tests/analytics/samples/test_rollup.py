"""The rollup on real Spark."""

from __future__ import annotations

import io
import json
from datetime import date
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from analytics import lake
from analytics.samples import files, rollup
from tests.analytics.samples.test_files import DAY, MIDNIGHT, sample
from tests.analytics.samples.test_series import MINUTE, curve, every_ten_seconds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = "kind string, topic string, `group` string, ts_ms bigint, count bigint, seconds double"


def test_transform_sums_up_per_period(spark: SparkSession) -> None:
    from pyspark.testing import assertDataFrameEqual

    samples = spark.createDataFrame(
        [
            ("in", "a", "", MIDNIGHT + 60_000, 1, 60.0),
            ("in", "a", "", MIDNIGHT + 60_001, 10, 60.0),
            ("in", "a", "", MIDNIGHT + 10 * MINUTE, 100, 60.0),
            ("out", "a", "GID_a", MIDNIGHT + 60_000, 7, 10.0),
            ("in", "late", "", MIDNIGHT + 60_000, 1_000, 90.1),
        ],
        COLUMNS,
    )
    expected = spark.createDataFrame(
        [
            (1, "in", "a", "", MIDNIGHT, 1, 60.0),
            (1, "in", "a", "", MIDNIGHT + MINUTE, 10, 60.0),
            (1, "in", "a", "", MIDNIGHT + 9 * MINUTE, 100, 60.0),
            (5, "in", "a", "", MIDNIGHT, 11, 120.0),
            (5, "in", "a", "", MIDNIGHT + 5 * MINUTE, 100, 60.0),
            (10, "in", "a", "", MIDNIGHT, 111, 180.0),
            *[(minutes, "out", "a", "GID_a", MIDNIGHT, 7, 10.0) for minutes in (1, 5, 10)],
        ],
        f"minutes int, {COLUMNS}",
    )
    assertDataFrameEqual(rollup.transform(samples), expected, ignoreNullable=True)


def test_a_sample_delivered_twice_counts_once(spark: SparkSession) -> None:
    rows = [("in", "a", "", MIDNIGHT + 1, 5, 10.0)]
    assert rollup.merged(spark.createDataFrame(rows * 2, COLUMNS)).count() == 1


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("minutes", [1, 5, 10])
def test_a_curve_is_the_same_before_and_after_the_rollup(minutes: int) -> None:
    files.append(every_ten_seconds(MIDNIGHT, 90) + every_ten_seconds(MIDNIGHT + 21 * MINUTE, 60, count=2))
    files.append([sample(MIDNIGHT + 10_000, 9, topic="other")])
    before = curve(minutes, length=40 // minutes)
    assert rollup.rollup(DAY)
    assert curve(minutes, length=40 // minutes) == before
    assert None in before
    assert any(before)
    assert rollup.days_to_roll_up() == []
    assert not rollup.rollup(DAY)


@pytest.mark.usefixtures("spark")
def test_samples_after_the_rollup_are_seen_at_once_and_late_ones_are_rolled_up_again() -> None:
    first, rest = every_ten_seconds(MIDNIGHT, 12)[::2], every_ten_seconds(MIDNIGHT, 12)[1::2]
    files.append(first)
    rollup.rollup(DAY)
    assert curve(length=2) == [15, 15]
    files.append(rest)
    assert curve(length=2) == [30, 30]
    files.append(first)  # the sampler's task was delivered twice
    rollup.rollup(DAY)
    assert curve(length=2) == [30, 30]


@pytest.mark.usefixtures("spark")
def test_a_rollup_leaves_one_sorted_file_of_samples_and_one_of_sums() -> None:
    for topic in ("b", "a"):
        files.append([sample(MIDNIGHT + step * 10_000, topic=topic) for step in (3, 1, 2)])
    rollup.rollup(DAY)
    files.append([sample(MIDNIGHT + 40_000, topic="a")])
    rollup.rollup(DAY)
    state = files.look(DAY)
    names = {
        files.name_of(file) for file in lake.files(state.folder, hidden=True) if not file.location.endswith(".crc")
    }
    assert names == {"manifest.json", state.manifest.samples, state.manifest.rollup}
    with lake.open_file(state.folder + str(state.manifest.samples)) as file:
        table = pq.read_table(file, partitioning=None)
    assert list(zip(table["topic"].to_pylist(), table["ts_ms"].to_pylist(), strict=True)) == [
        *[("a", MIDNIGHT + step * 10_000) for step in (1, 2, 3, 4)],
        *[("b", MIDNIGHT + step * 10_000) for step in (1, 2, 3)],
    ]


def test_raw_files_that_a_crash_left_behind_do_not_count_twice() -> None:
    files.append(every_ten_seconds(MIDNIGHT, 6))
    state = files.look(DAY)
    manifest = files.Manifest(merged=[files.name_of(file) for file in state.raw])
    lake.write_file(f"{state.folder}manifest.json", io.BytesIO(json.dumps(manifest.__dict__).encode()))
    assert files.look(DAY).raw == []
    assert curve(length=1) == [None]


def test_a_day_without_samples_needs_no_spark() -> None:
    assert not rollup.rollup(date(2020, 1, 1))
