"""Results of tasks: their first rows for a page, how long they are kept, and addresses to fetch them by."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from django.conf import settings
from django.core import signing
from django.urls import reverse
from django.utils.translation import gettext as _

from analytics import lake
from analytics.errors import LakeError, LakeUnavailable
from console.sql.models import QueryTask
from console.web.languages import gettext_lazy

#: Rows of a result that pages show; all of them are in result.csv.
PREVIEW_ROWS = 1000
PAGE_ROWS = 100
#: A longer cell is folded.
SHORT_CELL = 120
_NUMBERS = frozenset({"tinyint", "smallint", "int", "integer", "bigint", "float", "double", "real", "long", "short"})

_DELETED = gettext_lazy(
    "The result was deleted to make room for newer ones: when an account reaches its limit of results, "
    "the oldest are deleted first."
    " Run the statement again."
)

#: How long an address can be used; a download that has begun goes on.
VALID_SECONDS = 300
_SALT = "sql.download"


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
    names, rows = lake.preview_result(task.result_file, PREVIEW_ROWS)
    columns = heads(task, names)
    pages = max(1, -(-len(rows) // PAGE_ROWS))
    number = min(max(number, 1), pages)
    begin = (number - 1) * PAGE_ROWS
    part = [
        (row_number, [Cell(value, column.numeric) for value, column in zip(values, columns, strict=True)])
        for row_number, values in enumerate(rows[begin : begin + PAGE_ROWS], begin + 1)
    ]
    return ResultPage(columns, part, number, pages, len(rows), max(task.row_count, len(rows)))


def expired_since(task: QueryTask) -> date | None:
    """The first UTC day on which the sweep could delete the task's result; None when it has not come."""
    if not settings.RESULTS_DAYS:
        return None
    day = task.create_time.astimezone(UTC).date() + timedelta(days=settings.RESULTS_DAYS + 1)
    return day if day <= datetime.now(UTC).date() else None


def why_gone(task: QueryTask, error: LakeError) -> str:
    """The sentence for a result that cannot be read: an old one has expired, of another the lake's own reason."""
    since = None if isinstance(error, LakeUnavailable) else expired_since(task)
    if since is None:
        return _DELETED if error.is_missing and not task.result_bytes else error.user_message
    days = settings.RESULTS_DAYS
    return _("The result has expired since %(since)s: results are kept for %(days)s days. Run the statement again.") % {
        "since": since,
        "days": days,
    }


def path_of(task: QueryTask) -> str:
    """The path on this server at which the result of the task can be read."""
    return reverse("sql.fetch", args=[signing.dumps(task.pk, salt=_SALT)])


def task_of(token: str) -> QueryTask | None:
    """The task of an address; None when the address was made up, is too old, or the task is gone."""
    try:
        task_id = signing.loads(token, salt=_SALT, max_age=VALID_SECONDS)
    except signing.BadSignature:
        return None
    return QueryTask.objects.filter(pk=task_id, tenant__enabled=True).first()
