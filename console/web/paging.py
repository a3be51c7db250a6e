"""Pages of lists."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import django_tables2 as tables
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.template import Context
from django.template.loader import get_template
from django_tables2 import RequestConfig, Table

from console.web.htmx import HtmxRequest

PER_PAGE = 20
MOST_COUNTED = 10_000


def configured(
    request: HtmxRequest, table: Table, *, per_page: int = PER_PAGE, paginator_class: type[Paginator[Any]] = Paginator
) -> Table:
    """The table sorted and paged as the query string says (`sort`, `page`); a page that is not there is the last."""
    options = {"per_page": per_page, "silent": True, "paginator_class": paginator_class}
    RequestConfig(request, paginate=options).configure(table)
    return table


class CappedPaginator(Paginator):  # type: ignore[type-arg]  # not subscriptable at run time
    """Counts to MOST_COUNTED and no further: nobody pages through millions, and counting them all takes seconds.

    What lies behind that is reached by narrower filters.
    """

    @cached_property
    def _counted(self) -> int:
        rows: Any = self.object_list
        if not isinstance(rows, QuerySet):  # the rows of a table
            rows = rows.data.data
        return int(rows.order_by()[: MOST_COUNTED + 1].count())

    @cached_property
    def count(self) -> int:
        return min(self._counted, MOST_COUNTED)

    @property
    def shown_count(self) -> str:
        """`10,000+` for more than are counted."""
        return f"{self.count:,}{'+' if self._counted > MOST_COUNTED else ''}"


def search_text(request: HtmxRequest) -> str:
    """What was typed into a list's search field."""
    return request.GET.get("q", "").strip()[:128]


def column(css: str = "", **extra: Any) -> dict[str, Any]:
    """Attributes of a column: the class of its head and its cells."""
    return {"th": {"class": css} | extra, "td": {"class": css}}


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
