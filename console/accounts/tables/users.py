"""The list of users."""

from __future__ import annotations

import django_tables2 as tables
from django.template.loader import render_to_string

from console.accounts.models import Policy, User

SHOWN = 2
"""Policies named in a row; the rest is a number."""


class UserTable(tables.Table):  # type: ignore[misc]
    """Who there is, in which groups, and with which policies."""

    username = tables.TemplateColumn(template_name="accounts/_user_cell.html", verbose_name="User")
    groups = tables.TemplateColumn(
        template_name="accounts/_groups_cell.html", verbose_name="Groups", orderable=False, empty_values=()
    )
    policies = tables.Column(verbose_name="Policies", orderable=False, empty_values=())
    has_device = tables.TemplateColumn(template_name="accounts/_mfa_cell.html", verbose_name="MFA")
    is_active = tables.TemplateColumn(template_name="accounts/_active_cell.html", verbose_name="Sign-in")
    last_login = tables.TemplateColumn("{% load gantry %}{% ago record.last_login %}", verbose_name="Last sign-in")
    date_joined = tables.TemplateColumn("{% load gantry %}{% time record.date_joined 'date' %}", verbose_name="Created")

    def render_policies(self, record: User) -> object:
        found: dict[int, Policy] = {p.pk: p for p in record.policies.all()}
        for group in record.user_groups.all():
            found |= {p.pk: p for p in group.policies.all()}
        names = sorted(policy.name for policy in found.values())
        context = {"record": record, "names": names[:SHOWN], "more": len(names) - SHOWN, "all": ", ".join(names)}
        return render_to_string("accounts/_policies_cell.html", context)
