"""Rows of a result file, read piece by piece while the client takes them: the door never holds more than a piece."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator, Sequence

from analytics import run as engine
from analytics.errors import LakeError
from console.sql.door import errors
from console.sql.door.errors import DoorError
from console.sql.door.results import Row
from console.sql.door.threads import Threads

#: A piece ends with the row that makes it larger than this, in characters.
PIECE_CHARACTERS = 256 * 1024
#: Result files that may be open at once, over all connections: each holds a file and up to a few MiB. One account has
#: at most half of what the others leave.
MAX_OPEN = 200
#: Characters of a row that is large; and of all large rows that clients of one account have not taken yet. Answers of
#: the console, which are in memory as a whole, count as rows.
LARGE_ROW, MOST_LARGE = 1024 * 1024, 128 * 1024 * 1024
Cells = Iterator[list[str | None]]


class ResultFiles:
    """The result files that clients are reading."""

    def __init__(self, threads: Threads) -> None:
        self.threads = threads
        self._open: Counter[str] = Counter()
        self._large: Counter[str] = Counter()
        self._lock = threading.Lock()

    @property
    def open(self) -> int:
        """How many are open."""
        return self._open.total()

    async def rows(self, location: str, most_rows: int | None, holder: str) -> FileRows:
        """Open a result, for an account. Raises DoorError when it is gone, or too many are open."""
        others = self.open - self._open[holder]
        if self.open >= MAX_OPEN or self._open[holder] >= (MAX_OPEN - others + 1) // 2:
            raise DoorError(errors.UNKNOWN, "Too many results are being read through this door; try again.")
        self._open[holder] += 1
        try:
            _, cells = await self.threads.run_for(holder, engine.read_result, location)
        except LakeError as error:
            self.closed(holder)
            raise DoorError(errors.UNKNOWN, f"The result cannot be read: {error.user_message}") from error
        except BaseException:
            self.closed(holder)
            raise
        return FileRows(self, cells, most_rows, holder)

    def take_room(self, holder: str, size: int) -> None:
        """Count a large row of the holder's, from any thread. Raises DoorError when it has too many."""
        with self._lock:
            if self._large[holder] + size > MOST_LARGE and self._large[holder]:
                raise DoorError(
                    errors.UNKNOWN, "Too many rows of megabytes wait for clients of this account; try again."
                )
            self._large[holder] += size

    def leave_room(self, holder: str, size: int) -> None:
        """So much of the holder's large rows was taken, or given up."""
        with self._lock:
            self._large[holder] -= size
            self._large += Counter()  # forgets who has none

    def closed(self, holder: str) -> None:
        """One of the holder's is open no more."""
        self._open[holder] -= 1
        self._open += Counter()  # forgets who has none


class FileRows:
    """The rows of one open result file, at most `most_rows` of them."""

    def __init__(self, files: ResultFiles, cells: Cells, most_rows: int | None, holder: str) -> None:
        self._files = files
        self._holder = holder
        self._cells: Cells | None = cells
        self._left = most_rows
        self._large = 0
        self._reading: asyncio.Future[tuple[list[Row], bool]] | None = None
        self.ended = False

    async def take(self, most: int) -> Sequence[Row]:
        """The next rows. Raises DoorError when the file cannot be read on."""
        if self.ended or self._cells is None:
            return []
        if self._left is not None:
            most = min(most, self._left)
        self._leave_room()
        piece = self._files.threads.run_for(self._holder, self._piece, self._cells, most)
        self._reading = asyncio.ensure_future(piece)
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
        self._files.closed(self._holder)
        if self._reading is not None:
            await asyncio.gather(self._reading, return_exceptions=True)
        self._leave_room()
        await self._files.threads.run(_close, cells)

    def _piece(self, cells: Cells, most: int) -> tuple[list[Row], bool]:
        """The next rows, and whether they are the last."""
        rows: list[Row] = []
        characters = 0
        for row in cells:
            size = sum(len(cell) for cell in row if cell is not None)
            if size > LARGE_ROW:
                self._files.take_room(self._holder, size)
                self._large += size
            rows.append(row)
            characters += size
            if len(rows) >= most or characters >= PIECE_CHARACTERS:
                return rows, False
        return rows, True

    def _leave_room(self) -> None:
        """What was large has been taken."""
        size, self._large = self._large, 0
        if size:
            self._files.leave_room(self._holder, size)


def _close(cells: Cells) -> None:
    if hasattr(cells, "close"):
        cells.close()
