"""The curves of a queue as plotly figures; charts.js draws them in the colours of the page's theme."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from console.metrics.figures import moment
from console.queues.samples import Point
from console.web import zone

Series = tuple[str, Sequence[float | None]]
"""A line's colour and its values."""

#: Points up to which each has a mark.
_MARKED = 120
BLUE, AMBER, VIOLET, GREEN = "#066fd1", "#f59f00", "#ae3ec9", "#2fb344"


def counters(points: Sequence[Point], seconds: int) -> dict[str, Any]:
    """Active, hidden and delayed messages of the last so many seconds."""
    series = {
        "active": (BLUE, [point.active for point in points]),
        "hidden": (AMBER, [point.hidden for point in points]),
        "delayed": (VIOLET, [point.delayed for point in points]),
    }
    return lines([point.at for point in points], series, "messages", seconds)


def rates(points: Sequence[Point], seconds: int) -> dict[str, Any]:
    """Messages sent and received a second, of the last so many seconds."""
    series = {
        "sent": (BLUE, [_rounded(point.sent_rate) for point in points]),
        "received": (GREEN, [_rounded(point.received_rate) for point in points]),
    }
    return lines([point.at for point in points], series, "messages/s", seconds)


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


def _rounded(rate: float | None) -> float | None:
    return None if rate is None else round(rate, 3)
