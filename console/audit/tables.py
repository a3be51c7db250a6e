"""The audit trail as a table."""

from __future__ import annotations

import django_tables2 as tables


class EntryTable(tables.Table):  # type: ignore[misc]
    """Who did what on which resource, with what result."""

    at = tables.TemplateColumn("{% load gantry %}{% time record.at %}", verbose_name="When")
    actor = tables.TemplateColumn(template_name="audit/_actor_cell.html", verbose_name="Who")
    action = tables.TemplateColumn(template_name="audit/_action_cell.html", verbose_name="What")
    resource = tables.TemplateColumn(template_name="audit/_resource_cell.html", verbose_name="Resource")
    result = tables.TemplateColumn(template_name="audit/_result_cell.html", verbose_name="Result")
    detail = tables.TemplateColumn(template_name="audit/_detail_cell.html", verbose_name="Details", orderable=False)

    class Meta:
        order_by = "-at"
