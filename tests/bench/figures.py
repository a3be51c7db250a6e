"""Medians and percentiles, and tables in Markdown as docs/operate/performance.md holds them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import median


def percentile(values: Iterable[float], percent: float) -> float:
    """The nearest-rank percentile: the smallest value that at least `percent` of all do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def number(value: float) -> str:
    """A figure with three significant digits or whole, with thousands separated."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; the first column is text, the others are figures."""
    lines = ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * (len(head) - 1)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


def median_and_p95(values: Sequence[float]) -> tuple[str, str]:
    """Both figures of a series."""
    return number(median(values)), number(percentile(values, 95))
