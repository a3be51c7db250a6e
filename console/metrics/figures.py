"""Plotly figures as plain dicts; charts.js draws them and gives them the colours of the page's theme."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from console.metrics.queries import Curve
from console.web import zone

Series = tuple[str, Sequence[float | None]]
"""A line's colour and its values."""

BLUE, AMBER, VIOLET, GREEN = "#066fd1", "#f59f00", "#ae3ec9", "#2fb344"
#: Points up to which each has a mark.
_MARKED = 120
_UNITS = {"count": "messages per {minutes} min", "tps": "messages/s"}


@dataclass(frozen=True, slots=True)
class TitledFigure:
    """A figure under the title and the id that it has on the page."""

    key: str
    title: str
    label: str
    figure: dict[str, Any]


def unit(curve: Curve) -> str:
    """What the numbers of a curve are."""
    return _UNITS[curve.measure].format(minutes=curve.period_minutes)


def line(curve: Curve, name: str, *, color: str = BLUE) -> dict[str, Any]:
    """A line over time. A gap stays a gap; the period that still runs is a hollow mark."""
    text = unit(curve)
    times = [moment(p.start_ms) for p in curve.points]
    whole = [p.value if p.complete else None for p in curve.points]
    figure = go.Figure()
    figure.add_scatter(
        x=times,
        y=whole,
        name=name,
        mode="lines+markers" if len(times) <= 200 else "lines",
        connectgaps=False,
        line={"width": 2, "color": color},
        marker={"size": 4, "color": color},
        fill="tozeroy",
        fillcolor=_faint(color),
        hovertemplate="%{x|%d %b %H:%M}<br><b>%{y:,.6~g}</b> " + text + "<extra></extra>",
    )
    running = [p for p in curve.points if not p.complete and p.value is not None]
    if running:
        figure.add_scatter(
            x=[moment(p.start_ms) for p in running],
            y=[p.value for p in running],
            name="so far",
            mode="markers",
            marker={"size": 8, "symbol": "circle-open", "color": color, "line": {"width": 2}},
            hovertemplate="%{x|%H:%M}, still running<br><b>%{y:,.6~g}</b> " + text + "<extra></extra>",
        )
    figure.update_layout(
        template=None,
        margin={"l": 56, "r": 16, "t": 16, "b": 52},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        showlegend=False,
        hovermode="closest",
        xaxis={"title": {"text": zone.current_name()}, "type": "date", "range": _span(curve), "showgrid": False},
        yaxis={"title": {"text": text}, "rangemode": "tozero", "zeroline": False},
    )
    figure_dict: dict[str, Any] = figure.to_dict()
    return figure_dict


def lines(at: Sequence[int], series: Mapping[str, Series], unit: str, seconds: int) -> dict[str, Any]:
    """Lines over the last so many seconds, by their names; `at` are the moments of the values, epoch s."""
    times = [moment(one * 1000) for one in at]
    end_ms = int(time.time() * 1000)
    whole = [moment(end_ms - seconds * 1000), moment(end_ms)]
    figure = go.Figure()
    for name, (color, values) in series.items():
        figure.add_scatter(
            x=times,
            y=list(values),
            name=name,
            # A line needs two points; of a few, each is worth a mark.
            mode="lines+markers" if len(times) <= _MARKED else "lines",
            marker={"size": 4, "color": color},
            connectgaps=False,
            line={"width": 2, "color": color},
            hovertemplate="%{x|%d %b %H:%M:%S}<br><b>%{y:,.6~g}</b> " + f"{unit}, {name}<extra></extra>",
        )
    figure.update_layout(
        template=None,
        margin={"l": 56, "r": 16, "t": 32, "b": 52},
        showlegend=True,
        legend={"orientation": "h", "x": 0, "y": 1.14},
        hovermode="closest",
        xaxis={"title": {"text": zone.current_name()}, "type": "date", "range": whole, "nticks": 6, "showgrid": False},
        yaxis={"title": {"text": unit}, "rangemode": "tozero", "zeroline": False},
    )
    found: dict[str, Any] = figure.to_dict()
    return found


def moment(epoch_ms: int) -> str:
    """A time as plotly and people read it, in the viewer's zone."""
    return f"{zone.local(epoch_ms):%Y-%m-%d %H:%M:%S}"


def _span(curve: Curve) -> list[str]:
    """The whole range, also where there are no samples."""
    if not curve.points:
        return []
    return [moment(curve.points[0].start_ms), moment(curve.points[-1].start_ms + curve.period_minutes * 60_000)]


def _faint(color: str) -> str:
    red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.12)"
