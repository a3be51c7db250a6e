"""The trail as a file: exactly the filtered rows, streamed, at most LARGEST of them."""

from __future__ import annotations

import csv
import json
from collections.abc import AsyncIterator, Iterator
from itertools import islice
from typing import Any

from asgiref.sync import sync_to_async
from django.db.models import QuerySet

from console.audit.models import Entry

LARGEST = 100_000
"""Rows of one file; more are had by ranges of time."""
COLUMNS = (
    "at", "account", "who", "access_key", "channel", "address", "action", "resource", "result", "request_id", "detail",
)  # fmt: skip
_CHUNK = 1_000
# What a spreadsheet takes for the beginning of a formula (OWASP, CSV injection).
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


class _Line:
    """csv writes into anything with `write`; this one hands the line back."""

    def write(self, line: str) -> str:
        return line


def as_csv(entries: QuerySet[Entry]) -> Iterator[str]:
    """Lines of CSV with a head; a cell that a spreadsheet would run as a formula begins with an apostrophe."""
    writer = csv.writer(_Line())
    yield writer.writerow(COLUMNS)
    for row in _rows(entries):
        detail = json.dumps(row["detail"], ensure_ascii=False, sort_keys=True) if row["detail"] else ""
        yield writer.writerow([_harmless(str(value)) for value in (row | {"detail": detail}).values()])


def as_json(entries: QuerySet[Entry]) -> Iterator[str]:
    """One JSON array, an object a line."""
    separator = "[\n"
    for row in _rows(entries):
        yield separator + json.dumps(row, ensure_ascii=False)
        separator = ",\n"
    yield "[]\n" if separator == "[\n" else "\n]\n"


async def asynchronous(lines: Iterator[str]) -> AsyncIterator[str]:
    """The same for an ASGI server, which would otherwise collect a plain iterator as a whole before it sends."""
    while chunk := await sync_to_async(lambda: "".join(islice(lines, _CHUNK)))():
        yield chunk


def _rows(entries: QuerySet[Entry]) -> Iterator[dict[str, Any]]:
    for entry in entries[:LARGEST].iterator(chunk_size=_CHUNK):
        values = (
            entry.at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            entry.tenant_uid,
            entry.actor,
            entry.access_key_id,
            entry.channel,
            entry.source_ip,
            entry.action,
            entry.resource,
            entry.result,
            entry.request_id,
            entry.detail,
        )
        yield dict(zip(COLUMNS, values, strict=True))


def _harmless(cell: str) -> str:
    return f"'{cell}" if cell.startswith(_FORMULA) else cell
