"""Columns of tables."""

from __future__ import annotations

from typing import Any

import django_tables2 as tables
from django.template import Context
from django.template.loader import get_template


class CellColumn(tables.TemplateColumn):  # type: ignore[misc]
    """A template for each cell, in the context of the page, as `{% include %}` does it.

    TemplateColumn makes a new request context for each cell, so that a list of fifty rows ran the context processors
    250 times: half the time of the page.
    """

    def render(self, record: Any, table: Any, value: Any, bound_column: Any, **more: Any) -> Any:
        if self.template_name is None:
            return super().render(record=record, table=table, value=value, bound_column=bound_column, **more)
        context = getattr(table, "context", None) or Context()
        own = self.get_context_data(record=record, table=table, value=value, bound_column=bound_column, **more)
        with context.update(own):
            return get_template(self.template_name).template.render(context)  # type: ignore[attr-defined]
