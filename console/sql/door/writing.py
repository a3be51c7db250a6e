"""Result sets as packets: in the text protocol, in the binary one, and by cursors; never more than a piece at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mysql_mimic import packets, types
from mysql_mimic.charset import CharacterSet
from mysql_mimic.connection import Connection
from mysql_mimic.results import ResultColumn
from mysql_mimic.types import ColumnDefinition, ColumnType

from console.sql.door import errors
from console.sql.door.errors import DoorError
from console.sql.door.results import PIECE_ROWS, Column, Result, Row
from console.sql.door.stream import BoundedStream

#: Rows of at least this many bytes go through the writer that splits packets (MySQL internals, packets of 16 MiB).
_LARGE = 4 * 1024 * 1024
_UNICODE = (CharacterSet.utf8mb4, CharacterSet.utf8)
_NUMBERS = {
    ColumnType.TINY,
    ColumnType.SHORT,
    ColumnType.LONG,
    ColumnType.LONGLONG,
    ColumnType.DOUBLE,
    ColumnType.NEWDECIMAL,
}
_BINARY = ColumnDefinition.BINARY_FLAG


class ResultWriter(Connection):  # type: ignore[misc]
    """What a connection answers with rows."""

    stream: BoundedStream

    @property
    def results_charset(self) -> CharacterSet:
        """What texts are sent in (`character_set_results`)."""
        charset: CharacterSet = self.server_charset
        return charset

    async def write_done(self, result: Result) -> None:
        """Send OK, for a statement without rows."""
        await self.stream.write(self.ok(affected_rows=result.affected, warnings=self.session.warning_count))

    async def write_text_result(self, result: Result) -> None:
        """Send a result as the text protocol does; its rows are closed in any case."""
        await self._write_result(result, self._text_writer)

    async def write_binary_result(self, result: Result) -> None:
        """Send a result as the binary protocol does; its rows are closed in any case."""
        await self._write_result(result, self._binary_writer)

    async def write_cursor_opened(self, result: Result) -> None:
        """Send the columns of a result whose rows are fetched later."""
        self._write_columns(result.columns)
        await self.stream.write(self.ok_or_eof(flags=types.ServerStatus.SERVER_STATUS_CURSOR_EXISTS))

    async def write_fetched(self, result: Result, most: int) -> bool:
        """Send up to `most` rows of a cursor; returns whether they were the last."""
        write = self._binary_writer(result.columns)
        while most > 0 and not result.rows.ended:
            rows = await result.rows.take(min(most, PIECE_ROWS))
            await write(rows)
            most -= len(rows)
            if most > 0 and not result.rows.ended:
                await self.stream.drain()
        status = types.ServerStatus
        last = result.rows.ended
        flags = status.SERVER_STATUS_LAST_ROW_SENT if last else status.SERVER_STATUS_CURSOR_EXISTS
        await self.stream.write(self.ok_or_eof(flags=flags))
        return last

    async def _write_result(
        self, result: Result, writer: Callable[[Sequence[Column]], Callable[[Sequence[Row]], Any]]
    ) -> None:
        try:
            self._write_columns(result.columns)
            if not self.deprecate_eof():
                self.stream.write_many([self.eof()])
            await self._write_rows(result, writer(result.columns))
        finally:
            await result.rows.close()

    async def _write_rows(self, result: Result, write: Callable[[Sequence[Row]], Any]) -> None:
        while not result.rows.ended:
            await write(await result.rows.take(PIECE_ROWS))
            if not result.rows.ended:
                await self.stream.drain()
        await self.stream.write(self.ok_or_eof(warnings=self.session.warning_count))

    def _write_columns(self, columns: Sequence[Column]) -> None:
        charset = self.results_charset
        definitions = [column_definition(column, charset) for column in columns]
        self.stream.write_many([types.uint_len(len(columns)), *definitions])

    def _text_writer(self, columns: Sequence[Column]) -> Callable[[Sequence[Row]], Any]:
        encoders = [ResultColumn(column.name, ColumnType.VAR_STRING) for column in columns]
        converters = [(number, column.text) for number, column in enumerate(columns) if column.text]
        charset = self.results_charset

        async def write(rows: Sequence[Row]) -> None:
            if converters:
                rows = [_converted(row, converters) for row in rows]
            if charset not in _UNICODE:
                rows = [[_encoded(cell, charset.codec) for cell in row] for row in rows]
            if len(rows) == 1 or sum(map(_size, rows[-1:])) >= _LARGE:
                for row in rows:
                    await self.stream.write(packets.make_text_resultset_row(row, encoders), drain=False)
            else:
                self.stream.write_text_rows(rows, encoders)

        return write

    def _binary_writer(self, columns: Sequence[Column]) -> Callable[[Sequence[Row]], Any]:
        encoders = [ResultColumn(column.name, column.kind) for column in columns]
        converters = [(number, column.value) for number, column in enumerate(columns) if column.value]
        charset = self.results_charset

        async def write(rows: Sequence[Row]) -> None:
            for row in rows:
                cells = _values(row, converters, columns)
                if charset not in _UNICODE:
                    cells = [_encoded(cell, charset.codec) for cell in cells]
                await self.stream.write(packets.make_binary_resultrow(cells, encoders), drain=False)

        return write


def column_definition(column: Column, charset: CharacterSet, table: str = "") -> bytes:
    """ColumnDefinition41 (MySQL internals). Bytes and numbers have the character set `binary`, as in MySQL."""
    name = types.str_len(column.name.encode(charset.codec, "replace"))
    is_bytes = column.kind is ColumnType.BLOB
    is_text = column.kind in (ColumnType.VAR_STRING, ColumnType.JSON)
    flags = ColumnDefinition(0)
    if is_bytes:
        flags |= ColumnDefinition.BLOB_FLAG | _BINARY
    elif column.kind in _NUMBERS:  # not BINARY, with which Connector/J makes bytes of a boolean
        flags |= ColumnDefinition.NUM_FLAG
    elif not is_text:
        flags |= _BINARY
    schema, tables = types.str_len(b""), types.str_len(table.encode(charset.codec, "replace"))
    return b"".join(
        (
            *(types.str_len(b"def"), schema, tables, tables, name, name, types.uint_len(0x0C)),
            types.uint_2(charset if is_text else CharacterSet.binary),
            types.uint_4(column.length),
            types.uint_1(column.kind),
            types.uint_2(flags),
            types.uint_1(column.decimals),
            types.uint_2(0),
        )
    )


def _converted(row: Row, converters: Sequence[tuple[int, Callable[[str], Any]]]) -> Row:
    cells = list(row)
    for number, convert in converters:
        if cells[number] is not None:
            cells[number] = convert(cells[number])
    return cells


def _values(row: Row, converters: Sequence[tuple[int, Callable[[str], Any]]], columns: Sequence[Column]) -> Row:
    """The values of the binary protocol. Raises DoorError for one that MySQL's types cannot hold."""
    try:
        return _converted(row, converters)
    except (ValueError, OverflowError):
        for number, convert in converters:
            try:
                _converted(row, [(number, convert)])
            except (ValueError, OverflowError) as error:
                raise DoorError(
                    errors.OUT_OF_RANGE,
                    f"The value {str(row[number])[:40]!r} of column {columns[number].name!r} is outside of what MySQL's"
                    " protocol can send; cast it to string.",
                ) from error
        raise


def _encoded(cell: Any, codec: str) -> Any:
    return cell.encode(codec, "replace") if isinstance(cell, str) else cell


def _size(row: Row) -> int:
    return sum(len(cell) for cell in row if isinstance(cell, str | bytes))
