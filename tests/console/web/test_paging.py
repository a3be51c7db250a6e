"""Lists in memory."""

from __future__ import annotations

from typing import NamedTuple

import django_tables2 as tables
import pytest

from console.web.paging import LazyRows


class Row(NamedTuple):
    name: str
    number: int | None


class RowTable(tables.Table):  # type: ignore[misc]
    name = tables.Column()
    number = tables.Column()


@pytest.mark.parametrize(
    ("order", "sorted_names"),
    [
        (("name",), "abcd"),
        (("-name",), "dcba"),
        (("number",), "dcba"),
        (("-number",), "badc"),
        (("-number", "name"), "abcd"),
        ((), "bdca"),
    ],
)
def test_rows_are_sorted_by_columns_with_none_first(order: tuple[str, ...], sorted_names: str) -> None:
    kept = ["b2", "d", "c", "a2"]
    rows = LazyRows(kept, row_of, {"name": lambda one: one[0], "number": lambda one: row_of(one).number})
    table = RowTable(rows, order_by=order)
    assert "".join(row.record.name for row in table.rows) == sorted_names


def test_only_the_rows_of_a_page_become_records() -> None:
    made: list[str] = []

    def record(kept: str) -> Row:
        made.append(kept)
        return row_of(kept)

    table = RowTable(LazyRows(["b2", "d", "c", "a2"], record, {"name": lambda one: one[0]}), order_by="-name")
    table.paginate(page=2, per_page=2)
    for _ in range(2):
        assert [row.record for row in table.paginated_rows] == [Row("b", 2), Row("a", 2)]
    assert made == ["b2", "a2"]


def row_of(kept: str) -> Row:
    return Row(kept[0], int(kept[1:]) if kept[1:] else None)
