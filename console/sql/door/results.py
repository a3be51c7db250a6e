"""Result sets: columns as MySQL's protocol describes them, and rows that are taken a piece at a time."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import Any, Protocol

from mysql_mimic.types import ColumnType

from console.sql.catalog import Answer

Row = Sequence[Any]
#: Rows that are taken at once.
PIECE_ROWS = 1000
#: What a cell takes besides its text.
_CELL_BYTES = 64


@dataclass(frozen=True, slots=True)
class Column:
    """A column as clients see it: `length` in bytes, `decimals` as 0x1f where it is not fixed.

    `text` and `value` make what the text and the binary protocol send from a cell of result.csv; None sends the cell.
    """

    name: str
    kind: ColumnType = ColumnType.VAR_STRING
    length: int = 4 * 16_383
    decimals: int = 0
    text: Callable[[str], str | bytes] | None = None
    value: Callable[[str], Any] | None = None


class Rows(Protocol):
    """Rows that somebody holds ready."""

    @property
    def ended(self) -> bool:
        """True once the last row was taken; an empty piece says so too."""

    async def take(self, most: int) -> Sequence[Row]:
        """The next rows, at most so many."""

    async def close(self) -> None:
        """Give up what is held; more than once does no harm."""


class ListedRows:
    """Rows that are in memory: the short answers of the console."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows = list(rows)
        self._position = 0

    @property
    def ended(self) -> bool:
        """True once the last row was taken."""
        return self._position >= len(self._rows)

    async def take(self, most: int) -> Sequence[Row]:
        """The next rows."""
        piece = self._rows[self._position : self._position + most]
        self._position += len(piece)
        return piece

    async def close(self) -> None:
        """Nothing is held."""


class HeldRows(ListedRows):
    """Rows in memory that are so many that somebody counts them, until they are given up."""

    def __init__(self, rows: Iterable[Row], given_up: Callable[[], None]) -> None:
        super().__init__(rows)
        self._given_up: Callable[[], None] | None = given_up

    async def close(self) -> None:
        """Forget the rows."""
        given_up, self._given_up = self._given_up, None
        self._rows.clear()
        if given_up is not None:
            given_up()


def weight(rows: Iterable[Row]) -> int:
    """About the memory that rows take, in bytes."""
    return sum(_CELL_BYTES + (len(cell) if isinstance(cell, str) else 0) for row in rows for cell in row)


@dataclass(frozen=True, slots=True)
class Result:
    """What a statement is answered with; without columns it has done something, to `affected` things."""

    columns: Sequence[Column] = ()
    rows: Rows = field(default_factory=lambda: ListedRows(()))
    affected: int = 0

    def __bool__(self) -> bool:
        return bool(self.columns)


DONE = Result()


def of_answer(answer: Answer) -> Result:
    """An answer of the console: texts and integers, no conversions."""
    kinds = {True: _INTEGER, False: Column("")}
    columns = [
        replace(kinds[name in answer.integers or _are_integers(row[number] for row in answer.rows)], name=name)
        for number, name in enumerate(answer.columns)
    ]
    return Result(columns, ListedRows(answer.rows), answer.affected)


def of_cells(names: Sequence[str], rows: Sequence[Sequence[str | int | None]]) -> Result:
    """Rows of texts and integers; a column is of integers when every value is one."""
    return of_answer(Answer(tuple(names), [tuple(row) for row in rows]))


def _are_integers(cells: Iterable[str | int | None]) -> bool:
    known = [cell for cell in cells if cell is not None]
    return bool(known) and all(isinstance(cell, int) for cell in known)


def column_of(name: str, spark_type: str) -> Column:
    """The column of a result file, by Spark's name of its type."""
    if decimal := _DECIMAL.fullmatch(spark_type):
        precision, scale = int(decimal[1]), int(decimal[2])
        return Column(name, ColumnType.NEWDECIMAL, precision + 2, scale)  # with sign and point
    if spark_type.startswith(("array<", "map<", "struct<")):
        return replace(_NESTED, name=name)
    return replace(_TYPES.get(spark_type, _TEXT), name=name)


def _boolean(cell: str) -> str:
    return _BOOLEANS[cell]


def _boolean_value(cell: str) -> int:
    return int(_BOOLEANS[cell])


def _moment(cell: str) -> datetime:
    return datetime.fromisoformat(cell).replace(tzinfo=None)


_BOOLEANS = {"true": "1", "false": "0"}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_INTEGER = Column("", ColumnType.LONGLONG, 20, value=int)
_TEXT = Column("")
_NESTED = Column("", ColumnType.JSON, 2**32 - 1)
_MOMENT = Column("", ColumnType.DATETIME, 26, 6, value=_moment)
_TYPES = {
    # A TINY of length 1 is what drivers make a boolean of; MySQL's TINY is too narrow for no integer type but Spark's.
    "boolean": Column("", ColumnType.TINY, 1, text=_boolean, value=_boolean_value),
    "tinyint": Column("", ColumnType.SHORT, 4, value=int),
    "smallint": Column("", ColumnType.SHORT, 6, value=int),
    "int": Column("", ColumnType.LONG, 11, value=int),
    "bigint": _INTEGER,
    "float": Column("", ColumnType.DOUBLE, 22, 0x1F, value=float),
    "double": Column("", ColumnType.DOUBLE, 22, 0x1F, value=float),
    "date": Column("", ColumnType.DATE, 10, value=date.fromisoformat),
    "timestamp": _MOMENT,
    "timestamp_ntz": _MOMENT,
    "binary": Column("", ColumnType.BLOB, 2**32 - 1, text=b64decode, value=b64decode),
    "variant": _NESTED,
}
