"""The directory of operations."""

from __future__ import annotations

import django_tables2 as tables

from console.web.columns import CellColumn


class OperationTable(tables.Table):  # type: ignore[misc]
    """Service, operation and version: what a call of an SDK needs."""

    service = tables.Column(verbose_name="Service")
    path = CellColumn(template_name="openapi/_operation_cell.html", verbose_name="Operation")
    rpc = CellColumn(template_name="openapi/_rpc_cell.html", verbose_name="RPC action")
    version = CellColumn("<code>{{ record.version }}</code>", verbose_name="API version")
    changes = CellColumn(
        '{% if record.changes %}{% include "includes/badge.html" with text="changes" colour="orange" %}'
        '{% else %}{% include "includes/badge.html" with text="reads" %}{% endif %}',
        verbose_name="Kind",
    )
