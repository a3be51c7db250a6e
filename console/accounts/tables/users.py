"""The list of users."""

from __future__ import annotations

import django_tables2 as tables


class UserTable(tables.Table):  # type: ignore[misc]
    """Who there is, and with which policies."""

    username = tables.TemplateColumn(template_name="accounts/_user_cell.html", verbose_name="User")
    policies = tables.TemplateColumn(
        template_name="accounts/_policies_cell.html", verbose_name="Policies", orderable=False
    )
    is_active = tables.TemplateColumn(template_name="accounts/_active_cell.html", verbose_name="Sign-in")
    last_login = tables.TemplateColumn("{% load gantry %}{% ago record.last_login %}", verbose_name="Last sign-in")
    date_joined = tables.TemplateColumn("{% load gantry %}{% time record.date_joined 'date' %}", verbose_name="Created")
