"""The list of groups with their dead letters."""

from __future__ import annotations

from typing import NamedTuple

import django_tables2 as tables

from console.web.languages import gettext_lazy
from console.web.paging import CellColumn, column


class Letters(NamedTuple):
    """A group and its number of dead letters; None while that is not known."""

    group_id: str
    letters: int | None


class LettersTable(tables.Table):  # type: ignore[misc]
    """Group ID and how many letters it has, most first."""

    group_id = CellColumn(template_name="messaging/_letters_group_cell.html", verbose_name=gettext_lazy("Group"))
    letters = CellColumn(
        template_name="messaging/_letters_cell.html",
        verbose_name=gettext_lazy("Dead letters kept"),
        attrs=column("num-cell"),
    )

    class Meta:
        order_by = ("-letters", "group_id")
