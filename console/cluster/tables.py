"""The keys that have a user on the cluster."""

from __future__ import annotations

import django_tables2 as tables

from console.web.columns import CellColumn
from console.web.paging import column


class UserTable(tables.Table):  # type: ignore[misc]
    """AccessKeys, what of them is on the cluster, and where that is less than here."""

    access_key_id = CellColumn(template_name="cluster/_key_cell.html", verbose_name="AccessKey")
    state = CellColumn(template_name="cluster/_state_cell.html", verbose_name="State")
    entries = tables.Column(verbose_name="Entries", attrs=column("num-cell num"))
    narrower = CellColumn(template_name="cluster/_narrower_cell.html", verbose_name="Narrower there", orderable=False)
    synced_at = CellColumn(
        "{% load gantry %}{% if record.synced_at %}{% ago record.synced_at %}{% endif %}", verbose_name="Carried over"
    )

    class Meta:
        order_by = "access_key_id"
