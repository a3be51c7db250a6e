"""The list of queues. Counters are the service's of now; rates come from the samples."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import django_tables2 as tables
from django.utils.safestring import SafeString

from console.queues.queries import Row
from console.queues.samples import Rates
from console.web import exports
from console.web.languages import gettext_lazy
from console.web.paging import CellColumn, ListTable, column
from console.web.templatetags.gantry import ago, number

_NUMBER = column("num-cell")


class QueueTable(ListTable):
    """Name, messages by their state, age and rates."""

    name = CellColumn(template_name="queues/_name_cell.html", verbose_name=gettext_lazy("Queue"))
    active = tables.Column(
        accessor="state__active", verbose_name=gettext_lazy("Active"), empty_values=(), attrs=_NUMBER
    )
    hidden = tables.Column(
        accessor="state__inactive", verbose_name=gettext_lazy("Hidden"), empty_values=(), attrs=_NUMBER
    )
    delayed = tables.Column(
        accessor="state__delayed", verbose_name=gettext_lazy("Delayed"), empty_values=(), attrs=_NUMBER
    )
    oldest = tables.Column(
        accessor="state__oldest_ms", verbose_name=gettext_lazy("Oldest"), empty_values=(), attrs=_NUMBER
    )
    sent = tables.Column(verbose_name=gettext_lazy("Sent/s"), empty_values=(), orderable=False, attrs=_NUMBER)
    received = tables.Column(verbose_name=gettext_lazy("Received/s"), empty_values=(), orderable=False, attrs=_NUMBER)

    class Meta:
        order_by = "name"

    file_columns = ("queue", "active", "hidden", "delayed", "oldest_at")

    def __init__(self, *args: Any, is_counted: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.rates: dict[str, Rates] = {}
        for name in ("active", "hidden", "delayed", "oldest"):
            self.columns[name].column.orderable = is_counted

    def file_row(self, record: Row) -> tuple[object, ...]:
        """Of more queues than are counted for the list, the names alone: each count is a call to the service."""
        state = record.state
        if state is None:
            return (record.name, "", "", "", "")
        oldest = exports.moment(datetime.fromtimestamp(state.oldest_ms / 1000, UTC)) if state.oldest_ms else ""
        return (record.name, state.active, state.inactive, state.delayed, oldest)

    def render_active(self, record: Row) -> SafeString:
        return number(record.state.active if record.state else None)

    def render_hidden(self, record: Row) -> SafeString:
        return number(record.state.inactive if record.state else None)

    def render_delayed(self, record: Row) -> SafeString:
        return number(record.state.delayed if record.state else None)

    def render_oldest(self, record: Row) -> SafeString | str:
        return ago(record.state.oldest_ms) if record.state and record.state.oldest_ms else "–"

    def render_sent(self, record: Row) -> SafeString:
        return number(self.rates.get(record.name, Rates()).sent)

    def render_received(self, record: Row) -> SafeString:
        return number(self.rates.get(record.name, Rates()).received)
