"""The list of topics."""

from __future__ import annotations

import django_tables2 as tables
from django.utils.safestring import SafeString

from brokercore.smq.wire.topics import TopicState
from console.web.languages import gettext_lazy
from console.web.paging import CellColumn, column
from console.web.templatetags.gantry import ago, number

_NUMBER = column("num-cell")


class TopicTable(tables.Table):  # type: ignore[misc]
    """Name, what waits to be pushed, and age."""

    name = CellColumn(template_name="queues/topics/_name_cell.html", verbose_name=gettext_lazy("Topic"))
    waiting = tables.Column(verbose_name=gettext_lazy("Waiting to be pushed"), attrs=_NUMBER)
    created = tables.Column(verbose_name=gettext_lazy("Created"), attrs=_NUMBER)

    class Meta:
        order_by = "name"

    def render_waiting(self, record: TopicState) -> SafeString:
        return number(record.waiting)

    def render_created(self, record: TopicState) -> SafeString | str:
        return ago(record.created * 1000)
