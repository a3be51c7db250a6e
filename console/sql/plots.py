"""A plot of a result: at most 1,000 points, put together here and drawn by plotly in the browser."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import plotly.graph_objects as go

from analytics import lake
from console.sql.models import QueryTask
from console.sql.results import Head, heads
from console.web.languages import gettext_lazy

#: Points of a curve; more rows than that are put together.
MOST_POINTS = 1000
#: Rows that are looked at: a plot of more is a matter of a GROUP BY.
MOST_ROWS = 200_000
KINDS = {"line": gettext_lazy("Line"), "bar": gettext_lazy("Bars"), "scatter": gettext_lazy("Points")}
METHODS = {"mean": "average", "sum": "sum", "min": "lowest", "max": "highest", "count": "count"}
_COLOURS = ("#1f5fd0", "#e8590c", "#2b8a3e", "#ae3ec9", "#c92a2a", "#0c8599")
MOST_CURVES = len(_COLOURS)

Key = str | float


@dataclass(frozen=True, slots=True)
class Choice:
    """What is drawn: indexes of the columns, the kind of plot, and how several rows of one x become a point."""

    x: int
    ys: tuple[int, ...]
    kind: str = "line"
    method: str = "mean"


@dataclass(slots=True)
class Point:
    """The rows of one x: how many, and of each y the sum, lowest and highest."""

    label: str
    rows: int = 0
    sums: dict[int, list[float]] = field(default_factory=dict)

    def add(self, ys: Iterable[int], values: list[str | None]) -> None:
        """Count a row in; what is no number is left out."""
        self.rows += 1
        for y in ys:
            value = _number(values[y])
            if value is not None:
                count, total, low, high = self.sums.get(y, [0.0, 0.0, math.inf, -math.inf])
                self.sums[y] = [count + 1, total + value, min(low, value), max(high, value)]

    def value(self, y: int, method: str) -> float | None:
        """The y of the point; None when no row of it has a number."""
        if method == "count":
            return float(self.rows)
        if y not in self.sums:
            return None
        count, total, low, high = self.sums[y]
        return {"mean": total / count, "sum": total, "min": low, "max": high}[method]


@dataclass(frozen=True, slots=True)
class Plot:
    """The figure for plotly, the same numbers as a table, and what was left out."""

    figure: dict[str, Any]
    names: list[str]
    table: list[tuple[str, list[float | None]]]
    rows: int
    cut: bool
    binned: bool


def columns_of(task: QueryTask) -> list[Head]:
    """The columns to choose from. Raises LakeError when the file is gone."""
    names, _ = lake.preview_result(task.result_file, 0)
    return heads(task, names)


def first_choice(columns: list[Head]) -> Choice:
    """What is most likely wanted: the first time or text against the first numbers."""
    ys = [i for i, column in enumerate(columns) if column.numeric]
    xs = [i for i, column in enumerate(columns) if column.temporal] or [
        i for i, column in enumerate(columns) if not column.numeric
    ]
    x = xs[0] if xs else 0
    wanted = tuple(y for y in ys if y != x)[:1] or tuple(ys[:1]) or (min(1, len(columns) - 1),)
    kind = "line" if columns[x].temporal or columns[x].numeric else "bar"
    return Choice(x, wanted, kind, "mean" if columns[x].numeric or columns[x].temporal else "sum")


def draw(task: QueryTask, columns: list[Head], choice: Choice) -> Plot:
    """Read the result once and put it together. Raises LakeError when the file is gone."""
    ordered = columns[choice.x].numeric or columns[choice.x].temporal
    _, rows = lake.read_result(task.result_file)
    points: dict[Key, Point] = {}
    seen = 0
    for values in islice(rows, MOST_ROWS):
        seen += 1
        text = values[choice.x]
        key = _key(text, columns[choice.x]) if ordered else (text if text is not None else "null")
        if key is not None:
            points.setdefault(key, Point(text or "")).add(choice.ys, values)
    binned = ordered and len(points) > MOST_POINTS
    if binned:
        points = _binned(points, columns[choice.x])
    keys = sorted(points) if ordered else list(points)[:MOST_POINTS]
    table = [
        (str(key) if not ordered else points[key].label, [points[key].value(y, choice.method) for y in choice.ys])
        for key in keys
    ]
    several = any(points[key].rows > 1 for key in keys) or choice.method == "count"
    names = [_name(columns[y], choice.method if several else "mean") for y in choice.ys]
    figure = _figure(columns[choice.x], names, table, choice)
    cut = next(rows, None) is not None or len(points) > len(keys)
    if isinstance(rows, Generator):
        rows.close()  # the file is open as long as rows can be asked for
    return Plot(figure, names, table, seen, cut, binned)


def _name(column: Head, method: str) -> str:
    return column.name if method == "mean" else f"{METHODS[method]} of {column.name}"


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _key(text: str | None, column: Head) -> float | None:
    """Where a value stands on the axis: a number, or a time in ms."""
    if not column.temporal:
        return _number(text)
    try:
        moment = datetime.fromisoformat((text or "").strip())
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000


def _binned(points: dict[Key, Point], column: Head) -> dict[Key, Point]:
    """MOST_POINTS equal parts of the axis, each named by its first x."""
    numbers = {key: point for key, point in points.items() if isinstance(key, float)}
    low, high = min(numbers), max(numbers)
    width = (high - low) / MOST_POINTS
    bins: dict[Key, Point] = {}
    for key in sorted(numbers):
        place = float(min(int((key - low) / width), MOST_POINTS - 1))
        whole = bins.setdefault(place, Point(numbers[key].label))
        whole.rows += numbers[key].rows
        for y, (count, total, least, most) in numbers[key].sums.items():
            known = whole.sums.get(y, [0.0, 0.0, math.inf, -math.inf])
            whole.sums[y] = [known[0] + count, known[1] + total, min(known[2], least), max(known[3], most)]
    return bins


def _figure(x: Head, names: list[str], table: list[tuple[str, list[float | None]]], choice: Choice) -> dict[str, Any]:
    figure = go.Figure()
    labels = [label for label, _ in table]
    for index, name in enumerate(names):
        ys = [values[index] for _, values in table]
        colour = _COLOURS[index % MOST_CURVES]
        if choice.kind == "bar":
            figure.add_bar(x=labels, y=ys, name=name, marker={"color": colour})
        else:
            mode = "markers" if choice.kind == "scatter" else "lines+markers" if len(labels) <= 100 else "lines"
            figure.add_scatter(x=labels, y=ys, name=name, mode=mode, line={"color": colour}, marker={"color": colour})
    axis: dict[str, Any] = {"title": {"text": x.name}, "showgrid": False, "automargin": True}
    axis["type"] = "date" if x.temporal else "linear" if x.numeric and choice.kind != "bar" else "category"
    figure.update_layout(
        template=None,
        margin={"l": 64, "r": 16, "t": 16, "b": 56},
        showlegend=len(names) > 1,
        legend={"orientation": "h", "y": 1.08, "x": 0},
        hovermode="closest",
        xaxis=axis,
        yaxis={"title": {"text": names[0] if len(names) == 1 else ""}, "zeroline": False, "automargin": True},
    )
    built: dict[str, Any] = figure.to_dict()
    return built
