"""The lists of user groups, and of a group's users."""

from __future__ import annotations

import django_tables2 as tables
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from console.accounts.models import User, UserGroup
from console.accounts.tables import cells
from console.web.columns import CellColumn
from console.web.paging import column
from console.web.templatetags.gantry import ago, time


class GroupTable(tables.Table):  # type: ignore[misc]
    """Which groups there are, how many users each has, and with which policies."""

    name = tables.Column(verbose_name="User group")
    policies = tables.Column(verbose_name="Policies", orderable=False, empty_values=())
    member_count = tables.Column(verbose_name="Users", attrs=column("num-cell"))
    created_at = tables.Column(verbose_name="Created")

    class Meta:
        order_by = "name"

    def render_name(self, record: UserGroup) -> SafeString:
        remark = format_html('<div class="remark">{}</div>', record.description) if record.description else ""
        return format_html(
            '<a class="name" href="{}">{}</a>{}', reverse("accounts.group", args=[record.name]), record.name, remark
        )

    def render_policies(self, record: UserGroup) -> SafeString:
        return cells.badges((policy.name for policy in record.policies.all()), none="none")

    def render_created_at(self, record: UserGroup) -> SafeString:
        return time(record.created_at, "date")


class MemberTable(tables.Table):  # type: ignore[misc]
    """The users of one group."""

    username = tables.Column(verbose_name="User")
    is_active = tables.Column(verbose_name="Sign-in")
    last_login = tables.Column(verbose_name="Last sign-in", empty_values=())
    remove = CellColumn(
        template_name="accounts/_remove_cell.html", verbose_name="", orderable=False, attrs=column("row-actions")
    )

    class Meta:
        order_by = "username"

    def render_username(self, record: User) -> SafeString:
        return cells.user_name(record)

    def render_is_active(self, record: User) -> SafeString:
        return cells.sign_in(record)

    def render_last_login(self, record: User) -> SafeString:
        return ago(record.last_login)
