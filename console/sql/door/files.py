"""Rows of a result file, read piece by piece while the client takes them: the door never holds more than a piece."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from analytics import run as engine
from analytics.errors import LakeError
from console.sql.door import errors
from console.sql.door.errors import DoorError
from console.sql.door.results import Row
from console.sql.door.threads import Threads

#: A piece ends with the row that makes it larger than this, in characters.
PIECE_CHARACTERS = 256 * 1024
#: Result files that may be open at once, over all connections: each holds a file and up to a few MiB.
MAX_OPEN = 200
Cells = Iterator[list[str | None]]


class ResultFiles:
    """The result files that clients are reading."""

    def __init__(self, threads: Threads) -> None:
        self.threads = threads
        self.open = 0

    async def rows(self, location: str, most_rows: int | None) -> FileRows:
        """Open a result. Raises DoorError when it is gone, or too many are open."""
        if self.open >= MAX_OPEN:
            raise DoorError(errors.UNKNOWN, f"{MAX_OPEN} results are being read through this door; try again.")
        self.open += 1
        try:
            _, cells = await self.threads.run(engine.read_result, location)
        except LakeError as error:
            self.open -= 1
            raise DoorError(errors.UNKNOWN, f"The result cannot be read: {error.user_message}") from error
        except BaseException:
            self.open -= 1
            raise
        return FileRows(self, cells, most_rows)


class FileRows:
    """The rows of one open result file, at most `most_rows` of them."""

    def __init__(self, files: ResultFiles, cells: Cells, most_rows: int | None) -> None:
        self._files = files
        self._cells: Cells | None = cells
        self._left = most_rows
        self._reading: asyncio.Future[tuple[list[Row], bool]] | None = None
        self.ended = False

    async def take(self, most: int) -> Sequence[Row]:
        """The next rows. Raises DoorError when the file cannot be read on."""
        if self.ended or self._cells is None:
            return []
        if self._left is not None:
            most = min(most, self._left)
        self._reading = self._files.threads.start(_piece, self._cells, most)
        try:
            rows, self.ended = await asyncio.shield(self._reading)
        except LakeError as error:
            raise DoorError(errors.UNKNOWN, f"The result cannot be read: {error.user_message}") from error
        if self._left is not None:
            self._left -= len(rows)
            self.ended = self.ended or self._left == 0
        return rows

    async def close(self) -> None:
        """Close the file, as soon as no thread reads it any more."""
        cells, self._cells = self._cells, None
        if cells is None:
            return
        self._files.open -= 1
        if self._reading is not None:
            await asyncio.gather(self._reading, return_exceptions=True)
        await self._files.threads.run(_close, cells)


def _piece(cells: Cells, most: int) -> tuple[list[Row], bool]:
    """The next rows, and whether they are the last."""
    rows: list[Row] = []
    characters = 0
    for row in cells:
        rows.append(row)
        characters += sum(len(cell) for cell in row if cell is not None)
        if len(rows) >= most or characters >= PIECE_CHARACTERS:
            return rows, False
    return rows, True


def _close(cells: Cells) -> None:
    if hasattr(cells, "close"):
        cells.close()
