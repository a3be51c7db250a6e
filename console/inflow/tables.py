"""The list of inflow tasks. States are the database's, rates and positions those of the worker's latest report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import django_tables2 as tables
from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from console.inflow.queries import standing, summary
from console.pipelines.models import BUSY, Pipeline
from console.pipelines.samples import Now
from console.web.languages import gettext_lazy
from console.web.paging import CellColumn, NamedTable, column
from console.web.templatetags.gantry import duration, number

_NUMBER = column("num-cell")
_DASH = "–"


class TaskTable(NamedTable):
    """Name, state, source, sink, delay, rates and failed events."""

    name = CellColumn(template_name="inflow/_name_cell.html", verbose_name=gettext_lazy("Task"))
    state = tables.Column(verbose_name=gettext_lazy("State"), empty_values=())
    source = tables.Column(verbose_name=gettext_lazy("Source"), empty_values=(), orderable=False)
    sink = tables.Column(verbose_name=gettext_lazy("Sink"), empty_values=(), orderable=False)
    delay = tables.Column(verbose_name=gettext_lazy("Behind"), empty_values=(), orderable=False, attrs=_NUMBER)
    read = tables.Column(verbose_name=gettext_lazy("Read/s"), empty_values=(), orderable=False, attrs=_NUMBER)
    delivered = tables.Column(verbose_name=gettext_lazy("Delivered/s"), empty_values=(), orderable=False, attrs=_NUMBER)
    failed = tables.Column(verbose_name=gettext_lazy("Failed"), empty_values=(), orderable=False, attrs=_NUMBER)
    actions = tables.Column(verbose_name=gettext_lazy("Actions"), empty_values=(), orderable=False, attrs=_NUMBER)

    class Meta:
        order_by = "name"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.nows: Mapping[int, Now] = {}
        #: What the visitor may do with the task of a name, by the words of pages.
        self.may: Callable[[str], Mapping[str, bool]] = lambda name: {}

    def render_state(self, record: Pipeline) -> SafeString:
        return state_badge(record, self.nows.get(record.pk))

    def render_source(self, record: Pipeline) -> str:
        return summary(record.draft).source or _DASH

    def render_sink(self, record: Pipeline) -> str:
        return summary(record.draft).sink or _DASH

    def render_delay(self, record: Pipeline) -> SafeString:
        return duration(standing(record, self.nows.get(record.pk)).behind_ms)

    def render_read(self, record: Pipeline) -> SafeString:
        return number(standing(record, self.nows.get(record.pk)).read_rate)

    def render_delivered(self, record: Pipeline) -> SafeString:
        return number(standing(record, self.nows.get(record.pk)).delivered_rate)

    def render_failed(self, record: Pipeline) -> SafeString:
        return number(standing(record, self.nows.get(record.pk)).failed)

    def render_actions(self, record: Pipeline) -> SafeString:
        context = {"record": record, "is_busy": record.state in BUSY, "may": self.may(record.name)}
        return render_to_string("inflow/_actions_cell.html", context)


def state_badge(task: Pipeline, now: Now | None) -> SafeString:
    """The state with its colour, and why it is in it."""
    return render_to_string("inflow/_state_cell.html", {"standing": standing(task, now), "reason": task.reason})
