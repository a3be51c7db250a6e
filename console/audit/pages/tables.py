"""The audit trail as a table. It is sorted by time alone, which the indexes do."""

from __future__ import annotations

from console.web.languages import gettext_lazy
from console.web.paging import CellColumn, NamedTable


class EntryTable(NamedTable):
    """Who did what on which resource, with what result."""

    at = CellColumn(template_name="audit/_at_cell.html", verbose_name=gettext_lazy("When"), order_by=("at", "id"))
    actor = CellColumn(template_name="audit/_actor_cell.html", verbose_name=gettext_lazy("Who"), orderable=False)
    action = CellColumn(template_name="audit/_action_cell.html", verbose_name=gettext_lazy("What"), orderable=False)
    resource = CellColumn(
        template_name="audit/_resource_cell.html", verbose_name=gettext_lazy("Resource"), orderable=False
    )
    result = CellColumn(template_name="audit/_result_cell.html", verbose_name=gettext_lazy("Result"), orderable=False)

    class Meta:
        order_by = "-at"
