"""Curves read from raw samples alone; `test_tps` reads the same ones from rollups."""

from __future__ import annotations

import pytest

from analytics.samples import files
from analytics.samples.series import read_series
from analytics.specs import Sample
from tests.analytics.samples.test_files import MIDNIGHT, sample

MINUTE = 60_000


def curve(minutes: int = 1, *, begin: int = MIDNIGHT, length: int = 3, topic: str = "flights") -> list[int | None]:
    end = begin + length * minutes * MINUTE
    return [count for _, count in read_series("in", topic, "", begin, end, minutes)]


def every_ten_seconds(begin: int, number: int, count: int = 5) -> list[Sample]:
    return [sample(begin + 10_000 * (step + 1), count) for step in range(number)]


def test_a_minute_is_the_sum_of_its_samples() -> None:
    files.append(every_ten_seconds(MIDNIGHT, 12))
    assert read_series("in", "flights", "", MIDNIGHT, MIDNIGHT + 2 * MINUTE, 1) == [
        (MIDNIGHT, 30),
        (MIDNIGHT + MINUTE, 30),
    ]


def test_a_missing_sample_is_a_gap_and_a_zero_is_a_zero() -> None:
    files.append(every_ten_seconds(MIDNIGHT, 6, count=0) + every_ten_seconds(MIDNIGHT + 2 * MINUTE, 6))
    assert curve() == [0, None, 30]


def test_a_period_less_than_half_covered_is_a_gap() -> None:
    files.append(every_ten_seconds(MIDNIGHT, 2) + every_ten_seconds(MIDNIGHT + MINUTE, 3))
    assert curve(length=2) == [None, 15]


def test_a_sample_over_a_long_outage_makes_no_spike() -> None:
    files.append([*every_ten_seconds(MIDNIGHT, 6), sample(MIDNIGHT + 3 * MINUTE, 100_000, seconds=120.0)])
    assert curve() == [30, None, None]


@pytest.mark.parametrize(("minutes", "expected"), [(1, [30] * 30), (5, [150] * 6), (10, [300] * 3)])
def test_every_period_sums_up_the_same_samples(minutes: int, expected: list[int]) -> None:
    files.append(every_ten_seconds(MIDNIGHT, 180))
    assert curve(minutes, length=30 // minutes) == expected


def test_a_curve_is_of_one_kind_topic_and_group() -> None:
    batch = every_ten_seconds(MIDNIGHT, 6)
    others = [
        sample(s.ts_ms, 1000, **{name: value})
        for s in batch
        for name, value in (("kind", "out"), ("topic", "other"), ("group", "GID_a"))
    ]
    files.append(batch + others)
    assert curve(length=1) == [30]
    assert curve(length=1, topic="other") == [6000]
    assert read_series("in", "flights", "GID_a", MIDNIGHT, MIDNIGHT + MINUTE, 1) == [(MIDNIGHT, 6000)]


def test_times_are_aligned_to_full_periods() -> None:
    files.append(every_ten_seconds(MIDNIGHT, 120))
    begin, end = MIDNIGHT + 7 * MINUTE + 123, MIDNIGHT + 19 * MINUTE + 59_999
    assert read_series("in", "flights", "", begin, end, 5) == [
        (MIDNIGHT + 5 * MINUTE, 150),
        (MIDNIGHT + 10 * MINUTE, 150),
    ]


def test_a_curve_goes_on_over_midnight() -> None:
    files.append(every_ten_seconds(MIDNIGHT - MINUTE, 12))
    assert curve(begin=MIDNIGHT - MINUTE, length=2) == [30, 30]


def test_without_samples_everything_is_a_gap() -> None:
    assert curve() == [None, None, None]
    assert read_series("in", "flights", "", MIDNIGHT, MIDNIGHT, 1) == []


def test_it_refuses_other_periods() -> None:
    with pytest.raises(ValueError, match="possible are 1, 5, 10"):
        read_series("in", "flights", "", MIDNIGHT, MIDNIGHT + MINUTE, 2)
