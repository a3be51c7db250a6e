"""The lists of users, groups, policies and roles."""

from __future__ import annotations

from collections.abc import Iterable

import django_tables2 as tables
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from console.accounts.models import Policy, Role, User, UserGroup
from console.accounts.policy_documents import trusted_names
from console.web import exports
from console.web.languages import gettext_lazy
from console.web.paging import CellColumn, ListTable, column
from console.web.templatetags.gantry import ago, time

SHOWN = 2
"""What is named in a row; the rest is a number, with every name on hover."""


def badges(names: Iterable[str], *, none: str, url_name: str = "") -> SafeString:
    """The first names as badges, links when there is a URL name that takes them."""
    ordered = sorted(names)
    if not ordered:
        return format_html('<span class="text-secondary">{}</span>', none)
    linked, plain = (
        '<a class="badge bg-secondary-lt" href="{1}">{0}</a>',
        '<span class="badge bg-secondary-lt">{0}</span>',
    )
    link = linked if url_name else plain
    shown = format_html_join("", link, ((n, reverse(url_name, args=[n]) if url_name else "") for n in ordered[:SHOWN]))
    more = len(ordered) - SHOWN
    rest: SafeString | str = ""
    if more > 0:
        rest = format_html('<span class="text-secondary" title="{}">+{}</span>', ", ".join(ordered), more)
    return format_html('<div class="badges">{}{}</div>', shown, rest)


def user_name(user: User) -> SafeString:
    """The user's name as a link, and what it is called."""
    badge = format_html(' <span class="badge bg-azure-lt">{}</span>', "administrator") if user.is_tenant_admin else ""
    full_name = user.get_full_name()
    remark = format_html('<div class="remark">{}</div>', full_name) if full_name else ""
    url = reverse("accounts.user", args=[user.username])
    return format_html('<a class="name" href="{}">{}</a>{}{}', url, user.username, badge, remark)


def sign_in(user: User) -> SafeString:
    """Whether a user can sign in."""
    if not user.is_active:
        colour, text = "yellow", _("Disabled")
    elif user.must_change_password:
        colour, text = "orange", _("First password")
    else:
        colour, text = "green", _("Enabled")
    return format_html('<span class="badge bg-{}-lt">{}</span>', colour, text)


def second_factor(user: User, *, bound: bool) -> SafeString:
    """Whether a user has a device, or is waited for to bind one."""
    if bound:
        return format_html('<span class="badge bg-green-lt">{}</span>', _("Bound"))
    if user.mfa_required:
        return format_html('<span class="badge bg-orange-lt">{}</span>', _("Required, not bound"))
    return format_html('<span class="text-secondary">{}</span>', "–")


def _policy_names(user: User) -> list[str]:
    """Of a user's own policies and those of its groups."""
    found: dict[int, Policy] = {p.pk: p for p in user.policies.all()}
    for group in user.user_groups.all():
        found |= {p.pk: p for p in group.policies.all()}
    return sorted(policy.name for policy in found.values())


class UserTable(ListTable):
    """Who there is, in which groups, and with which policies."""

    username = tables.Column(verbose_name=gettext_lazy("User"))
    groups = tables.Column(verbose_name=gettext_lazy("User groups"), orderable=False, empty_values=())
    policies = tables.Column(verbose_name=gettext_lazy("Policies"), orderable=False, empty_values=())
    has_device = tables.Column(verbose_name=gettext_lazy("MFA"))
    is_active = tables.Column(verbose_name=gettext_lazy("Sign-in"))
    last_login = tables.Column(verbose_name=gettext_lazy("Last sign-in"), empty_values=())
    date_joined = tables.Column(verbose_name=gettext_lazy("Created"))

    file_columns = (
        "user", "name", "user_id", "groups", "policies", "second_factor", "sign_in", "last_sign_in", "created_at",
    )  # fmt: skip

    def file_row(self, record: User) -> tuple[object, ...]:
        return (
            record.username,
            record.get_full_name(),
            record.uid,
            " ".join(group.name for group in record.user_groups.all()),
            _("everything in the account") if record.is_tenant_admin else " ".join(_policy_names(record)),
            "bound" if record.has_device else "required" if record.mfa_required else "none",  # type: ignore[attr-defined]
            "enabled" if record.is_active else "disabled",
            exports.moment(record.last_login) if record.last_login else "",
            exports.moment(record.date_joined),
        )

    def render_username(self, record: User) -> SafeString:
        return user_name(record)

    def render_groups(self, record: User) -> SafeString:
        return badges((g.name for g in record.user_groups.all()), none="–", url_name="accounts.group")

    def render_policies(self, record: User) -> SafeString | str:
        if record.is_tenant_admin:
            return _("everything in the account")
        return badges(_policy_names(record), none=_("none: may do nothing"))

    def render_has_device(self, record: User, value: bool) -> SafeString:
        return second_factor(record, bound=value)

    def render_is_active(self, record: User) -> SafeString:
        return sign_in(record)

    def render_last_login(self, record: User) -> SafeString:
        return ago(record.last_login)

    def render_date_joined(self, record: User) -> SafeString:
        return time(record.date_joined, "date")


