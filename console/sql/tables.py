"""The list of query tasks."""

from __future__ import annotations

import django_tables2 as tables
from django.utils.safestring import SafeString

from console.sql.models import QueryTask
from console.web.columns import CellColumn
from console.web.paging import column
from console.web.templatetags.gantry import duration, number

_NUMBER = column("num-cell")


class TaskTable(tables.Table):  # type: ignore[misc]
    """Statement, state and cost; the latest first."""

    statement = CellColumn(template_name="sql/_statement_cell.html", verbose_name="Statement")
    status = CellColumn(template_name="sql/_status.html", extra_context={"small": True})
    submitter = tables.Column(verbose_name="Submitted by")
    create_time = CellColumn("{% load gantry %}{% ago record.create_time %}", verbose_name="Submitted")
    elapse_time = tables.Column(verbose_name="Run time", attrs=_NUMBER)
    row_count = tables.Column(verbose_name="Rows", attrs=_NUMBER)
    notification = CellColumn(template_name="sql/_receipt.html", verbose_name="Notification", orderable=False)

    class Meta:
        order_by = "-create_time"

    def render_elapse_time(self, record: QueryTask) -> SafeString:
        return duration(record.elapse_time if record.ended else None)

    def render_row_count(self, record: QueryTask) -> SafeString:
        return number(record.row_count if record.result_file and not record.explain else None)
