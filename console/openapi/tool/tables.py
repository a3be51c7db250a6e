"""The directory of operations."""

from __future__ import annotations

import django_tables2 as tables


class OperationTable(tables.Table):  # type: ignore[misc]
    """Service, operation and version: what a call of an SDK needs."""

    service = tables.Column(verbose_name="Service")
    path = tables.TemplateColumn(template_name="openapi/_operation_cell.html", verbose_name="Operation")
    rpc = tables.TemplateColumn(template_name="openapi/_rpc_cell.html", verbose_name="RPC action")
    version = tables.TemplateColumn("<code>{{ record.version }}</code>", verbose_name="API version")
    changes = tables.TemplateColumn(
        '{% if record.changes %}{% include "includes/badge.html" with text="changes" colour="orange" %}'
        '{% else %}{% include "includes/badge.html" with text="reads" %}{% endif %}',
        verbose_name="Kind",
    )
