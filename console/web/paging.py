"""Pages of lists."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

import django_tables2 as tables
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import QueryDict
from django.template import Context
from django.template.loader import get_template
from django_tables2 import RequestConfig, Table
from django_tables2.data import TableListData
from django_tables2.utils import OrderBy, OrderByTuple

from console.web import columns
from console.web.bulk import Bar
from console.web.htmx import HtmxRequest

PER_PAGE = 20
MOST_COUNTED = 10_000
_ROWS_AT_ONCE = 500
_Kept = TypeVar("_Kept")


def column(css: str = "", **extra: Any) -> dict[str, Any]:
    """Attributes of a column: the class of its head and its cells."""
    return {"th": {"class": css} | extra, "td": {"class": css}}


@dataclass(frozen=True)
class ColumnChoice:
    """A column that the visitor may leave out of a list."""

    name: str
    title: str
    is_shown: bool


class NamedTable(tables.Table):  # type: ignore[misc]
    """A list of which people keep views (`console.accounts.saved_views`), and whose rows may be chosen (`bulk`)."""

    #: What is offered for chosen rows; None where nothing is.
    bulk: Bar | None = None

    @property
    def list_name(self) -> str:
        """What views and a choice of columns are kept under: the app, and what it calls the list."""
        return list_name(type(self))


def list_name(kind: type[NamedTable]) -> str:
    """As `NamedTable.list_name`, where there is no table yet."""
    return f"{kind.__module__.split('.')[1]}_{kind.__name__}"


class ListTable(NamedTable):
    """A list whose columns the visitor chooses, and which can be had as a file (`console.accounts.downloads`).

    The first column, and those without a title, always stand there. `file_columns` are the names in the first line of
    the file, whose rows `file_row` makes of records, whatever is shown.
    """

    file_columns: ClassVar[tuple[str, ...]] = ()
    #: For the template, which draws other tables too.
    is_list = True

    def leave_out(self, names: frozenset[str]) -> None:
        """Show no column of these names; of a name that may not be left out, or that there is not, nothing becomes."""
        for choice in self.choices:
            if choice.name in names:
                self.columns.hide(choice.name)

    @property
    def choices(self) -> list[ColumnChoice]:
        """The columns that may be left out, in order."""
        _, *others = self.columns.iterall()
        return [ColumnChoice(one.name, str(one.header), one.visible) for one in others if one.header]

    def shows(self, *names: str) -> bool:
        """Whether one of the columns is seen: else what it would show need not be asked for."""
        return any(self.columns[name].visible for name in names)

    def measure(self, records: Sequence[Any]) -> None:
        """Get what all of these rows need at once, before `file_row` is asked for each."""

    def file_row(self, record: Any) -> tuple[object, ...]:
        """The values of a row in the order of `file_columns`."""
        raise NotImplementedError


def configured(
    request: HtmxRequest, table: Table, *, per_page: int = PER_PAGE, paginator_class: type[Paginator[Any]] = Paginator
) -> Table:
    """The table sorted and paged as the query string says (`sort`, `page`); a page that is not there is the last.

    Of a `ListTable` with the columns that the visitor chose.
    """
    if isinstance(table, ListTable):
        table.leave_out(columns.left_out(request, table.list_name))
    options = {"per_page": per_page, "silent": True, "paginator_class": paginator_class}
    RequestConfig(request, paginate=options).configure(table)
    return table


class LazyRows(TableListData, Generic[_Kept]):  # type: ignore[misc]
    """Rows in memory, of which there may be tens of thousands: only those of a page become records.

    `keys` tells for each column that sorts what to sort by: None comes first. A record for each row, and a comparison
    of pairs in Python, as tables do it, take several times as long as all else on a page. So do tens of thousands of
    tuples: new objects in such numbers make Python look through all that the process has. Texts do not.
    """

    def __init__(
        self, kept: list[_Kept], record: Callable[[_Kept], Any], keys: Mapping[str, Callable[[_Kept], Any]]
    ) -> None:
        super().__init__(kept)
        self.data: list[_Kept] = kept
        self._record, self._keys = record, keys

    def __getitem__(self, key: slice) -> list[Any]:
        return [self._record(one) for one in self.data[key]]

    def __iter__(self) -> Iterator[Any]:
        return map(self._record, self.data)

    def order_by(self, aliases: OrderByTuple) -> None:
        """Sort by the columns, the first of them last: sorting is stable."""
        for alias in reversed(aliases):
            key = self._keys[OrderBy(alias).bare]
            values, descending = list(map(key, self.data)), alias.startswith("-")
            missing = [place for place, value in enumerate(values) if value is None]
            others = (place for place, value in enumerate(values) if value is not None)
            order = sorted(others, key=values.__getitem__, reverse=descending)
            self.data = [self.data[place] for place in (order + missing if descending else missing + order)]


class FetchedRows(TableListData):  # type: ignore[misc]
    """Rows of a model sorted by what the database does not know: a page of them is one query.

    `figures` has for each column that sorts so what it shows of each row, by the value of the field `name`. What has no
    figure comes last either way.
    """

    def __init__(self, found: QuerySet[Any], name: str, figures: Mapping[str, Mapping[str, float]]) -> None:
        super().__init__([])
        self.data: list[int] = []
        self._names: list[str] = []
        self._found, self._figures = found, figures
        # Tens of thousands of pairs kept at once make Python look through all that the process has.
        for of, pk in found.values_list(name, "pk").iterator(_ROWS_AT_ONCE):
            self._names.append(of)
            self.data.append(pk)

    def __getitem__(self, key: slice) -> list[Any]:
        wanted = self.data[key]
        fetched = self._found.in_bulk(wanted)
        return [fetched[pk] for pk in wanted if pk in fetched]

    def order_by(self, aliases: OrderByTuple) -> None:
        """Sort by the first column that has figures."""
        alias = next((alias for alias in aliases if OrderBy(alias).bare in self._figures), None)
        if alias is None:
            return
        values: list[Any] = list(map(self._figures[OrderBy(alias).bare].get, self._names))
        known = [place for place, value in enumerate(values) if value is not None]
        known.sort(key=values.__getitem__, reverse=alias.startswith("-"))
        unknown = [place for place, value in enumerate(values) if value is None]
        self.data = [self.data[place] for place in known + unknown]
        self._names = [self._names[place] for place in known + unknown]


class FigureColumn(tables.Column):  # type: ignore[misc]
    """A column of numbers that tell how much there is of something: sorted by it, the most comes first."""

    most_first = True

    def __init__(self, title: str) -> None:
        super().__init__(verbose_name=title, empty_values=(), attrs=column("num-cell"))


def records(table: Table) -> list[Any]:
    """What is shown on the page of a configured table."""
    return [row.record for row in table.paginated_rows]


class CappedPaginator(Paginator):  # type: ignore[type-arg]  # not subscriptable at run time
    """Counts to MOST_COUNTED and no further: nobody pages through millions, and counting them all takes seconds.

    What lies behind that is reached by narrower filters.
    """

    @cached_property
    def _counted(self) -> int:
        rows: Any = self.object_list
        if not isinstance(rows, QuerySet):  # the rows of a table
            rows = rows.data.data
        return int(rows.order_by()[: MOST_COUNTED + 1].count())

    @cached_property
    def count(self) -> int:
        return min(self._counted, MOST_COUNTED)

    @property
    def shown_count(self) -> str:
        """`10,000+` for more than are counted."""
        return f"{self.count:,}{'+' if self._counted > MOST_COUNTED else ''}"


def search_text(request: HtmxRequest) -> str:
    """What was typed into a list's search field."""
    return searched(request.GET)


def searched(query: QueryDict) -> str:
    """The same, by the query of the list's address."""
    return str(query.get("q", "")).strip()[:128]


class CellColumn(tables.TemplateColumn):  # type: ignore[misc]
    """A template for each cell, in the context of the page, as `{% include %}` does it.

    TemplateColumn makes a new request context for each cell, so that a list of fifty rows ran the context processors
    250 times: half the time of the page.
    """

    def render(self, record: Any, table: Any, value: Any, bound_column: Any, **more: Any) -> Any:
        if self.template_name is None:
            return super().render(record=record, table=table, value=value, bound_column=bound_column, **more)
        context = getattr(table, "context", None) or Context()
        own = self.get_context_data(record=record, table=table, value=value, bound_column=bound_column, **more)
        with context.update(own):
            return get_template(self.template_name).template.render(context)  # type: ignore[attr-defined]
