"""Pages of lists."""

from __future__ import annotations

from typing import Any

from django_tables2 import RequestConfig, Table

from console.web.http import Request

PER_PAGE = 20


def configured(request: Request, table: Table, *, per_page: int = PER_PAGE) -> Table:
    """The table sorted and paged as the query string says (`sort`, `page`); a page that is not there is the last."""
    RequestConfig(request, paginate={"per_page": per_page, "silent": True}).configure(table)
    return table


def search_text(request: Request) -> str:
    """What was typed into a list's search field."""
    return request.GET.get("q", "").strip()[:128]


def column(css: str = "", **extra: Any) -> dict[str, Any]:
    """Attributes of a column: the class of its head and its cells."""
    return {"th": {"class": css} | extra, "td": {"class": css}}
