"""A list as a file: what its filters find, in its order, of what the visitor may see. Who took it away is audited."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from django.db.models import QuerySet
from django.http import StreamingHttpResponse
from django.utils import timezone

from console.accounts.http import Request
from console.audit import record
from console.web import exports
from console.web.paging import ListTable

MOST = 20_000
"""Rows of one file; the last line of one that has no more says so."""
_AT_ONCE = 500
_WANTED = "as"


def is_wanted(request: Request) -> bool:
    """Whether the address of a list asks for its file: `?as=csv` beside what filters and sorts it."""
    return request.GET.get(_WANTED) == "csv"


def csv(request: Request, table: ListTable, action: str, name: str, resource: str = "") -> StreamingHttpResponse:
    """The file of a sorted table, named after `name` and the time; `action` is what the audit trail calls it.

    The view has asked for the right before, as for the list: the file is another answer of the same address.
    """
    query = {key: value for key, value in request.GET.items() if value and key not in (_WANTED, "page")}
    record.record(request.actor, action, resource, detail={"format": "csv", "filters": query})
    lines = exports.as_csv(table.file_columns, _rows(table))
    return exports.download(request, lines, "text/csv; charset=utf-8", f"{name}-{timezone.now():%Y%m%dT%H%M%SZ}.csv")


def _rows(table: ListTable) -> Iterator[tuple[object, ...]]:
    written = 0
    for records in _pieces(table):
        kept = records[: MOST - written]
        if kept:
            table.measure(kept)
        yield from map(table.file_row, kept)
        if len(kept) < len(records):
            yield (f"There are more rows: a file has the first {MOST:,}. Filter the list to get the others.",)
            return
        written += len(kept)


def _pieces(table: ListTable) -> Iterator[list[Any]]:
    """The rows of all pages, some hundreds at a time: one more than the file has, if there are so many."""
    found = table.data.data
    if isinstance(found, QuerySet):
        rows = found[: MOST + 1].iterator(chunk_size=_AT_ONCE)
        while piece := list(islice(rows, _AT_ONCE)):
            yield piece
        return
    for start in range(0, MOST + 1, _AT_ONCE):
        if not (piece := table.data[start : start + _AT_ONCE]):
            return
        yield piece
