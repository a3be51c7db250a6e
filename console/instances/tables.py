"""The list of instances."""

from __future__ import annotations

from typing import Any

import django_tables2 as tables

from console.instances.models import Instance
from console.web import exports, regions
from console.web.languages import gettext_lazy
from console.web.paging import CellColumn, ListTable, column


class InstanceTable(ListTable):
    """Name and id, namespace, what is in it."""

    name = CellColumn(template_name="instances/_name_cell.html", verbose_name=gettext_lazy("Name"))
    independent_naming = CellColumn(template_name="instances/_naming_cell.html", verbose_name=gettext_lazy("Namespace"))
    topic_count = tables.Column(verbose_name=gettext_lazy("Topics"), attrs=column("num-cell num"))
    group_count = tables.Column(verbose_name=gettext_lazy("Groups"), attrs=column("num-cell num"))
    region = tables.Column(verbose_name=gettext_lazy("Region"))
    cluster = tables.Column(accessor="cluster__name", verbose_name=gettext_lazy("Cluster"))
    created_at = CellColumn(
        "{% load gantry %}{% time record.created_at 'date' %}", verbose_name=gettext_lazy("Created")
    )

    class Meta:
        order_by = "name"

    file_columns = ("name", "instance_id", "remark", "namespace", "topics", "groups", "cluster", "created_at")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """With one region nothing is told of it, in the file neither."""
        if regions.are_several():
            self.file_columns = (*type(self).file_columns, "region")  # type: ignore[assignment,misc]
        super().__init__(*args, exclude=() if regions.are_several() else ("region",), **kwargs)

    def file_row(self, record: Instance) -> tuple[object, ...]:
        return (
            record.name,
            record.instance_id,
            record.remark,
            "yes" if record.independent_naming else "no",
            record.topic_count,  # type: ignore[attr-defined]  # annotated by the query
            record.group_count,  # type: ignore[attr-defined]
            record.cluster.name,
            exports.moment(record.created_at),
            *((record.region,) if "region" in self.file_columns else ()),
        )
