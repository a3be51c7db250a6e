"""The sink `print`: rows as lines `+I(a, b)` in a file of the pipeline's state, of which the last ones stay."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from analytics.pipelines.topic_sink import csv_lines

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: A file that is longer begins anew; the one before it stays.
_MOST_BYTES = 4 << 20
#: In place of `.log`: who holds the lock on this file writes.
_LOCK = ".lock"


class Lines:
    """What is printed to one file."""

    def __init__(self, file: str, identifier: str) -> None:
        self._file, self._identifier = Path(file), identifier

    def print(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Print all rows, and give none. Raises OSError."""
        for batch in batches:
            self._append("".join(f"{line}\n" for line in self._lines(batch)).encode(errors="replace"))
            yield pa.RecordBatch.from_arrays([pa.array([], pa.int32())], names=["nothing"])

    def _lines(self, batch: pa.RecordBatch) -> Iterator[str]:
        prefix = f"{self._identifier}> " if self._identifier else ""
        flat = [
            column if not pa.types.is_nested(column.type) and not pa.types.is_binary(column.type)
            else pa.array([None if value is None else str(value) for value in column.to_pylist()], pa.string())
            for column in batch.columns
        ]  # fmt: skip
        shown = [pa.array(["null" if text is None else text for text in _texts(column)]) for column in flat]
        for line in csv_lines(pa.RecordBatch.from_arrays(shown, names=[str(n) for n in range(len(shown))]), ", "):
            yield f"{prefix}+I({line})"

    def _append(self, lines: bytes) -> None:
        # Every task of Spark's prints to the same file: what one has found too long, another one may have moved.
        with self._file.with_suffix(_LOCK).open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            with self._file.open("ab") as opened:
                opened.write(lines)
                size = opened.tell()
            if size > _MOST_BYTES:
                os.replace(self._file, self._file.with_suffix(".1"))


def _texts(column: pa.Array) -> list[str | None]:
    lines = csv_lines(pa.RecordBatch.from_arrays([column], names=["value"]), "")
    return [line if valid else None for line, valid in zip(lines, column.is_valid().to_pylist(), strict=True)]


def printed(rows: DataFrame, file: Path, identifier: str) -> DataFrame:
    """The rows, of which none is left: each is printed where it would go by.

    It is a step and no sink of Spark's, whose sinks in Python take no rows that come again with new values.
    """
    lines = Lines(str(file), identifier)
    rows = rows.toDF(*(f"c{number}" for number in range(len(rows.columns))))  # `1.5` is no name for mapInArrow
    return rows.mapInArrow(lines.print, "nothing int")


class Tail:
    """What comes to be printed to one file. How far it was told stands beside it, for the runner that goes on."""

    def __init__(self, file: Path) -> None:
        self._file, self._told = file, file.with_suffix(".told")
        self._read = self._noted()

    def lines(self) -> list[str]:
        """The whole lines since the last call; none while the file moves with the pipeline's state."""
        read = self._read
        try:
            size = self._file.stat().st_size
            found = b""
            if size < read:  # it began anew
                found, _ = self._from(self._file.with_suffix(".1"), read)
                read = 0
            more, read = self._from(self._file, read)
            whole, _, begun = (found + more).rpartition(b"\n")
            self._note(read - len(begun))
        except FileNotFoundError:
            return []
        return whole.decode(errors="replace").split("\n") if whole else []

    def skip(self) -> None:
        """Leave out what is there: whoever kept the state, as a savepoint, has told it."""
        if self._file.exists():
            self._note(self._file.stat().st_size)

    def _noted(self) -> int:
        try:
            return int(self._told.read_text(encoding="ascii") or 0)
        except FileNotFoundError:
            return 0

    def _note(self, read: int) -> None:
        if read != self._read:
            self._told.write_text(str(read), encoding="ascii")
            self._read = read

    @staticmethod
    def _from(file: Path, start: int) -> tuple[bytes, int]:
        with file.open("rb") as opened:
            opened.seek(start)
            found = opened.read(2 * _MOST_BYTES)
        return found, start + len(found)
