"""Cells of several lists, written without a template each: a page of users has more than a hundred of them."""

from __future__ import annotations

from collections.abc import Iterable

from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from console.accounts.models import User

_BADGE = '<span class="badge bg-secondary-lt">{0}</span>'
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
        colour, text = "yellow", "Disabled"
    elif user.must_change_password:
        colour, text = "orange", "First password"
    else:
        colour, text = "green", "Enabled"
    return format_html('<span class="badge bg-{}-lt">{}</span>', colour, text)


def second_factor(user: User, *, bound: bool) -> SafeString:
    """Whether a user has a device, or is waited for to bind one."""
    if bound:
        return format_html('<span class="badge bg-green-lt">{}</span>', "Bound")
    if user.mfa_required:
        return format_html('<span class="badge bg-orange-lt">{}</span>', "Required, not bound")
    return format_html('<span class="text-secondary">{}</span>', "–")
