"""The list of archives."""

from __future__ import annotations

import django_tables2 as tables
from django.utils.safestring import SafeString

from console.archive.models import TopicArchive
from console.web.columns import CellColumn
from console.web.paging import column
from console.web.templatetags.gantry import byte_size, number

_NUMBER = column("num-cell")


class ArchiveTable(tables.Table):  # type: ignore[misc]
    """Topic, state and size of each archive."""

    physical_name = CellColumn(template_name="archive/_topic_cell.html", verbose_name="Topic")
    status = CellColumn(template_name="archive/_status.html", verbose_name="State")
    messages = tables.Column(verbose_name="Messages", attrs=_NUMBER)
    size = tables.Column(verbose_name="Size", attrs=_NUMBER)
    ended_at = CellColumn(
        "{% load gantry %}{% if record.ended_at %}{% ago record.ended_at %}{% else %}–{% endif %}",
        verbose_name="Last run",
    )
    delete = CellColumn(
        template_name="archive/_delete_cell.html", verbose_name="", orderable=False, attrs=column("actions-cell")
    )

    class Meta:
        order_by = "physical_name"

    def render_messages(self, record: TopicArchive) -> SafeString:
        return number(record.messages)

    def render_size(self, record: TopicArchive) -> SafeString:
        return byte_size(record.size)
