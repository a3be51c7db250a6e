"""Values as SVG paths, on a plane of so many units; a value that is not known leaves a gap."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

Point = tuple[int, int]


def line(values: Sequence[float | None], top: float, width: int, height: int) -> str:
    """The path of a line through evenly spaced values, 0 at the bottom and `top` at the upper edge."""
    return "".join(_through(points) for points in _runs(values, top, width, height))


def area(values: Sequence[float | None], top: float, width: int, height: int) -> str:
    """The path of what lies below that line."""
    return "".join(
        f"{_through(points)}V{height}H{points[0][0]}Z" for points in _runs(values, top, width, height) if points[1:]
    )


def nice_top(highest: float) -> float:
    """The upper end of an axis from 0 for a highest value: 1, 2, 4, 5 or 8 times a power of ten, so that quarters
    of it are short numbers too."""
    if highest <= 0:
        return 4.0
    power = 10.0 ** math.floor(math.log10(highest))
    return next(step * power for step in (1, 2, 4, 5, 8, 10) if step * power >= highest)


def _through(points: Sequence[Point]) -> str:
    first, *others = points
    # A single value between two gaps is a dot: a line of no length with round ends. Steps in place of points: they are
    # alike, and so go over the wire in half as many bytes.
    steps = pairwise([first, *(others or [first])])
    pairs = (f"{x - before_x}{'' if y < before_y else ' '}{y - before_y}" for (before_x, before_y), (x, y) in steps)
    return f"M{first[0]} {first[1]}l" + " ".join(pairs)


def _runs(values: Sequence[float | None], top: float, width: int, height: int) -> Iterator[list[Point]]:
    """The points of each stretch without a gap. A unit at both edges is left for the line's own width."""
    across, high = width / max(1, len(values) - 1), height - 2
    points = [
        None if value is None else (round(number * across), round(height - 1 - min(value / top, 1) * high))
        for number, value in enumerate(values)
    ]
    for is_gap, run in groupby(points, lambda point: point is None):
        if not is_gap:
            yield [point for point in run if point is not None]