class GroupTable(tables.Table):  # type: ignore[misc]
    """Which groups there are, how many users each has, and with which policies."""

    name = tables.Column(verbose_name=gettext_lazy("User group"))
    policies = tables.Column(verbose_name=gettext_lazy("Policies"), orderable=False, empty_values=())
    member_count = tables.Column(verbose_name=gettext_lazy("Users"), attrs=column("num-cell"))
    created_at = tables.Column(verbose_name=gettext_lazy("Created"))

    class Meta:
        order_by = "name"

    def render_name(self, record: UserGroup) -> SafeString:
        remark = format_html('<div class="remark">{}</div>', record.description) if record.description else ""
        return format_html(
            '<a class="name" href="{}">{}</a>{}', reverse("accounts.group", args=[record.name]), record.name, remark
        )

    def render_policies(self, record: UserGroup) -> SafeString:
        return badges((policy.name for policy in record.policies.all()), none="none")

    def render_created_at(self, record: UserGroup) -> SafeString:
        return time(record.created_at, "date")


class MemberTable(tables.Table):  # type: ignore[misc]
    """The users of one group."""

    username = tables.Column(verbose_name=gettext_lazy("User"))
    is_active = tables.Column(verbose_name=gettext_lazy("Sign-in"))
    last_login = tables.Column(verbose_name=gettext_lazy("Last sign-in"), empty_values=())
    remove = CellColumn(
        template_name="accounts/_remove_cell.html", verbose_name="", orderable=False, attrs=column("row-actions")
    )

    class Meta:
        order_by = "username"

    def render_username(self, record: User) -> SafeString:
        return user_name(record)

    def render_is_active(self, record: User) -> SafeString:
        return sign_in(record)

    def render_last_login(self, record: User) -> SafeString:
        return ago(record.last_login)


class PolicyTable(tables.Table):  # type: ignore[misc]
    """What can be attached, and how often it is."""

    name = CellColumn(template_name="accounts/_policy_cell.html", verbose_name=gettext_lazy("Policy"))
    kind = CellColumn(
        template_name="accounts/_policy_kind_cell.html",
        verbose_name=gettext_lazy("Kind"),
        order_by=("tenant_id", "name"),
    )
    attached = CellColumn(
        "{% load gantry %}{% number record.attached %}", verbose_name=gettext_lazy("Attached"), attrs=column("num-cell")
    )
    updated_at = CellColumn("{% load gantry %}{% ago record.updated_at %}", verbose_name=gettext_lazy("Changed"))


class RoleTable(tables.Table):  # type: ignore[misc]
    """Roles, whom they trust, and how many sessions they have now."""

    name = CellColumn(template_name="accounts/_role_cell.html", verbose_name=gettext_lazy("Role"))
    trusts = tables.Column(empty_values=(), verbose_name=gettext_lazy("Trusts"), orderable=False)
    policies = CellColumn(
        template_name="accounts/_role_policies_cell.html", verbose_name=gettext_lazy("Policies"), orderable=False
    )
    sessions = CellColumn(
        "{% load gantry %}{% number record.sessions %}", verbose_name=gettext_lazy("Sessions"), attrs=column("num-cell")
    )
    created_at = CellColumn(
        "{% load gantry %}{% time record.created_at 'date' %}", verbose_name=gettext_lazy("Created")
    )

    def render_trusts(self, record: Role) -> str:
        """Whom the trust policy lets in."""
        return render_to_string("accounts/_role_trust_cell.html", {"names": trusted_names(record.trust_policy)})


class SessionTable(tables.Table):  # type: ignore[misc]
    """Active sessions of one role."""

    session_name = tables.Column(verbose_name=gettext_lazy("Session"))
    assumed_by = tables.Column(verbose_name=gettext_lazy("Assumed by"))
    access_key_id = CellColumn("<code>{{ record.access_key_id }}</code>", verbose_name=gettext_lazy("AccessKey ID"))
    created_at = CellColumn("{% load gantry %}{% ago record.created_at %}", verbose_name=gettext_lazy("Began"))
    expires_at = CellColumn("{% load gantry %}{% time record.expires_at %}", verbose_name=gettext_lazy("Ends"))
    end = CellColumn(
        template_name="accounts/_role_session_cell.html",
        verbose_name="",
        orderable=False,
        attrs=column("row-actions"),
    )
