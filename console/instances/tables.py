"""The list of instances."""

from __future__ import annotations

import django_tables2 as tables

from console.web.paging import CellColumn, column


class InstanceTable(tables.Table):  # type: ignore[misc]
    """Name and id, namespace, what is in it."""

    name = CellColumn(template_name="instances/_name_cell.html", verbose_name="Name")
    independent_naming = CellColumn(template_name="instances/_naming_cell.html", verbose_name="Namespace")
    topic_count = tables.Column(verbose_name="Topics", attrs=column("num-cell num"))
    group_count = tables.Column(verbose_name="Groups", attrs=column("num-cell num"))
    cluster = tables.Column(accessor="cluster__name", verbose_name="Cluster")
    created_at = CellColumn("{% load gantry %}{% time record.created_at 'date' %}", verbose_name="Created")

    class Meta:
        order_by = "name"
