"""Rows as MySQL's protocol wants them."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime
from typing import Any

from mysql_mimic.results import ResultColumn, ResultSet
from mysql_mimic.types import ColumnType

from console.sql.queries import COLUMNS, INTEGER_COLUMNS, Row

_TRUE = {"true": 1, "false": 0}


def _boolean(cell: str) -> int:
    return _TRUE[cell]


def _moment(cell: str) -> datetime:
    return datetime.fromisoformat(cell).replace(tzinfo=None)


# By Spark's type name: MySQL's type, and the value from its text in result.csv.
_TYPES: dict[str, tuple[ColumnType, Callable[[str], Any]]] = {
    "boolean": (ColumnType.TINY, _boolean),
    "tinyint": (ColumnType.LONGLONG, int),
    "smallint": (ColumnType.LONGLONG, int),
    "int": (ColumnType.LONGLONG, int),
    "bigint": (ColumnType.LONGLONG, int),
    "float": (ColumnType.DOUBLE, float),
    "double": (ColumnType.DOUBLE, float),
    "date": (ColumnType.DATE, date.fromisoformat),
    "timestamp": (ColumnType.DATETIME, _moment),
    "timestamp_ntz": (ColumnType.DATETIME, _moment),
    "binary": (ColumnType.BLOB, b64decode),
}
_DECIMAL = (ColumnType.NEWDECIMAL, str)
_STRING = (ColumnType.VAR_STRING, str)


def of_cells(columns: Sequence[str], rows: Iterable[Sequence[str | int | None]]) -> ResultSet:
    """Rows of texts and integers; a column is of integers when every value is one."""
    rows = [tuple(row) for row in rows]
    kinds = [_kind(row[number] for row in rows) for number in range(len(columns))]
    return ResultSet(rows=rows, columns=[ResultColumn(n, k) for n, k in zip(columns, kinds, strict=True)])


def _kind(cells: Iterable[str | int | None]) -> ColumnType:
    known = [cell for cell in cells if cell is not None]
    return ColumnType.LONGLONG if known and all(isinstance(c, int) for c in known) else ColumnType.VAR_STRING


def of_tasks(tasks: Iterable[Row]) -> ResultSet:
    """Rows of `show query_task`: the 27 columns, numbers as numbers."""
    columns = [
        ResultColumn(name, ColumnType.LONGLONG if name in INTEGER_COLUMNS else ColumnType.VAR_STRING)
        for name in COLUMNS
    ]
    return ResultSet(rows=[tuple(task.values()) for task in tasks], columns=columns)


def of_csv(columns: list[dict[str, str]], rows: list[list[str | None]]) -> ResultSet:
    """Rows of a result file, each value as its type. Raises ValueError for a date that MySQL's types cannot hold."""
    described = [(c["name"], *_type_of(c["type"])) for c in columns]
    typed = [
        tuple(None if cell is None else read(cell) for cell, (_, _, read) in zip(row, described, strict=True))
        for row in rows
    ]
    return ResultSet(rows=typed, columns=[ResultColumn(name, kind) for name, kind, _ in described])


def _type_of(spark_type: str) -> tuple[ColumnType, Callable[[str], Any]]:
    return _DECIMAL if spark_type.startswith("decimal") else _TYPES.get(spark_type, _STRING)
