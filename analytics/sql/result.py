"""Writes result.csv: UTF-8, comma, RFC 4180 quoting, a header line, one file (docs/lake.md).

A small result takes one job and is written here; any other is written by Spark's tasks in parts which are joined, so
that it never sits in the driver's memory. Both ways give the same bytes (`csv_text`).
"""

import contextlib
import os
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from analytics.errors import AnalyticsError, QueryFailed
from analytics.specs import Column
from analytics.sql import csv_text, failures
from analytics.sql.backend import Backend
from analytics.sql.running import Statement

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Up to this many rows a result is gathered in the driver.
SMALL_ROWS = 10_000
#: A result file larger than this ends the statement: a cross join writes a gigabyte in a quarter of a minute.
MAX_BYTES = 8 * 1024**3
#: Statements that read more than this are not tried with a LIMIT first: when the result is large they would run twice.
SMALL_INPUT_BYTES = 64 * 1024**2
_TOO_LARGE_TO_GATHER = "maxResultSize"


@dataclass(frozen=True, slots=True)
class Written:
    """A finished result. `rows` is None when only Spark's counters know; `tag` marks the jobs that made it."""

    rows: int | None
    tag: str
    columns: list[Column]


def write(backend: Backend, frame: "DataFrame", path: Path, statement: Statement, max_rows: int | None) -> Written:
    """Run the statement and leave its result at `path`, whole or not at all. Raises QueryFailed beyond a limit."""
    fields = frame.schema.fields
    columns = [Column(field.name, field.dataType.simpleString()) for field in fields]
    path.parent.mkdir(parents=True, exist_ok=True)
    with _draft(path) as draft:
        table = _gathered(backend, frame, statement, max_rows)
        if table is not None:
            with draft.open("wb") as file:
                csv_text.write_header(file, columns)
                csv_text.write_rows(file, table)
            return Written(table.num_rows, f"{statement.tag}-small", columns)
        statement.check()
        with backend.tagged(f"{statement.tag}-large"):
            _write_parts(backend, frame, draft, columns, statement)
        return Written(None, f"{statement.tag}-large", columns)


def _gathered(backend: Backend, frame: "DataFrame", statement: Statement, max_rows: int | None) -> pa.Table | None:
    """The whole result when it is small, else None."""
    known = backend.most_rows(frame)
    is_small = known is not None and known <= SMALL_ROWS
    if not is_small and max_rows is None and backend.input_bytes(frame) > SMALL_INPUT_BYTES:
        return None
    most = SMALL_ROWS if max_rows is None else max_rows
    texts = csv_text.as_texts(frame)
    try:
        with backend.tagged(f"{statement.tag}-small"):
            table = (texts if is_small else texts.limit(most + 1)).toArrow()
    except Exception as error:
        if max_rows is None and _TOO_LARGE_TO_GATHER in failures.text_of(error):
            return None
        raise
    if max_rows is not None and table.num_rows > max_rows:
        raise QueryFailed(
            f"The result has more than {max_rows:,} rows, the most here; add a LIMIT or run it asynchronously."
        )
    return table if is_small or table.num_rows <= most else None


@contextlib.contextmanager
def _draft(path: Path) -> Iterator[Path]:
    """A temporary name beside `path`, renamed when the block ends well, otherwise removed with all made for it."""
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        yield draft
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
        shutil.rmtree(_parts(draft), ignore_errors=True)


def _parts(draft: Path) -> Path:
    return draft.with_name(draft.name + ".parts")


def _write_parts(
    backend: Backend, frame: "DataFrame", draft: Path, columns: list[Column], statement: Statement
) -> None:
    parts = _parts(draft)
    statement.limit = lambda: _size_limit(parts)
    csv_text.as_lines(frame, backend.interrupted(frame)).write.text(str(parts))
    with draft.open("wb") as file:
        csv_text.write_header(file, columns)
        for part in sorted(parts.glob("part-*.txt")):
            statement.check()
            with part.open("rb") as piece:
                shutil.copyfileobj(piece, file, 4 * 1024**2)
            part.unlink()


def _size_limit(parts: Path) -> AnalyticsError | None:
    size = 0
    for folder, _, names in os.walk(parts):
        for name in names:
            with contextlib.suppress(FileNotFoundError):  # Spark moves a part when it is finished
                size += os.stat(os.path.join(folder, name)).st_size
    if size <= MAX_BYTES:
        return None
    return QueryFailed(f"The result is larger than {MAX_BYTES / 1024**3:g} GiB, the most for a result; select less.")
