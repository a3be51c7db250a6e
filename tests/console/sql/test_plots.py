"""What a plot shows: at most 1,000 points of a result."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse

from analytics import lake
from console.sql import plots, services
from console.sql.models import QueryTask, TaskStatus
from console.sql.plots import Choice
from console.statements import read
from tests.support.sql_cast import Cast

pytestmark = pytest.mark.django_db


@pytest.fixture
def task(cast: Cast, handed_over: list[str]) -> QueryTask:
    return services.submit(cast.alice, read("select 1"), "demo")


def filled(task: QueryTask, types: dict[str, str], rows: list[str]) -> QueryTask:
    """The task with a result of these lines."""
    location = f"oss://plots/{task.pk}/result.csv"
    file = Path(lake.lake_path(location))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join([",".join(types), *rows]) + "\n")
    task.result_columns = [{"name": name, "type": kind} for name, kind in types.items()]
    task.status, task.result_file, task.row_count = TaskStatus.SUCCESS, location, len(rows)
    task.save()
    return task


def drawn(task: QueryTask, choice: Choice | None = None) -> plots.Plot:
    columns = plots.columns_of(task)
    return plots.draw(task, columns, choice or plots.first_choice(columns))


def test_texts_are_bars_in_the_order_of_the_rows(task: QueryTask) -> None:
    filled(task, {"carrier": "string", "n": "bigint"}, ["UA,3", "B6,2", "AA,"])
    plot = drawn(task)
    assert plot.table == [("UA", [3.0]), ("B6", [2.0]), ("AA", [None])]
    assert (plot.figure["data"][0]["type"], plot.names, plot.cut) == ("bar", ["n"], False)


def test_several_rows_of_one_x_become_one_point(task: QueryTask) -> None:
    filled(task, {"day": "date", "n": "int", "m": "int"}, ["2026-03-02,5,1", "2026-03-01,1,1", "2026-03-02,7,x"])
    plot = drawn(task, Choice(0, (1, 2), "line", "mean"))
    assert plot.table == [("2026-03-01", [1.0, 1.0]), ("2026-03-02", [6.0, 1.0])]
    assert drawn(task, Choice(0, (1,), "line", "count")).table[1] == ("2026-03-02", [2.0])
    assert drawn(task, Choice(0, (1,), "line", "max")).names == ["highest of n"]


def test_more_than_a_thousand_points_are_put_together(task: QueryTask) -> None:
    filled(task, {"x": "int", "y": "double"}, [f"{x},{x}" for x in range(50_000)])
    plot = drawn(task, Choice(0, (1,), "line", "sum"))
    assert (len(plot.table), plot.binned, plot.rows) == (1000, True, 50_000)
    assert sum(value or 0 for _, [value] in plot.table) == sum(range(50_000))


def test_more_rows_than_are_looked_at_are_told(task: QueryTask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plots, "MOST_ROWS", 10)
    filled(task, {"x": "int", "y": "int"}, [f"{x},1" for x in range(11)])
    plot = drawn(task)
    assert (plot.rows, plot.cut) == (10, True)


def test_the_page_draws_and_has_the_numbers_as_a_table(task: QueryTask, cast: Cast) -> None:
    filled(task, {"carrier": "string", "n": "bigint", "m": "int"}, ["UA,3,1", "B6,2,2"])
    client = Client()
    client.force_login(cast.alice.person)
    url = reverse("sql.plot", args=[task.pk])
    page = client.get(url).text
    assert "<html" in page and f'id="plot-{task.pk}"' in page and "2 points of" in page
    part = client.get(url, {"kind": "line", "x": "0", "y": ["1", "2"], "method": "sum"}, headers={"HX-Request": "true"})
    assert '<th scope="col" class="num-cell">m</th>' in part.text
    mistakes: tuple[dict[str, str | list[str]], ...] = ({"x": "9"}, {"y": "0"}, {"kind": "pie"}, {"y": []})
    for wrong in mistakes:
        given = {"kind": "line", "x": "0", "y": ["1"], "method": "sum"} | wrong
        assert client.get(url, given, headers={"HX-Request": "true"}).status_code == 422
