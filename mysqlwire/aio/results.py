"""Results: columns, and rows that are taken and written a piece at a time, in the text protocol, the binary one, and by
cursors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from mysqlwire.aio.stream import Stream
from mysqlwire.protocol import answers, errors
from mysqlwire.protocol.answers import Change, Column
from mysqlwire.protocol.charsets import CharacterSet
from mysqlwire.protocol.constants import Capability, Status
from mysqlwire.protocol.errors import SqlError

Row = Sequence[Any]
#: Rows that are taken at once.
PIECE_ROWS = 1000


class Rows(Protocol):
    """Rows that somebody holds ready."""

    @property
    def ended(self) -> bool:
        """True once the last row was taken; an empty piece says so too."""

    async def fetch(self, most: int) -> Sequence[Row]:
        """The next rows, at most so many."""

    async def close(self) -> None:
        """Give up what is held; more than once does no harm."""


class ListedRows:
    """Rows that are in memory."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows = list(rows)
        self._position = 0

    @property
    def ended(self) -> bool:
        """True once the last row was taken."""
        return self._position >= len(self._rows)

    async def fetch(self, most: int) -> Sequence[Row]:
        """The next rows."""
        piece = self._rows[self._position : self._position + most]
        self._position += len(piece)
        return piece

    async def close(self) -> None:
        """Forget the rows."""
        self._rows.clear()


@dataclass(frozen=True, slots=True)
class Result:
    """What a statement is answered with; without columns it has done something, to `affected` things."""

    columns: Sequence[Column] = ()
    rows: Rows = field(default_factory=lambda: ListedRows(()))
    affected: int = 0

    def __bool__(self) -> bool:
        return bool(self.columns)


DONE = Result()


class Speaker(Protocol):
    """What of a session goes with its answers."""

    @property
    def results_charset(self) -> CharacterSet:
        """What texts are sent in."""

    @property
    def status(self) -> Status:
        """The state of the server for this client."""

    @property
    def warning_count(self) -> int:
        """Warnings of the last statement."""


