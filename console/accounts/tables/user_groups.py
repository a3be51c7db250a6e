"""The lists of user groups, and of a group's users."""

from __future__ import annotations

import django_tables2 as tables
from django.template.loader import render_to_string

from console.accounts.models import UserGroup
from console.accounts.tables.users import SHOWN
from console.web.paging import column


class GroupTable(tables.Table):  # type: ignore[misc]
    """Which groups there are, how many users each has, and with which policies."""

    name = tables.TemplateColumn(template_name="accounts/_group_cell.html", verbose_name="User group")
    policies = tables.Column(verbose_name="Policies", orderable=False, empty_values=())
    member_count = tables.Column(verbose_name="Users", attrs=column("num-cell"))
    created_at = tables.TemplateColumn("{% load gantry %}{% time record.created_at 'date' %}", verbose_name="Created")

    class Meta:
        order_by = "name"

    def render_policies(self, record: UserGroup) -> object:
        names = sorted(policy.name for policy in record.policies.all())
        context = {"record": record, "names": names[:SHOWN], "more": len(names) - SHOWN, "all": ", ".join(names)}
        return render_to_string("accounts/_policies_cell.html", context)


class MemberTable(tables.Table):  # type: ignore[misc]
    """The users of one group."""

    username = tables.TemplateColumn(template_name="accounts/_user_cell.html", verbose_name="User")
    is_active = tables.TemplateColumn(template_name="accounts/_active_cell.html", verbose_name="Sign-in")
    last_login = tables.TemplateColumn("{% load gantry %}{% ago record.last_login %}", verbose_name="Last sign-in")
    remove = tables.TemplateColumn(
        template_name="accounts/_remove_cell.html", verbose_name="", orderable=False, attrs=column("row-actions")
    )

    class Meta:
        order_by = "username"
