"""The curves of a job."""

from __future__ import annotations

from typing import Any

import pytest

from console.jobs.figures import curves
from console.pipelines.samples import Point


def points(**values: Any) -> list[Point]:
    """Three points in a row with these values."""
    return [Point(at, **values) for at in (1_900_000_000, 1_900_000_010, 1_900_000_020)]


def test_a_job_without_watermark_and_state_has_no_curve_of_them() -> None:
    assert [curve.key for curve in curves(points(rows_in=0.0, rows_out=0.0, state_bytes=0), 900)] == ["rates"]
    every = points(rows_in=1.0, rows_out=1.0, batch_ms=40, delay_ms=2_000, state_bytes=9)
    assert [curve.key for curve in curves(every, 900)] == ["rates", "batches", "delay", "state"]


@pytest.mark.parametrize(
    ("size", "title"),
    [(816, "State, B"), (10 << 10, "State, KiB"), ((10 << 20) - 1, "State, KiB"), (1 << 40, "State, GiB")],
)
def test_a_state_is_told_in_the_unit_that_fits_it(size: int, title: str) -> None:
    assert [curve.title for curve in curves(points(state_bytes=size), 900)][-1] == title
