"""The lists of topics and of groups with their rates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import django_tables2 as tables
from django.utils.safestring import SafeString

from console.topics.live import GroupHour, Rates
from console.topics.models import Group, Topic
from console.web.languages import gettext_lazy
from console.web.paging import CellColumn, FigureColumn, column
from console.web.templatetags.gantry import number
from console.web.templatetags.sparks import spark

_SPARK = column("spark-cell")


class _Rated(tables.Table):  # type: ignore[misc]
    """`rates` and `hours` are those of the page that is shown."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.rates = Rates(None, {}, {}, {}, {})
        self.hours: Mapping[str, Any] = {}


class TopicRates(_Rated):
    """Name, and what flows in."""

    name = CellColumn(template_name="metrics/_topic_cell.html", verbose_name=gettext_lazy("Topic"))
    in_tps = FigureColumn(gettext_lazy("In, messages/s"))
    hour = tables.Column(verbose_name="1 h", empty_values=(), orderable=False, attrs=_SPARK)

    class Meta:
        order_by = "name"

    def render_in_tps(self, record: Topic) -> SafeString:
        return number(self.rates.in_tps.get(record.physical_name))

    def render_hour(self, record: Topic) -> SafeString:
        return spark(self.hours.get(record.physical_name, ()), "blue")


class GroupRates(_Rated):
    """Group ID, what it consumes, and how far it is behind."""

    group_id = CellColumn(template_name="metrics/_group_cell.html", verbose_name=gettext_lazy("Group"))
    out_tps = FigureColumn(gettext_lazy("Out, messages/s"))
    out_hour = tables.Column(verbose_name="1 h", empty_values=(), orderable=False, attrs=_SPARK)
    backlog = FigureColumn(gettext_lazy("Backlog"))
    backlog_hour = tables.Column(verbose_name="1 h", empty_values=(), orderable=False, attrs=_SPARK)

    class Meta:
        order_by = "group_id"

    def render_out_tps(self, record: Group) -> SafeString:
        return number(self.rates.out_tps.get(record.physical_name))

    def render_backlog(self, record: Group) -> SafeString:
        return number(self.rates.backlog.get(record.physical_name))

    def render_out_hour(self, record: Group) -> SafeString:
        hour: GroupHour | None = self.hours.get(record.physical_name)
        return spark(hour.out_tps if hour else (), "green")

    def render_backlog_hour(self, record: Group) -> SafeString:
        hour: GroupHour | None = self.hours.get(record.physical_name)
        return spark(hour.backlog if hour else (), "red")
