"""The curves of a job as plotly figures; charts.js draws them in the colours of the page's theme."""

from __future__ import annotations

from collections.abc import Sequence

from django.utils.translation import gettext as _

from console.metrics.figures import AMBER, BLUE, GREEN, VIOLET, Series, TitledFigure, lines
from console.pipelines.samples import Point


def curves(points: Sequence[Point], seconds: int) -> list[TitledFigure]:
    """Rates, how long a batch takes, how far the watermark is behind, and the size of the state.

    A job without a watermark, or without state, has no such curve.
    """
    unit, size = _unit(max((point.state_bytes or 0 for point in points), default=0))
    wanted: list[tuple[str, str, str, dict[str, Series]]] = [
        (
            "rates", _("Rows a second"), "rows/s",
            {"in": (BLUE, _of(points, "rows_in")), "out": (GREEN, _of(points, "rows_out"))},
        ),
        ("batches", _("Duration of a batch, s"), "s", {"batch": (AMBER, _of(points, "batch_ms", 1000))}),
        ("delay", _("Watermark behind the clock, s"), "s", {"delay": (VIOLET, _of(points, "delay_ms", 1000))}),
        ("state", _("State, %(unit)s") % {"unit": unit}, unit, {"state": (BLUE, _of(points, "state_bytes", size))}),
    ]  # fmt: skip
    at = [point.at for point in points]
    return [
        TitledFigure(
            key,
            title,
            _("%(title)s; the table below has the same numbers") % {"title": title},
            lines(at, series, unit, seconds),
        )
        for key, title, unit, series in wanted
        if key == "rates" or any(any(values) for _unused, values in series.values())
    ]


def _unit(most: int) -> tuple[str, int]:
    """The unit in which sizes up to that have two figures and more, with its bytes."""
    units = {"GiB": 1 << 30, "MiB": 1 << 20, "KiB": 1 << 10}
    return next(((name, size) for name, size in units.items() if most >= 10 * size), ("B", 1))


def _of(points: Sequence[Point], name: str, unit: int = 1) -> list[float | None]:
    values = [getattr(point, name) for point in points]
    return [None if value is None else round(value / unit, 3) for value in values]
