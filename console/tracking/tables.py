"""The list of change tracking tasks, as the capturing process wrote them down last."""

from __future__ import annotations

import django_tables2 as tables
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from console.tracking.models import TrackingTask
from console.web.languages import gettext_lazy
from console.web.paging import CellColumn, NamedTable, column
from console.web.templatetags.gantry import duration, number

_NUMBER = column("num-cell")


class TrackingTable(NamedTable):
    """Name, state, source, tables, range, rate and lag."""

    name = CellColumn(template_name="tracking/_name_cell.html", verbose_name=gettext_lazy("Task"))
    state = CellColumn(template_name="tracking/_state_cell.html", verbose_name=gettext_lazy("State"))
    host = CellColumn(template_name="tracking/_source_cell.html", verbose_name=gettext_lazy("Database"))
    patterns = tables.Column(verbose_name=gettext_lazy("Tables"), orderable=False)
    first_ms = CellColumn(
        template_name="tracking/_range_cell.html", verbose_name=gettext_lazy("Range"), orderable=False
    )
    events = tables.Column(verbose_name=gettext_lazy("Events"), attrs=_NUMBER)
    rate = tables.Column(verbose_name=gettext_lazy("Events/s"), empty_values=(), orderable=False, attrs=_NUMBER)
    lag_ms = tables.Column(verbose_name=gettext_lazy("Lag"), empty_values=(), orderable=False, attrs=_NUMBER)

    class Meta:
        order_by = "name"

    def render_patterns(self, record: TrackingTask) -> str:
        patterns = record.patterns
        return (
            patterns[0]
            if len(patterns) == 1
            else _("%(patterns)s and %(patterns2)s more") % {"patterns": patterns[0], "patterns2": len(patterns) - 1}
        )

    def render_events(self, record: TrackingTask) -> SafeString:
        return number(record.events)

    def render_rate(self, record: TrackingTask) -> SafeString:
        return number(record.rate if record.is_normal else None)

    def render_lag_ms(self, record: TrackingTask) -> SafeString:
        return duration(record.lag_ms if record.is_normal else None)
