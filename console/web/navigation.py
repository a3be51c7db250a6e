"""The side navigation, read like a table of contents. An entry whose page is not installed is left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.urls import NoReverseMatch, reverse


@dataclass(frozen=True)
class Entry:
    """One entry: `active` when the shown page is below it."""

    title: str
    icon: str
    url: str
    active: bool


@dataclass(frozen=True)
class Section:
    """Entries under one title."""

    title: str
    entries: list[Entry]


@dataclass(frozen=True)
class _Item:
    title: str
    icon: str
    url_name: str
    in_instance: bool = False
    also: tuple[str, ...] = ()
    """Beginnings of the URL names for which this entry is the active one."""


_SECTIONS: Sequence[tuple[str, Sequence[_Item]]] = (
    (
        "",
        (
            _Item("Overview", "layout-dashboard", "instances.overview"),
            _Item(
                "Instances",
                "server-2",
                "instances.list",
                also=(
                    "instances.create",
                    "instances.detail",
                    "instances.client",
                    "instances.update",
                    "instances.delete",
                ),
            ),
        ),
    ),
    (
        "Messaging",
        (
            _Item("Topics", "stack-2", "topics.list", True, ("topics.", "metrics.topic")),
            _Item(
                "Groups",
                "users-group",
                "groups.list",
                True,
                ("groups.", "messaging.status", "messaging.clients", "messaging.reset", "metrics.group"),
            ),
            _Item("Messages", "messages", "messaging.search", True, ("messaging.message", "messaging.publish")),
            _Item("Dead letters", "mailbox", "messaging.dead_letter_index", True, ("messaging.dead_letter",)),
            _Item("Statistics", "chart-line", "metrics.index", True),
            _Item("Shared topics", "share", "grants.index", also=("grants.",)),
        ),
    ),
    ("Analytics", (_Item("Async SQL", "database", "sql.editor", also=("sql.",)),)),
    (
        "Account",
        (
            _Item("AccessKeys", "key", "accounts.keys", also=("accounts.key_",)),
            _Item("Users", "users", "accounts.users", also=("accounts.user",)),
            _Item("User groups", "users-group", "accounts.groups", also=("accounts.group",)),
            _Item("Roles", "mask", "accounts.roles", also=("accounts.role",)),
            _Item(
                "Policies",
                "scale",
                "accounts.policies",
                also=("accounts.policy", "accounts.policies", "accounts.simulator"),
            ),
            _Item("Single sign-on", "login", "accounts.single_sign_on", also=("accounts.single_sign_on",)),
            _Item("Audit", "history", "audit.list", also=("audit.",)),
        ),
    ),
    (
        "Tools",
        (
            _Item("API Tool", "api", "openapi.tool", also=("openapi.tool",)),
            _Item("Broker drift", "git-compare", "drift.index", also=("drift.",)),
        ),
    ),
)
_PLATFORM: Sequence[tuple[str, Sequence[_Item]]] = (
    (
        "Platform",
        (
            _Item("Accounts", "building", "platform.accounts", also=("platform.account",)),
            _Item(
                "Organizations",
                "sitemap",
                "platform.organizations",
                also=("platform.organization", "platform.resource"),
            ),
            _Item("Settings", "settings", "platform.settings"),
            _Item("Broker drift", "git-compare", "drift.index", also=("drift.",)),
            _Item("Audit", "history", "platform.audit"),
        ),
    ),
)


def sections(url_name: str, instance_id: str | None, *, platform: bool = False) -> list[Section]:
    """The sections for a page of the given URL name; entries inside an instance need the chosen one's id.

    The platform's administrator has pages of its own and none of an account.
    """
    built = []
    for title, items in _PLATFORM if platform else _SECTIONS:
        entries = [entry for item in items if (entry := _entry(item, url_name, instance_id)) is not None]
        if entries:
            built.append(Section(title, entries))
    return built


def _entry(item: _Item, url_name: str, instance_id: str | None) -> Entry | None:
    if item.in_instance and instance_id is None:
        return None
    try:
        url = reverse(item.url_name, args=[instance_id] if item.in_instance else [])
    except NoReverseMatch:
        return None
    active = url_name == item.url_name or any(url_name.startswith(beginning) for beginning in item.also)
    return Entry(item.title, item.icon, url, active)
