"""Values as paths: gaps stay gaps, nothing leaves the plane."""

from __future__ import annotations

import math
import re
from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from console.web.lines import area, line, nice_top
from console.web.templatetags.sparks import spark

VALUES = st.lists(st.none() | st.floats(0, 1e12), min_size=1, max_size=50)


def test_a_gap_parts_the_line_and_a_single_value_is_a_dot() -> None:
    assert line([0, 10, None, 5], 10, 30, 22) == "M0 21l10-20M30 11l0 0"
    assert area([0, 10, None, 5], 10, 30, 22) == "M0 21l10-20V22H0Z"


@given(VALUES)
def test_no_point_leaves_the_plane(values: list[float | None]) -> None:
    for x, y, steps in re.findall(r"M(\d+) (\d+)l([^M]+)", line(values, 1e12, 60, 20)):
        numbers = [int(number) for number in re.findall(r"-?\d+", steps)]
        across = accumulate(numbers[::2], initial=int(x))
        for place in zip(across, accumulate(numbers[1::2], initial=int(y)), strict=True):
            assert 0 <= place[0] <= 60 and 0 < place[1] < 20


@given(st.floats(1e-6, 1e15))
def test_the_upper_end_of_an_axis_is_at_or_above_the_highest_and_near_it(highest: float) -> None:
    top = nice_top(highest)
    assert highest <= top * (1 + 1e-9) and top < 2.6 * highest
    assert math.isclose(round(top / 10 ** math.floor(math.log10(top))), top / 10 ** math.floor(math.log10(top)))


def test_where_nothing_is_known_there_is_no_line_and_zeros_are_one() -> None:
    assert "<path" not in spark([None, None])
    assert 'd="M0 19l60 0"' in spark([0, 0])
