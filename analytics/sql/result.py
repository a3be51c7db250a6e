"""Writes result.csv: UTF-8, comma, RFC 4180 quoting, a header line, one file (docs/operate/lake.md).

A small result takes one job and is written here; any other is written by Spark's tasks in parts which the lake joins,
so that it never sits in the driver's memory. Both ways give the same bytes (`csv_text`).
"""

import contextlib
import io
import re
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analytics import lake
from analytics.errors import AnalyticsError, QueryFailed
from analytics.lake import allowed_paths
from analytics.lake.locations import DRAFT
from analytics.specs import Column, Room
from analytics.sql import csv_text, failures
from analytics.sql.backend import Backend
from analytics.sql.running import Statement

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

#: Up to this many rows a result is gathered in the driver.
SMALL_ROWS = 10_000
#: A result file larger than this ends the statement: a cross join writes a gigabyte in a quarter of a minute.
MAX_BYTES = 8 * 1024**3
#: The condition of a statement that wrote more than its account may store.
NO_ROOM = "STORAGE_LIMIT"
#: Statements that read more than this are not tried with a LIMIT first: when the result is large they would run twice.
SMALL_INPUT_BYTES = 64 * 1024**2
_TOO_LARGE_TO_GATHER = "maxResultSize"
_PART = re.compile(r".*/part-(\d+)[^/]*")
#: Looking how large the parts are may take this much of the time: in object storage it is many requests.
_SHARE_OF_LOOKING = 0.05


@dataclass(frozen=True, slots=True)
class Written:
    """A finished result. `rows` is None when only Spark's counters know; `tag` marks the jobs that made it."""

    rows: int | None
    tag: str
    columns: list[Column]
    #: Bytes of result.csv.
    size: int = 0
    #: Bytes of the files that were put into a table.
    stored: int = 0


@dataclass(frozen=True, slots=True)
class Limits:
    """The most rows and bytes of a result that is gathered for a client who waits for it; None for no such limit."""

    rows: int | None = None
    bytes: int | None = None
    #: How much the account may still store.
    room: Room | None = None


def write(backend: Backend, frame: "DataFrame", location: str, statement: Statement, limits: Limits) -> Written:
    """Run the statement and leave its result at `location`, whole or not at all.

    Raises QueryFailed beyond a limit, LakeError when the file cannot be written.
    """
    columns = [Column(field.name, field.dataType.simpleString()) for field in frame.schema.fields]
    head = csv_text.header(columns)
    table = _gathered(backend, frame, statement, limits) if columns else None
    statement.check()
    if table is not None:
        content = _content(head, table, limits)
        _require(content.getbuffer().nbytes, limits)
        size = lake.write_file(location, content)
        return Written(table.num_rows, f"{statement.tag}-small", columns, size)
    with backend.tagged(f"{statement.tag}-large"), _parts(location) as parts:
        statement.limit = _size_limit(parts, limits)
        lake.make_ready(parts)
        lines = csv_text.as_lines(frame, backend.interrupted(frame))
        with allowed_paths.reaching(frame.sparkSession, parts) as url:
            lines.write.text(url)
        statement.limit = lambda: None
        found = sorted(lake.files(parts), key=_number)
        _require(len(head) + sum(part.size for part in found), limits)
        size = lake.join_files(location, head, found, statement.check)
    return Written(None, f"{statement.tag}-large", columns, size)


def _gathered(backend: Backend, frame: "DataFrame", statement: Statement, limits: Limits) -> "pa.Table | None":
    """The whole result when it is small, else None."""
    known = backend.most_rows(frame)
    is_small = known is not None and known <= SMALL_ROWS
    if not is_small and limits.rows is None and backend.input_bytes(frame) > SMALL_INPUT_BYTES:
        return None
    most = SMALL_ROWS if limits.rows is None else limits.rows
    texts = csv_text.as_texts(frame)
    try:
        with backend.tagged(f"{statement.tag}-small"):
            table = (texts if is_small else texts.limit(most + 1)).toArrow()
    except Exception as error:
        if _TOO_LARGE_TO_GATHER not in failures.text_of(error):
            raise
        if limits.rows is None:
            return None
        raise _too_large(limits.bytes) from error
    if limits.rows is not None and table.num_rows > limits.rows:
        raise QueryFailed(
            f"The result has more than {limits.rows:,} rows, which is the limit here; add a LIMIT or run "
            "it asynchronously."
        )
    return table if is_small or table.num_rows <= most else None


def _content(head: bytes, table: "pa.Table", limits: Limits) -> io.BytesIO:
    content = io.BytesIO()
    content.write(head)
    for lines in csv_text.rows(table):
        content.write(lines)
        if failure := _too_large_at_all(content.tell(), limits.bytes):
            raise failure
    content.seek(0)
    return content


def _require(size: int, limits: Limits) -> None:
    if failure := _beyond(size, limits, is_all=True):
        raise failure


def _beyond(size: int, limits: Limits, *, is_all: bool = False) -> QueryFailed | None:
    """The failure of a result of that many bytes, also for what its account has stored."""
    if failure := _too_large_at_all(size, limits.bytes):
        return failure
    reason = limits.room(size, is_all) if limits.room is not None else ""
    return QueryFailed(reason, NO_ROOM) if reason else None


def _too_large_at_all(size: int, most: int | None) -> QueryFailed | None:
    """The failure of a result of that many bytes, if it is one; `most` is for clients who wait."""
    if most is not None and size > most:
        return _too_large(most)
    if size > MAX_BYTES:
        return QueryFailed(f"The result is larger than {MAX_BYTES / 1024**3:g} GiB, which is the limit; select less.")
    return None


def _too_large(most: int | None) -> QueryFailed:
    size = f"than {most / 1024**2:.3g} MiB, which is the limit here" if most is not None else "than is allowed here"
    return QueryFailed(f"The result is larger {size}; add a LIMIT or run it asynchronously.")


@contextlib.contextmanager
def _parts(location: str) -> Iterator[str]:
    """A folder beside the result for its parts, which is gone when the block ends."""
    folder = f"{location.rpartition('/')[0]}/{DRAFT}{uuid.uuid4().hex}/"
    try:
        yield folder
    finally:
        with contextlib.suppress(AnalyticsError):  # the sweep of drafts finds it; what went wrong before counts
            lake.remove(folder)


def _number(part: lake.LakeFile) -> int:
    """The number of a part, by which they follow each other: part-100000 comes after part-99999."""
    found = _PART.fullmatch(part.location)
    return int(found[1]) if found else -1


def _size_limit(parts: str, limits: Limits) -> Callable[[], AnalyticsError | None]:
    """Looks how large the parts are by now, as far as what went before lets it."""
    next_look = 0.0

    def look() -> AnalyticsError | None:
        nonlocal next_look
        began = time.monotonic()
        if began < next_look:
            return None
        failure = _beyond(lake.size_of(parts), limits)
        ended = time.monotonic()
        next_look = ended + (ended - began) / _SHARE_OF_LOOKING
        return failure

    return look
