"""Values as paths: gaps stay gaps, nothing leaves the plane."""

from __future__ import annotations

import math
import re

from hypothesis import given
from hypothesis import strategies as st

from console.web.lines import area, line, nice_top
from console.web.templatetags.sparks import spark

VALUES = st.lists(st.none() | st.floats(0, 1e12), min_size=1, max_size=50)


def test_a_gap_parts_the_line_and_a_single_value_is_a_dot() -> None:
    assert line([0, 10, None, 5], 10, 30, 22) == "M0 21L10 1M30 11L30 11"
    assert area([0, 10, None, 5], 10, 30, 22) == "M0 21L10 1V22H0Z"


@given(VALUES)
def test_no_point_leaves_the_plane(values: list[float | None]) -> None:
    for x, y in re.findall(r"[ML](-?\d+) (-?\d+)", line(values, 1e12, 60, 20)):
        assert 0 <= int(x) <= 60 and 0 < int(y) < 20


@given(st.floats(1e-6, 1e15))
def test_the_upper_end_of_an_axis_is_at_or_above_the_highest_and_near_it(highest: float) -> None:
    top = nice_top(highest)
    assert highest <= top * (1 + 1e-9) and top < 2.6 * highest
    assert math.isclose(round(top / 10 ** math.floor(math.log10(top))), top / 10 ** math.floor(math.log10(top)))


def test_where_nothing_is_known_there_is_no_line_and_zeros_are_one() -> None:
    assert "<path" not in spark([None, None])
    assert 'd="M0 19L60 19"' in spark([0, 0])