class Answers:
    """Writes what one connection answers. Rows are closed whatever happens; errors are those of the stream.

    `capabilities` are those that both sides have; none before sign-in.
    """

    def __init__(self, stream: Stream, session: Speaker) -> None:
        self.capabilities = Capability(0)
        self._stream = stream
        self._session = session

    async def ok(self, changes: Sequence[Change] = ()) -> None:
        """Send OK for a command that is no statement."""
        session = self._session
        await self._stream.send(
            answers.ok(self.capabilities, session.status, charset=session.results_charset, changes=changes)
        )

    async def done(self, affected: int) -> None:
        """Send OK for a statement without rows that has changed so many things."""
        await self._stream.send(
            answers.ok(
                self.capabilities,
                self._session.status,
                charset=self._session.results_charset,
                affected_rows=affected,
                warnings=self._session.warning_count,
            )
        )

    async def error(self, problem: SqlError) -> None:
        """Send an error."""
        await self._stream.send(answers.error(self.capabilities, problem, self._session.results_charset))

    async def eof(self) -> None:
        """Send an EOF, which some commands are answered with whatever the client has dropped."""
        await self._stream.send(answers.eof(self._session.status))

    async def text(self, result: Result) -> None:
        """Send rows in the text protocol, or OK without columns."""
        await self._whole(result, self._text_writer)

    async def binary(self, result: Result) -> None:
        """Send rows in the binary protocol, or OK without columns."""
        await self._whole(result, self._binary_writer)

    async def cursor_opened(self, result: Result) -> None:
        """Send the columns of a result whose rows are fetched later."""
        self._add_columns(result.columns)
        await self._stream.send(self._last(Status.CURSOR_EXISTS))

    async def fetched(self, result: Result, most: int) -> bool:
        """Send up to `most` rows of a cursor; returns whether they were the last."""
        add = self._binary_writer(result.columns)
        while most > 0 and not result.rows.ended:
            rows = await result.rows.fetch(min(most, PIECE_ROWS))
            add(rows)
            most -= len(rows)
            if most > 0 and not result.rows.ended:
                await self._stream.drain()
        ended = result.rows.ended
        await self._stream.send(self._last(Status.LAST_ROW_SENT if ended else Status.CURSOR_EXISTS))
        return ended

    async def prepared(self, statement_id: int, parameters: int) -> None:
        """Send what a statement was prepared as; nothing is known of its columns before it is run."""
        self._stream.add(answers.prepared(statement_id, columns=0, parameters=parameters))
        for _ in range(parameters):
            self._stream.add(answers.parameter())
        if parameters and Capability.DEPRECATE_EOF not in self.capabilities:
            self._stream.add(answers.eof(self._session.status))
        await self._stream.drain()

    async def field_list(self, table: str, columns: Iterable[Column]) -> None:
        """Send the columns of a table, each a packet."""
        for column in columns:
            self._stream.add(answers.listed_column(column, self._session.results_charset, table=table))
        await self._stream.send(self._last())

    async def _whole(
        self, result: Result, writer: Callable[[Sequence[Column]], Callable[[Sequence[Row]], None]]
    ) -> None:
        try:
            if not result:
                await self.done(result.affected)
                return
            self._add_columns(result.columns)
            if Capability.DEPRECATE_EOF not in self.capabilities:
                self._stream.add(answers.eof(self._session.status))
            add = writer(result.columns)
            while not result.rows.ended:
                add(await result.rows.fetch(PIECE_ROWS))
                if not result.rows.ended:
                    await self._stream.drain()
            await self._stream.send(self._last())
        finally:
            await result.rows.close()

    def _add_columns(self, columns: Sequence[Column]) -> None:
        self._stream.add(answers.column_count(self.capabilities, len(columns)))
        for column in columns:
            self._stream.add(answers.column(column, self._session.results_charset))

    def _last(self, flags: Status = Status(0)) -> bytes:  # noqa: B008 a flag is a constant
        return answers.last(
            self.capabilities,
            self._session.status | flags,
            charset=self._session.results_charset,
            warnings=0 if flags else self._session.warning_count,
        )

    def _text_writer(self, columns: Sequence[Column]) -> Callable[[Sequence[Row]], None]:
        converters = [(number, column.text) for number, column in enumerate(columns) if column.text]
        codec = self._session.results_charset.codec

        def add(rows: Sequence[Row]) -> None:
            self._stream.add_rows([_converted(row, converters) for row in rows] if converters else rows, codec)

        return add

    def _binary_writer(self, columns: Sequence[Column]) -> Callable[[Sequence[Row]], None]:
        converters = [(number, column.value) for number, column in enumerate(columns) if column.value]
        codec = self._session.results_charset.codec

        def add(rows: Sequence[Row]) -> None:
            for row in rows:
                try:
                    payload = answers.binary_row(_converted(row, converters), columns, codec)
                except (ValueError, OverflowError) as error:
                    raise _out_of_range(row, columns, codec) from error
                self._stream.add(payload)

        return add


def _converted(row: Row, converters: Sequence[tuple[int, Callable[[str], Any]]]) -> Row:
    if not converters:
        return row
    cells = list(row)
    for number, convert in converters:
        if cells[number] is not None:
            cells[number] = convert(cells[number])
    return cells


def _out_of_range(row: Row, columns: Sequence[Column], codec: str) -> SqlError:
    """The error of a row that the binary protocol cannot send, which names its first such cell."""
    cell, column = next(
        (cell, column) for cell, column in zip(row, columns, strict=True) if not _fits(cell, column, codec)
    )
    return SqlError(
        errors.OUT_OF_RANGE,
        f"The value {str(cell)[:40]!r} of column {column.name!r} is outside of what MySQL's protocol can send; cast it"
        " to string.",
    )


def _fits(cell: Any, column: Column, codec: str) -> bool:
    try:
        if cell is not None:
            answers.binary_value(column.value(cell) if column.value else cell, column.kind, codec)
    except (ValueError, OverflowError):
        return False
    return True
