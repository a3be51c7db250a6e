"""The list of accounts."""

from __future__ import annotations

import django_tables2 as tables

from console.web.columns import CellColumn
from console.web.paging import column


class AccountTable(tables.Table):  # type: ignore[misc]
    """Who there is, and what they have."""

    name = CellColumn(template_name="platform/_account_cell.html", verbose_name="Account")
    organization = tables.Column(accessor="organization__name", verbose_name="Organization")
    enabled = CellColumn(template_name="platform/_enabled_cell.html", verbose_name="State")
    instance_count = tables.Column(verbose_name="Instances", attrs=column("num-cell num"))
    topic_count = tables.Column(verbose_name="Topics", attrs=column("num-cell num"))
    group_count = tables.Column(verbose_name="Groups", attrs=column("num-cell num"))
    user_count = tables.Column(verbose_name="Users", attrs=column("num-cell num"))
    created_at = CellColumn("{% load gantry %}{% time record.created_at 'date' %}", verbose_name="Created")

    class Meta:
        order_by = "name"
