"""Figures as plotly will get them."""

from __future__ import annotations

import json
from dataclasses import replace

from django.utils import timezone

from console.metrics.figures import Key, Row, flow, legend, rows, unit
from console.metrics.flow import Flow, Kind, Values

MINUTE = 60_000
START = 1767225600000


def flowed(*came: float | None, running: bool = False, **more: Values) -> Flow:
    lines: dict[Kind, Values] = {"in": list(came), **more}  # type: ignore[dict-item]
    starts = [START + n * MINUTE for n in range(len(came))]
    return Flow(1, "count", starts[-1] + (30_000 if running else MINUTE), starts, lines)


def test_a_gap_stays_a_gap() -> None:
    trace = flow(flowed(1.0, None, 3.0))["data"][0]
    assert trace["y"] == [1.0, None, 3.0]
    assert trace["connectgaps"] is False
    assert trace["x"][1] == "2026-01-01 00:01:00"


def test_the_period_that_still_runs_is_a_mark_of_its_own() -> None:
    line, mark = flow(flowed(1.0, 2.0, 1.0, running=True))["data"]
    assert line["y"] == [1.0, 2.0, None]
    assert (mark["name"], mark["y"]) == ("in, so far", [1.0])
    assert len(flow(flowed(1.0))["data"]) == 1


def test_the_axis_spans_the_whole_range_and_begins_at_zero() -> None:
    layout = flow(flowed(None, 5.0, None))["layout"]
    assert layout["xaxis"]["range"] == ["2026-01-01 00:00:00", "2026-01-01 00:03:00"]
    assert layout["yaxis"]["rangemode"] == "tozero"


def test_its_times_are_in_the_viewers_zone_which_the_axis_names() -> None:
    with timezone.override("Europe/Berlin"):
        figure = flow(flowed(1.0, 2.0, 1.0, running=True))
    assert figure["data"][0]["x"][:2] == ["2026-01-01 01:00:00", "2026-01-01 01:01:00"]
    assert figure["data"][1]["x"] == ["2026-01-01 01:02:00"]
    assert figure["layout"]["xaxis"]["range"] == ["2026-01-01 01:00:00", "2026-01-01 01:03:00"]
    assert figure["layout"]["xaxis"]["title"]["text"] == "Europe/Berlin"
    assert flow(flowed(1.0))["layout"]["xaxis"]["title"]["text"] == "UTC"


def test_the_backlog_has_a_panel_of_its_own_and_letters_one_where_some_died() -> None:
    figure = flow(flowed(1.0, 2.0, out=[1.0, 1.0], died=[0, 0], backlog=[5, 6]))
    assert [(trace["name"], trace["yaxis"]) for trace in figure["data"]] == [
        ("in", "y"),
        ("out", "y"),
        ("backlog", "y2"),
    ]
    assert figure["data"][2]["x"] == ["2026-01-01 00:01:00", "2026-01-01 00:02:00"]  # as the periods end
    died = flow(flowed(1.0, out=[1.0], died=[2], backlog=[5]))
    assert (died["data"][2]["type"], died["data"][2]["yaxis"], died["data"][3]["yaxis"]) == ("bar", "y3", "y2")
    assert {"yaxis", "yaxis2", "yaxis3"} < set(died["layout"])
    assert flow(flowed(1.0, died=[2]))["data"][1]["yaxis"] == "y2"


def test_legend_and_table_have_the_same_lines() -> None:
    shown = flowed(1.0, None, 3.0, out=[2.0, None, 2.0], backlog=[None, None, 7])
    assert legend(shown) == [
        Key("in", "in", False, 3.0, 4.0),
        Key("out", "out", False, 2.0, 4.0),
        Key("backlog", "backlog", False, 7, None),
    ]
    assert rows(shown, 2) == [
        Row(START + 2 * MINUTE, ["3", "2", "7"], is_running=False, is_gap=False),
        Row(START + MINUTE, ["", "", ""], is_running=False, is_gap=True),
    ]


def test_what_it_is_compared_with_is_a_thin_dashed_line_and_a_column() -> None:
    shown = replace(flowed(1.0, 2.0), earlier={"in": [5.0, None]}, compared="the day before")
    line = flow(shown)["data"][1]
    assert (line["name"], line["y"], line["line"]["width"]) == ("in, the day before", [5.0, None], 1)
    assert line["line"]["dash"] and line["x"] == flow(shown)["data"][0]["x"]
    assert legend(shown)[1] == Key("in", "in, the day before", True, 5.0, 5.0)
    assert [row.values for row in rows(shown, 9)] == [["2", ""], ["1", "5"]]


def test_it_says_what_the_numbers_are() -> None:
    assert unit(flowed(1.0)) == "messages per 1 min"
    assert unit(Flow(5, "tps", 0, [], {})) == "messages/s"


def test_a_figure_is_plain_json() -> None:
    text = json.dumps(flow(flowed(1.0, None)))
    assert len(text) < 2000
