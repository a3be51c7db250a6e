"""Plotly figures as plain dicts; charts.js draws them and gives them the colours of the page's theme."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import plotly.graph_objects as go
from django.utils.html import escape
from django.utils.translation import gettext as _

from console.metrics.flow import Flow, Kind, Values
from console.metrics.marks import Mark
from console.web import zone
from console.web.languages import gettext_lazy

Series = tuple[str, Sequence[float | None]]
"""A line's colour and its values."""

BLUE, AMBER, VIOLET, GREEN = "#066fd1", "#f59f00", "#ae3ec9", "#2fb344"
#: Points up to which each has a mark.
_MARKED = 120

#: How each line of a flow is called and drawn: the colours are properties of base.css, which charts.js looks up.
_LOOKS: Mapping[Kind, tuple[str, str]] = {
    "in": (gettext_lazy("in"), "--spark-blue"),
    "out": (gettext_lazy("out"), "--spark-green"),
    "backlog": (gettext_lazy("backlog"), "--spark-red"),
    "died": (gettext_lazy("dead letters"), "--spark-yellow"),
}
_UNITS = {"count": gettext_lazy("messages per {minutes} min"), "tps": gettext_lazy("messages/s")}
#: What parts of the height the panels have, from the top: rates, backlog, dead letters.
_DOMAINS: Mapping[int, list[list[float]]] = {
    1: [[0, 1]],
    2: [[0.42, 1], [0, 0.34]],
    3: [[0.5, 1], [0.2, 0.43], [0, 0.12]],
}


@dataclass(frozen=True, slots=True)
class TitledFigure:
    """A figure under the title and the id that it has on the page."""

    key: str
    title: str
    label: str
    figure: dict[str, Any]


def unit(flow: Flow) -> str:
    """What the numbers of in and out are."""
    return _UNITS[flow.measure].format(minutes=flow.minutes)


@dataclass(frozen=True, slots=True)
class Key:
    """A line in the legend: its highest value, and the sum of what is counted and not a rate. None where unknown."""

    kind: Kind
    name: str
    is_earlier: bool
    highest: float | None
    total: float | None


@dataclass(frozen=True, slots=True)
class Row:
    """A period with the value of each line in words, in the order of the legend; empty where it is not known."""

    start_ms: int
    values: list[str]
    is_running: bool
    is_gap: bool


def legend(shown: Flow) -> list[Key]:
    """The lines that there are, those of an earlier range last."""
    keys = [_key(shown, kind, str(_LOOKS[kind][0]), values) for kind, values in shown.lines.items()]
    earlier = [
        _key(shown, kind, f"{_LOOKS[kind][0]}, {shown.compared}", values) for kind, values in shown.earlier.items()
    ]
    return keys + [replace(key, is_earlier=True) for key in earlier]


def _key(shown: Flow, kind: Kind, name: str, values: Values) -> Key:
    known = [value for value in values if value is not None]
    is_summed = known and (kind == "died" or (shown.measure == "count" and kind != "backlog"))
    return Key(kind, name, False, max(known, default=None), sum(known) if is_summed else None)


def rows(shown: Flow, most: int) -> list[Row]:
    """The numbers of the latest periods of the picture, newest first, as many as `most`.

    A gap is where neither in nor out is known, nor was before.
    """
    every = [*shown.lines.values(), *shown.earlier.values()]
    gaps = shown.gaps
    return [
        Row(shown.starts[n], [_exact(values[n]) for values in every], shown.is_running(shown.starts[n]), gaps[n])
        for n in reversed(range(max(0, len(gaps) - most), len(gaps)))
    ]


def _exact(value: float | None) -> str:
    return "" if value is None else f"{value:,.3f}".rstrip("0").rstrip(".")


def flow(shown: Flow, done: Sequence[Mark] = ()) -> dict[str, Any]:
    """In and out over each other, the backlog and the dead letters beneath, on one axis of time; and what was `done`.

    A gap stays a gap; the period that still runs is a hollow mark. What waited when a period ended stands at its end.
    """
    panels = _panels(shown)
    *times, end = [moment(at) for at in (*shown.starts, shown.end_ms)]
    ends = [*times[1:], end]
    traces = []
    for kind in shown.lines:
        if kind in panels:
            traces += _line(shown, kind, panels[kind], ends if kind == "backlog" else times)
    traces += [_earlier(shown, kind, times) for kind in shown.earlier]
    layout: dict[str, Any] = {
        "margin": {"l": 56, "r": 16, "t": 16, "b": 52},
        "showlegend": False,
        "hovermode": "x unified",
        "hoversubplots": "axis",
        "xaxis": {
            "title": {"text": zone.current_name()},
            "type": "date",
            "range": [times[0], end],
            "showgrid": False,
            "hoverformat": "%d %b %H:%M",
            "nticks": 6,
            "anchor": list(panels.values())[-1],
        },
    }
    beside = {"backlog": _("backlog"), "died": _("dead")}
    names = {"y": unit(shown)} | {panels[kind]: name for kind, name in beside.items() if kind in panels}
    for (axis, name), domain in zip(names.items(), _DOMAINS[len(names)], strict=True):
        layout[axis.replace("y", "yaxis")] = {
            "title": {"text": name, "standoff": 4},
            "rangemode": "tozero",
            "zeroline": False,
            "fixedrange": True,
            "domain": domain,
            "nticks": 5 if axis == "y" else 3,
            "anchor": "x",
        }
    if done:
        layout["yaxis9"] = {"overlaying": "y", "range": [0, 1], "visible": False, "fixedrange": True}
        layout["shapes"] = [_dashed(moment(mark.at_ms)) for mark in done]
        traces.append(_marks(done))
    return {"data": traces, "layout": layout}


