"""The list of SQL jobs. States are the database's, rows and lag those of the worker's latest report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import django_tables2 as tables
from django.utils.html import format_html
from django.utils.safestring import SafeString

from console.pipelines import samples
from console.pipelines.models import BUSY, Pipeline, State
from console.pipelines.samples import Now, Point
from console.web import exports
from console.web.languages import gettext_lazy
from console.web.paging import CellColumn, ListTable, column
from console.web.templatetags.gantry import ago, duration, number

_NUMBER = column("num-cell")
_DASH = "–"
#: Of a job that runs: told by the dash, and below the list.
_NO_WATERMARK = format_html('<span class="num text-secondary" title="no watermark so far">{}</span>', _DASH)
_NO_ROWS = format_html('<div class="text-secondary small">{}</div>', gettext_lazy("no rows since"))


class JobTable(ListTable):
    """Name, state, age, rates, lag, restarts and the last checkpoint."""

    name = CellColumn(template_name="jobs/_name_cell.html", verbose_name=gettext_lazy("Job"))
    state = CellColumn(template_name="jobs/_state_cell.html", verbose_name=gettext_lazy("State"))
    running_at = tables.Column(verbose_name=gettext_lazy("Running since"), empty_values=())
    rows_in = tables.Column(verbose_name=gettext_lazy("Rows/s in"), empty_values=(), orderable=False, attrs=_NUMBER)
    rows_out = tables.Column(verbose_name=gettext_lazy("Rows/s out"), empty_values=(), orderable=False, attrs=_NUMBER)
    lag = tables.Column(verbose_name=gettext_lazy("Lag"), empty_values=(), orderable=False, attrs=_NUMBER)
    restarts = tables.Column(verbose_name=gettext_lazy("Restarts"), attrs=_NUMBER)
    checkpoint = tables.Column(verbose_name=gettext_lazy("Last checkpoint"), empty_values=(), orderable=False)

    class Meta:
        order_by = "name"

    file_columns = (
        "job", "version", "state", "running_since", "rows_in_per_second", "rows_out_per_second", "lag_ms", "restarts",
        "last_checkpoint_at",
    )  # fmt: skip

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.nows: Mapping[int, Now] = {}

    def measure(self, records: Sequence[Pipeline]) -> None:
        self.nows = samples.latest([job.pk for job in records])

    def file_row(self, record: Pipeline) -> tuple[object, ...]:
        point, now = self._point(record), self.nows.get(record.pk)
        return (
            record.name,
            record.version.number if record.version else "",
            record.state,
            exports.moment(record.running_at) if record.state in BUSY and record.running_at else "",
            exports.figure(point.rows_in),
            exports.figure(point.rows_out),
            exports.figure(point.delay_ms),
            record.restarts,
            exports.moment(datetime.fromtimestamp(now.checkpoint_ms / 1000, UTC)) if now and now.checkpoint_ms else "",
        )

    def render_running_at(self, record: Pipeline) -> SafeString | str:
        return ago(record.running_at) if record.state in BUSY and record.running_at else _DASH

    def render_rows_in(self, record: Pipeline) -> SafeString:
        return number(self._point(record).rows_in)

    def render_rows_out(self, record: Pipeline) -> SafeString:
        return number(self._point(record).rows_out)

    def render_lag(self, record: Pipeline) -> SafeString:
        point = self._point(record)
        if point.delay_ms is None and point.rows_in is not None:
            return _NO_WATERMARK
        return duration(None if point.delay_ms is None else int(point.delay_ms))

    def render_checkpoint(self, record: Pipeline) -> SafeString | str:
        now = self.nows.get(record.pk)
        if now is None or not now.checkpoint_ms:
            return _DASH
        note = _NO_ROWS if now.is_idle and record.state == State.RUNNING else ""
        return format_html("{}{}", ago(now.checkpoint_ms), note)

    def _point(self, record: Pipeline) -> Point:
        return live_point(record, self.nows.get(record.pk))


def live_point(job: Pipeline, now: Now | None) -> Point:
    """The numbers of now; nothing is known of a job that does not run, or whose worker is silent."""
    return now.point if now is not None and now.is_fresh and job.state == State.RUNNING else Point(0)
