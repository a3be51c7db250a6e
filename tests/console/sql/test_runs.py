"""A statement of the editor or the API: answered at once, or a task; and the plan of one."""

from __future__ import annotations

import pytest

from console.catalog.describe import Answer
from console.sql import runs
from console.sql.models import QueryTask
from console.statements import read
from console.web.errors import Refused
from tests.support.sql_cast import Cast

pytestmark = pytest.mark.django_db


def test_what_the_console_knows_makes_no_task(cast: Cast) -> None:
    answer = runs.start(cast.alice, "/*+ run_async=true */ show tables", "demo")
    assert isinstance(answer, Answer) and ("flights",) in answer.rows
    assert not QueryTask.objects.exists()


def test_a_query_makes_one(cast: Cast, handed_over: list[str]) -> None:
    task = runs.start(cast.alice, "select ?", "demo", parameters=(1,))
    assert isinstance(task, QueryTask) and task.parameters == [1]


def test_use_says_whether_the_schema_is_there(cast: Cast) -> None:
    assert isinstance(runs.start(cast.alice, "use demo", ""), Answer)
    with pytest.raises(Refused, match="no schema 'secret'"):
        runs.start(cast.alice, "use secret", "")


@pytest.mark.parametrize(("text", "symbol"), [("describe nothing", "TABLE_NOT_FOUND"), ("show tables in x", "SCHEMA")])
def test_what_is_not_there_is_refused_beside_the_statement(cast: Cast, text: str, symbol: str) -> None:
    with pytest.raises(Refused) as refused:
        runs.start(cast.alice, text, "demo")
    assert refused.value.symbol.startswith(symbol) and refused.value.field == "text"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("select 1", "explain formatted select 1"),
        ("-- mine\n/*+ run_async=true */ select 1;", "-- mine\n/*+ run_async=true */ explain formatted select 1;"),
        ("EXPLAIN cost select 1", "EXPLAIN cost select 1"),
        ("select explained from t", "explain formatted select explained from t"),
        ("/* select 1 */ select 1", "/* select 1 */ explain formatted select 1"),
        ("/*!40101 select 1 */ as one", "/*!40101 explain formatted select 1 */ as one"),
        ("-- nothing", "-- nothing"),
    ],
)
def test_the_plan_is_asked_for_behind_the_hint(text: str, expected: str) -> None:
    found = runs.explained(read(text))
    assert found.text == expected
    assert found.form == read(expected).form


def test_a_hint_that_is_never_closed_is_refused_before_a_plan_is_asked_for(cast: Cast) -> None:
    with pytest.raises(Refused) as refused:
        runs.start(cast.alice, "/* never closed", "demo", explain=True)
    assert refused.value.symbol == "HINT_INVALID"


def test_explain_is_a_task_that_runs_nothing(cast: Cast, handed_over: list[str]) -> None:
    task = runs.start(cast.alice, "select 1", "demo", explain=True)
    assert isinstance(task, QueryTask)
    assert (task.explain, task.statement) == ("formatted", "select 1")
