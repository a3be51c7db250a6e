"""Results: the console's answers, and the columns of result files by Spark's types."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import date, datetime

from console.catalog.describe import Answer
from mysqlwire.aio.results import ListedRows, Result, Row
from mysqlwire.protocol.answers import ANY_DECIMALS, Column
from mysqlwire.protocol.constants import ColumnType

#: What a cell takes besides its text.
_CELL_BYTES = 64


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
    "float": Column("", ColumnType.DOUBLE, 22, ANY_DECIMALS, value=float),
    "double": Column("", ColumnType.DOUBLE, 22, ANY_DECIMALS, value=float),
    "date": Column("", ColumnType.DATE, 10, value=date.fromisoformat),
    "timestamp": _MOMENT,
    "timestamp_ntz": _MOMENT,
    "binary": Column("", ColumnType.BLOB, 2**32 - 1, text=b64decode, value=b64decode),
    "variant": _NESTED,
}
