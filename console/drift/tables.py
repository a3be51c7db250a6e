"""The list of what differs."""

from __future__ import annotations

import django_tables2 as tables

from console.web.columns import CellColumn
from console.web.paging import column


class DriftTable(tables.Table):  # type: ignore[misc]
    """Name, how it drifted, what exactly, and what can be done."""

    physical_name = CellColumn(template_name="drift/_name_cell.html", verbose_name="Name")
    kind = CellColumn("{{ record.kind|capfirst }}", verbose_name="Kind")
    state = CellColumn(template_name="drift/_state_cell.html", verbose_name="Drift")
    details = CellColumn(template_name="drift/_details_cell.html", verbose_name="What differs", orderable=False)
    actions = CellColumn(
        template_name="drift/_action_cell.html", verbose_name="", orderable=False, attrs=column("row-actions")
    )

    class Meta:
        order_by = "physical_name"
