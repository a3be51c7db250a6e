"""The trail as a file: exactly the filtered rows, streamed, at most LARGEST of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from django.db.models import QuerySet

from console.audit.models import Entry
from console.web import exports

LARGEST = 100_000
"""Rows of one file; more are had by ranges of time."""
COLUMNS = (
    "at", "account", "who", "access_key", "channel", "address", "action", "resource", "result", "request_id", "detail",
)  # fmt: skip
_CHUNK = 1_000


def as_csv(entries: QuerySet[Entry]) -> Iterator[str]:
    """Lines of CSV with a head, harmless in a spreadsheet."""
    rows = (
        (row | {"detail": json.dumps(row["detail"], ensure_ascii=False, sort_keys=True) if row["detail"] else ""})
        for row in _rows(entries)
    )
    return exports.as_csv(COLUMNS, (row.values() for row in rows))


def as_json(entries: QuerySet[Entry]) -> Iterator[str]:
    """One JSON array, an object a line."""
    separator = "[\n"
    for row in _rows(entries):
        yield separator + json.dumps(row, ensure_ascii=False)
        separator = ",\n"
    yield "[]\n" if separator == "[\n" else "\n]\n"


def _rows(entries: QuerySet[Entry]) -> Iterator[dict[str, Any]]:
    for entry in entries[:LARGEST].iterator(chunk_size=_CHUNK):
        values = (
            exports.moment(entry.at),
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
