from __future__ import annotations

from datetime import date

import pytest

from analytics.samples import files, rollup
from analytics.samples.files import DAY_MS, day_of, start_of_period
from analytics.specs import Sample

#: 2026-01-15 00:00 UTC
DAY = date(2026, 1, 15)
MIDNIGHT = 1_768_435_200_000


def sample(ts_ms: int, count: int = 1, **changes: object) -> Sample:
    fields = {"kind": "in", "topic": "flights", "group": "", "seconds": 10.0, **changes}
    return Sample(ts_ms=ts_ms, count=count, **fields)  # type: ignore[arg-type]


def test_a_batch_becomes_one_file_of_its_day() -> None:
    files.append([sample(MIDNIGHT + 10_000), sample(MIDNIGHT + 10_000, topic="bookings")])
    assert len(files.look(DAY).raw) == 1
    assert rollup.days_to_roll_up() == [DAY]


def test_a_sample_that_ends_at_midnight_belongs_to_the_day_before() -> None:
    files.append([sample(MIDNIGHT), sample(MIDNIGHT + 1), sample(MIDNIGHT + DAY_MS)])
    assert rollup.days_to_roll_up() == [date(2026, 1, 14), DAY]
    assert day_of(MIDNIGHT + DAY_MS) == DAY
    assert start_of_period(MIDNIGHT, 1) == MIDNIGHT - 60_000
    assert start_of_period(MIDNIGHT + 1, 10) == MIDNIGHT


def test_the_same_batch_twice_is_there_once() -> None:
    for _ in range(2):
        files.append([sample(MIDNIGHT + 10_000)])
    assert len(files.look(DAY).raw) == 1


def test_no_samples_make_no_file() -> None:
    files.append([])
    assert rollup.days_to_roll_up() == []


def test_it_refuses_a_kind_it_does_not_know() -> None:
    with pytest.raises(ValueError, match="kind 'up' of a sample; possible are in, out"):
        files.append([sample(MIDNIGHT + 1, kind="up")])
    assert rollup.days_to_roll_up() == []