def _dashed(at: str) -> dict[str, Any]:
    """A line down through all panels."""
    look = {"width": 1, "dash": "2px,3px", "color": "--gantry-chart-text"}
    return {"type": "line", "x0": at, "x1": at, "yref": "paper", "y0": 0, "y1": 1, "line": look}


def _marks(done: Sequence[Mark]) -> dict[str, Any]:
    """A point at the head of each such line, which tells what it is."""
    return {
        "type": "scatter",
        "x": [moment(mark.at_ms) for mark in done],
        "y": [1 for _unused in done],
        "yaxis": "y9",
        "name": "done",
        "showlegend": False,
        "mode": "markers",
        "cliponaxis": False,
        "marker": {"size": 9, "symbol": "triangle-down", "color": "--gantry-chart-text"},
        # Plotly reads tags in texts.
        "text": [escape(mark.text) for mark in done],
        "hovertemplate": "%{text}<extra></extra>",
    }


def _earlier(shown: Flow, kind: Kind, times: Sequence[str]) -> dict[str, Any]:
    """In or out of the range that this one is compared with, under the times of this one."""
    name, color = _LOOKS[kind]
    return {
        "type": "scatter",
        "x": times,
        "y": shown.earlier[kind],
        "yaxis": "y",
        "name": f"{name}, {shown.compared}",
        "mode": "lines",
        "connectgaps": False,
        "line": {"width": 1, "dash": "4px,3px", "color": color},
        "hovertemplate": "%{y:,.6~g} " + unit(shown),
    }


def _panels(shown: Flow) -> dict[Kind, str]:
    """On which axis each line stands, those of the top panel first."""
    panels: dict[Kind, str] = {"in": "y", "out": "y"}
    if "backlog" in shown.lines:
        panels["backlog"] = "y2"
    if any(shown.lines.get("died", ())):
        panels["died"] = f"y{len(set(panels.values())) + 1}"
    return panels


def _line(shown: Flow, kind: Kind, axis: str, times: Sequence[str]) -> list[dict[str, Any]]:
    values, text = shown.lines[kind], unit(shown) if kind in ("in", "out") else _("messages")
    name, color = _LOOKS[kind]
    running = [shown.is_running(start) for start in shown.starts]
    trace = {
        "type": "scatter",
        "x": times,
        "y": [None if runs else value for value, runs in zip(values, running, strict=True)],
        "yaxis": axis,
        "name": str(name),
        "mode": "lines+markers" if len(times) <= _MARKED else "lines",
        "connectgaps": False,
        "line": {"width": 2, "color": color},
        "marker": {"size": 4, "color": color},
        "hovertemplate": "%{y:,.6~g} " + text,
    }
    if kind == "backlog":  # which has no gap in it: plotly would fill one
        trace |= {"fill": "tozeroy", "fillcolor": f"{color}/1f"}
    if kind == "died":
        trace = {key: trace[key] for key in ("x", "y", "yaxis", "name", "marker", "hovertemplate")} | {"type": "bar"}
    so_far = [(at, value) for at, value, runs in zip(times, values, running, strict=True) if runs and value is not None]
    if not so_far:
        return [trace]
    mark = {
        "type": "scatter",
        "x": [at for at, _unused in so_far],
        "y": [value for _unused, value in so_far],
        "yaxis": axis,
        "name": _("%(name)s, so far") % {"name": name},
        "showlegend": False,
        "mode": "markers",
        "cliponaxis": False,
        "marker": {"size": 8, "symbol": "circle-open", "color": color, "line": {"width": 2}},
        "hovertemplate": "%{y:,.6~g} " + text,
    }
    return [trace, mark]


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


def moment(epoch_ms: float) -> str:
    """A time as plotly and people read it, in the viewer's zone."""
    return zone.local(epoch_ms).replace(tzinfo=None).isoformat(" ", "seconds")
