"""The first rows of a result for a page: typed columns, null and empty told apart, a page at a time."""

from __future__ import annotations

from dataclasses import dataclass

from analytics import run as engine
from analytics.errors import LakeError
from console.sql.models import QueryTask

#: Rows of a result that pages show; all of them are in result.csv.
PREVIEW_ROWS = 1000
PAGE_ROWS = 100
#: A longer cell is folded.
SHORT_CELL = 120
_NUMBERS = frozenset({"tinyint", "smallint", "int", "integer", "bigint", "float", "double", "real", "long", "short"})


@dataclass(frozen=True, slots=True)
class Head:
    """A column: its name and Spark's type, empty when it is not known."""

    name: str
    type: str

    @property
    def numeric(self) -> bool:
        """True for what is written with digits and stands to the right."""
        return is_number(self.type)

    @property
    def temporal(self) -> bool:
        """True for dates and times."""
        return self.type.lower().startswith(("date", "timestamp"))


@dataclass(frozen=True, slots=True)
class Cell:
    """One value: None is null. Numbers stand to the right."""

    text: str | None
    numeric: bool = False

    @property
    def is_null(self) -> bool:
        """True for null, which is no text."""
        return self.text is None

    @property
    def folded(self) -> str:
        """The beginning of a long value; empty for a short one."""
        text = self.text or ""
        return f"{text[:SHORT_CELL]}…" if len(text) > SHORT_CELL or text.count("\n") > 2 else ""


@dataclass(frozen=True, slots=True)
class ResultPage:
    """Rows `first` to `last` (from 1) of `shown` that pages show, of `total`."""

    columns: list[Head]
    rows: list[tuple[int, list[Cell]]]
    number: int
    pages: int
    shown: int
    total: int

    @property
    def first(self) -> int:
        """Number of the first row on the page; 0 when there is none."""
        return self.rows[0][0] if self.rows else 0

    @property
    def last(self) -> int:
        """Number of the last row on the page."""
        return self.rows[-1][0] if self.rows else 0

    @property
    def before(self) -> int:
        """The previous page, 0 on the first."""
        return self.number - 1

    @property
    def after(self) -> int:
        """The next page, 0 on the last."""
        return self.number + 1 if self.number < self.pages else 0


def is_number(spark_type: str) -> bool:
    """True for Spark's types of numbers."""
    return spark_type.lower().partition("(")[0] in _NUMBERS | {"decimal"}


def heads(task: QueryTask, names: list[str]) -> list[Head]:
    """The columns with their types, as far as the task knows them."""
    types = [str(column.get("type", "")) for column in task.result_columns]
    known = types if len(types) == len(names) else [""] * len(names)
    return [Head(name, kind) for name, kind in zip(names, known, strict=True)]


def page_of(task: QueryTask, number: int) -> ResultPage:
    """A page of the preview; a number that is not there is the nearest. Raises LakeError when the file is gone."""
    if not task.result_file:
        raise LakeError("the task has no result")
    names, rows = engine.preview_result(task.result_file, PREVIEW_ROWS)
    columns = heads(task, names)
    pages = max(1, -(-len(rows) // PAGE_ROWS))
    number = min(max(number, 1), pages)
    begin = (number - 1) * PAGE_ROWS
    part = [
        (row_number, [Cell(value, column.numeric) for value, column in zip(values, columns, strict=True)])
        for row_number, values in enumerate(rows[begin : begin + PAGE_ROWS], begin + 1)
    ]
    return ResultPage(columns, part, number, pages, len(rows), max(task.row_count, len(rows)))
