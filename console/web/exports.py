"""Rows as files: streamed, and harmless in a spreadsheet."""

from __future__ import annotations

import csv
from collections.abc import AsyncIterator, Iterable, Iterator
from datetime import datetime
from itertools import islice

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, StreamingHttpResponse

_CHUNK = 1_000
# What a spreadsheet takes for the beginning of a formula (OWASP, CSV injection); one that is set to Chinese or Japanese
# takes the wide forms for it too.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


class _Line:
    """csv writes into anything with `write`; this one hands the line back."""

    def write(self, line: str) -> str:
        return line


def as_csv(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> Iterator[str]:
    """Lines of CSV with a head; a text that a spreadsheet would run as a formula begins with an apostrophe."""
    writer = csv.writer(_Line())
    yield writer.writerow(columns)
    for row in rows:
        yield writer.writerow([value if isinstance(value, int | float) else _harmless(str(value)) for value in row])


def moment(at: datetime) -> str:
    """A time in UTC as files have it, to the millisecond: `2026-11-27T13:05:00.250Z`."""
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def figure(value: float | None) -> int | float | str:
    """A number as files have it: as it is, and nothing where it is not known; 0 is a number."""
    return "" if value is None else value


def download(request: HttpRequest, lines: Iterator[str], content_type: str, name: str) -> StreamingHttpResponse:
    """An answer that sends `lines`, made one after the other, as a file of this name."""
    # An ASGI server would otherwise collect a plain iterator as a whole before it sends.
    sent = _asynchronous(lines) if isinstance(request, ASGIRequest) else lines
    response = StreamingHttpResponse(sent, content_type=content_type)
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


async def _asynchronous(lines: Iterator[str]) -> AsyncIterator[str]:
    while chunk := await sync_to_async(lambda: "".join(islice(lines, _CHUNK)))():
        yield chunk


def _harmless(cell: str) -> str:
    return f"'{cell}" if cell.startswith(_FORMULA) else cell
