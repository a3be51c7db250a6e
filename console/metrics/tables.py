"""The lists of topics and of groups with their rates."""

from __future__ import annotations

from typing import Any

import django_tables2 as tables
from django.utils.safestring import SafeString

from console.topics.live import Rates
from console.topics.models import Group, Topic
from console.web.paging import CellColumn, column
from console.web.templatetags.gantry import number

_NUMBER = column("num-cell")


class _Rated(tables.Table):  # type: ignore[misc]
    """`rates` are those of the page that is shown."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.rates = Rates(None, {}, {}, {}, {})


class TopicRates(_Rated):
    """Name, and what flows in."""

    name = CellColumn(template_name="metrics/_topic_cell.html", verbose_name="Topic")
    in_tps = tables.Column(verbose_name="In, messages/s", empty_values=(), orderable=False, attrs=_NUMBER)

    class Meta:
        order_by = "name"

    def render_in_tps(self, record: Topic) -> SafeString:
        return number(self.rates.in_tps.get(record.physical_name))


class GroupRates(_Rated):
    """Group ID, what it consumes, and how far it is behind."""

    group_id = CellColumn(template_name="metrics/_group_cell.html", verbose_name="Group")
    out_tps = tables.Column(verbose_name="Out, messages/s", empty_values=(), orderable=False, attrs=_NUMBER)
    backlog = tables.Column(verbose_name="Backlog", empty_values=(), orderable=False, attrs=_NUMBER)

    class Meta:
        order_by = "group_id"

    def render_out_tps(self, record: Group) -> SafeString:
        return number(self.rates.out_tps.get(record.physical_name))

    def render_backlog(self, record: Group) -> SafeString:
        return number(self.rates.backlog.get(record.physical_name))
