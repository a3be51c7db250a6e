"""The picture of a rule's curve, for charts.js: its lines, the threshold across them, and when it fired behind them."""

from __future__ import annotations

from typing import Any

from django.utils.html import escape
from django.utils.translation import gettext as _

from console.alarms.curves import Curve
from console.alarms.models import Rule
from console.metrics.figures import moment
from console.web import zone

#: Properties of base.css; red is the threshold's.
COLOURS = ("blue", "green", "yellow", "secondary", "violet")
_RED = "--spark-red"
#: Points up to which each has a mark.
_MARKED = 120


def figure(rule: Rule, curve: Curve) -> dict[str, Any]:
    """A plotly figure as a plain dict."""
    unit = rule.watched.unit_word or _("messages")
    whole = [moment(curve.begin_ms), moment(curve.end_ms)]
    traces: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "x": [moment(at_ms) for at_ms, _value in line.points],
            "y": [value for _at_ms, value in line.points],
            # Plotly reads tags in names.
            "name": escape(line.name),
            "mode": "lines+markers" if len(line.points) <= _MARKED else "lines",
            "connectgaps": False,
            "line": {"width": 2, "color": f"--spark-{colour}"},
            "marker": {"size": 4, "color": f"--spark-{colour}"},
            "hovertemplate": "%{y:,.6~g} " + unit,
        }
        for line, colour in zip(curve.lines, COLOURS, strict=False)
    ]
    if rule.watched.unit:
        traces.append(
            {
                "type": "scatter",
                "x": whole,
                "y": [rule.threshold, rule.threshold],
                "name": _("threshold"),
                "mode": "lines",
                "line": {"width": 1.5, "dash": "6px,4px", "color": _RED},
                "hovertemplate": "%{y:,.6~g} " + unit,
            }
        )
    fired = [
        {
            "type": "rect", "x0": moment(begin), "x1": moment(end), "yref": "paper", "y0": 0, "y1": 1,
            "layer": "below", "line": {"width": 0}, "fillcolor": f"{_RED}/14",
        }
        for begin, end in curve.fired
    ]  # fmt: skip
    layout = {
        "margin": {"l": 56, "r": 16, "t": 16, "b": 52},
        "showlegend": False,
        "hovermode": "x unified",
        "shapes": fired,
        "xaxis": {
            "title": {"text": zone.current_name()}, "type": "date", "range": whole, "showgrid": False,
            "hoverformat": "%d %b %H:%M", "nticks": 6,
        },
        "yaxis": {
            "title": {"text": unit, "standoff": 4}, "rangemode": "tozero", "zeroline": False, "fixedrange": True,
            "nticks": 5,
        },
    }  # fmt: skip
    return {"data": traces, "layout": layout}
