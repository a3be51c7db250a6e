"""Figures as plotly will get them."""

from __future__ import annotations

import json

from django.utils import timezone

from console.metrics.figures import line, unit
from console.metrics.queries import Curve, Point

MINUTE = 60_000
START = 1767225600000


def curve(*values: float | None, running: float | None = None) -> Curve:
    points = [Point(START + i * MINUTE, v) for i, v in enumerate(values)]
    if running is not None:
        points.append(Point(START + len(values) * MINUTE, running, complete=False))
    return Curve("inst%flights", 1, "count", points)


def test_a_gap_stays_a_gap() -> None:
    trace = line(curve(1.0, None, 3.0), "Input")["data"][0]
    assert list(trace["y"]) == [1.0, None, 3.0]
    assert trace["connectgaps"] is False
    assert list(trace["x"])[1] == "2026-01-01 00:01:00"


def test_the_period_that_still_runs_is_a_mark_of_its_own() -> None:
    figure = line(curve(1.0, 2.0, running=1.0), "Input")
    assert list(figure["data"][0]["y"]) == [1.0, 2.0, None]
    assert figure["data"][1]["name"] == "so far"
    assert list(figure["data"][1]["y"]) == [1.0]
    assert len(line(curve(1.0), "Input")["data"]) == 1


def test_the_axis_spans_the_whole_range_and_begins_at_zero() -> None:
    layout = line(curve(None, 5.0, None), "Input")["layout"]
    assert list(layout["xaxis"]["range"]) == ["2026-01-01 00:00:00", "2026-01-01 00:03:00"]
    assert layout["yaxis"]["rangemode"] == "tozero"
    assert "template" not in layout or not layout["template"]


def test_its_times_are_in_the_viewers_zone_which_the_axis_names() -> None:
    with timezone.override("Europe/Berlin"):
        figure = line(curve(1.0, 2.0, running=1.0), "Input")
    assert list(figure["data"][0]["x"])[:2] == ["2026-01-01 01:00:00", "2026-01-01 01:01:00"]
    assert list(figure["data"][1]["x"]) == ["2026-01-01 01:02:00"]
    assert list(figure["layout"]["xaxis"]["range"]) == ["2026-01-01 01:00:00", "2026-01-01 01:03:00"]
    assert figure["layout"]["xaxis"]["title"]["text"] == "Europe/Berlin"
    assert line(curve(1.0), "Input")["layout"]["xaxis"]["title"]["text"] == "UTC"


def test_it_says_what_the_numbers_are() -> None:
    assert unit(curve(1.0)) == "messages per 1 min"
    assert unit(Curve("t", 5, "tps", [])) == "messages/s"


def test_a_figure_is_plain_json() -> None:
    text = json.dumps(line(curve(1.0, None), "Input"))
    assert len(text) < 2000
