"""What a query names, and what its rows are as events; without Spark."""

from __future__ import annotations

import json

import pytest

from analytics.errors import QueryRefused
from analytics.inflow.delivery import text_of
from analytics.inflow.sql_rows import Made, Row
from analytics.inflow.task_transforms import tables_of
from analytics.inflow.transform import Event

EVENT: Event = {"specversion": "1.0", "id": "e1", "source": "s", "subject": "shop.orders", "data": {"a": 1}}
OTHER: Event = EVENT | {"id": "e2"}


def row(*, is_event: bool = False, topic: str | None = None, **columns: object) -> Row:
    return Row(json.dumps(columns).encode(), is_event, topic)


def test_columns_are_data_and_those_called_like_attributes_are_these() -> None:
    rows = [row(ID="x", subject=None, amount="1.50", gantrytopic="t", big=2**63)]
    found = Made({text_of(EVENT): rows}, {}).apply([OTHER, EVENT])
    made = {
        "specversion": "1.0",
        "id": "x",
        "source": "s",
        "gantrytopic": "t",
        "data": {"amount": "1.50", "big": 2**63},
    }
    assert (found.events, found.origins, found.failed) == ([made], [1], {})


def test_a_row_with_the_event_is_it_and_may_name_a_topic() -> None:
    rows = [row(is_event=True, id="a"), row(is_event=True, topic="t", id="b")]
    found = Made({text_of(EVENT): rows}, {}).apply([EVENT])
    assert (found.events, found.origins) == ([{"id": "a"}, {"id": "b", "gantrytopic": "t"}], [0, 0])


def test_an_event_of_which_no_event_is_made_fails_alone() -> None:
    rows = [row(is_event=True, id="a"), Row(b"[1", is_event=True)]
    made = Made({text_of(EVENT): rows, text_of(OTHER): [row(x=1)]}, {text_of(EVENT | {"id": "e3"}): "It fails."})
    found = made.apply([EVENT, OTHER, EVENT | {"id": "e3"}])
    assert [one["id"] for one in found.events] == ["e2"]
    assert found.origins == [1]
    assert "What the query made is no JSON" in found.failed[0]
    assert found.failed[2] == "It fails."


@pytest.mark.parametrize(
    ("sql", "tables"),
    [
        ("select * from events", ()),
        ("select c.a from EVENTS e left join shop.c on c.id = e.after:c::int", (("shop", "c"),)),
        ("with c as (select max(a) as a from s.t) select * from events cross join c", (("s", "t"),)),
        ("select l.value from events, lateral variant_explode(after:lines) l", ()),
        ("select id from events where exists (select 1 from s.t) union all select id from events", (("s", "t"),)),
    ],
)
def test_the_tables_of_the_catalog_that_a_query_names(sql: str, tables: tuple[tuple[str, str], ...]) -> None:
    assert tables_of(sql) == tables


@pytest.mark.parametrize(
    ("sql", "sentence"),
    [
        ("delete from events", "One SELECT over the table events is allowed"),
        ("select * from events; select 1", "One SELECT"),
        ("select 1", "has to read the table events"),
        ("select * from changes", "There is no table changes; a table of the catalog is named with its schema"),
        ("select from where", "This is no SELECT at line 1, column 17"),
    ],
)
def test_what_is_no_query_over_events_is_refused(sql: str, sentence: str) -> None:
    with pytest.raises(QueryRefused, match=sentence):
        tables_of(sql)
