"""The list of users."""

from __future__ import annotations

import django_tables2 as tables
from django.utils.safestring import SafeString

from console.accounts.models import Policy, User
from console.accounts.tables import cells
from console.web.templatetags.gantry import ago, time


class UserTable(tables.Table):  # type: ignore[misc]
    """Who there is, in which groups, and with which policies."""

    username = tables.Column(verbose_name="User")
    groups = tables.Column(verbose_name="Groups", orderable=False, empty_values=())
    policies = tables.Column(verbose_name="Policies", orderable=False, empty_values=())
    has_device = tables.Column(verbose_name="MFA")
    is_active = tables.Column(verbose_name="Sign-in")
    last_login = tables.Column(verbose_name="Last sign-in", empty_values=())
    date_joined = tables.Column(verbose_name="Created")

    def render_username(self, record: User) -> SafeString:
        return cells.user_name(record)

    def render_groups(self, record: User) -> SafeString:
        return cells.badges((g.name for g in record.user_groups.all()), none="–", url_name="accounts.group")

    def render_policies(self, record: User) -> SafeString | str:
        if record.is_tenant_admin:
            return "everything in the account"
        found: dict[int, Policy] = {p.pk: p for p in record.policies.all()}
        for group in record.user_groups.all():
            found |= {p.pk: p for p in group.policies.all()}
        return cells.badges((policy.name for policy in found.values()), none="none: may do nothing")

    def render_has_device(self, record: User, value: bool) -> SafeString:
        return cells.second_factor(record, bound=value)

    def render_is_active(self, record: User) -> SafeString:
        return cells.sign_in(record)

    def render_last_login(self, record: User) -> SafeString:
        return ago(record.last_login)

    def render_date_joined(self, record: User) -> SafeString:
        return time(record.date_joined, "date")
