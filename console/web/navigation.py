"""The side navigation, read like a table of contents. An entry whose page is not installed is left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.urls import NoReverseMatch, reverse

from console.web.languages import gettext_lazy

May = Callable[[str, str], bool]
"""Whether the visitor may do an action of an account's service, such as `ram:ListUsers`, on a path such as `user/*`."""


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
    needs: tuple[str, str] | None = None
    """Action and path (`user/*`) that the page behind it asks for, of an entry inside an instance the action alone.

    None: everybody has the page.
    """


_SECTIONS: Sequence[tuple[str, Sequence[_Item]]] = (
    (
        "",
        (
            _Item(gettext_lazy("Overview"), "layout-dashboard", "instances.overview"),
            _Item(
                gettext_lazy("Alarms"), "bell", "alarms.list", also=("alarms.",), needs=("cms:QueryAlarm", "alarm/*")
            ),
            _Item(
                gettext_lazy("Instances"),
                "server-2",
                "instances.list",
                also=(
                    "instances.create",
                    "instances.detail",
                    "instances.client",
                    "instances.update",
                    "instances.delete",
                ),
                needs=("mq:QueryInstance", ""),
            ),
        ),
    ),
    (
        gettext_lazy("Messaging"),
        (
            _Item(
                gettext_lazy("Topics"),
                "stack-2",
                "topics.list",
                True,
                (
                    *("topics.", "metrics.topic", "archive.topic"),
                    *(f"messaging.{page}" for page in ("publish", "live", "producers")),
                ),
                needs=("mq:QueryInstance", ""),
            ),
            _Item(
                gettext_lazy("Groups"),
                "users-group",
                "groups.list",
                True,
                (
                    "groups.",
                    "metrics.group",
                    *(f"messaging.{page}" for page in ("status", "clients", "reset", "stack")),
                ),
                needs=("mq:QueryInstance", ""),
            ),
            _Item(
                gettext_lazy("Messages"), "messages", "messaging.search", True, ("messaging.message", "messaging.push")
            ),
            _Item(
                gettext_lazy("Dead letters"),
                "mailbox",
                "messaging.dead_letter_index",
                True,
                ("messaging.dead_letter", "messaging.resend", "messaging.discard"),
                needs=("mq:QueryGroup", ""),
            ),
            _Item(gettext_lazy("Statistics"), "chart-line", "metrics.index", True, needs=("mq:QueryTrend", "")),
            _Item(
                gettext_lazy("Queues"), "inbox", "queues.list", also=("queues.",), needs=("mns:ListQueue", "/queues/")
            ),
            _Item(
                gettext_lazy("Queue topics"),
                "send",
                "queue_topics.list",
                also=("queue_topics.",),
                needs=("mns:ListTopic", "/topics/"),
            ),
            _Item(gettext_lazy("Shared topics"), "share", "grants.index", also=("grants.",)),
        ),
    ),
    (
        gettext_lazy("Analytics"),
        (
            _Item(
                gettext_lazy("Async SQL"),
                "database",
                "sql.editor",
                also=("sql.task", "sql.plot", "sql.save"),
                needs=("dla:QueryTask", "*"),
            ),
            _Item(gettext_lazy("SQL jobs"), "route", "jobs.list", also=("jobs.",), needs=("dla:QueryJob", "job/*")),
            _Item(
                gettext_lazy("Change tracking"),
                "arrows-exchange",
                "tracking.list",
                also=("tracking.",),
                needs=("dts:QueryTrackingTask", "tracking/*"),
            ),
            _Item(
                gettext_lazy("Inflow tasks"),
                "timeline",
                "inflow.list",
                also=("inflow.",),
                needs=("dts:QueryInflowTask", "inflow/*"),
            ),
            _Item(
                gettext_lazy("Data lake"),
                "folders",
                "sql.buckets",
                also=("sql.bucket", "sql.bucket_rules"),
                needs=("dla:QueryTask", "*"),
            ),
            _Item(
                gettext_lazy("Archives"),
                "archive",
                "archive.index",
                also=("archive.index", "archive.delete"),
                needs=("dla:ArchiveTopic", "*"),
            ),
        ),
    ),
    (
        gettext_lazy("Account"),
        (
            _Item("AccessKeys", "key", "accounts.keys", also=("accounts.key_",)),
            _Item(
                gettext_lazy("Users"),
                "users",
                "accounts.users",
                also=("accounts.user",),
                needs=("ram:ListUsers", "user/*"),
            ),
            _Item(
                gettext_lazy("User groups"),
                "users-group",
                "accounts.groups",
                also=("accounts.group",),
                needs=("ram:ListGroups", "group/*"),
            ),
            _Item(
                gettext_lazy("Roles"), "mask", "accounts.roles", also=("accounts.role",), needs=("ram:ListRoles", "*")
            ),
            _Item(
                gettext_lazy("Policies"),
                "scale",
                "accounts.policies",
                also=("accounts.policy", "accounts.policies", "accounts.simulator"),
                needs=("ram:ListPolicies", "*"),
            ),
            _Item(
                gettext_lazy("Single sign-on"),
                "login",
                "accounts.single_sign_on",
                also=("accounts.single_sign_on",),
                needs=("ram:GetSingleSignOn", "*"),
            ),
            _Item(gettext_lazy("Audit"), "history", "audit.list", also=("audit.",), needs=("actiontrail:Read", "*")),
        ),
    ),
    (
        gettext_lazy("Tools"),
        (
            _Item("API Tool", "api", "openapi.tool", also=("openapi.tool",)),
            _Item(
                gettext_lazy("Broker drift"),
                "git-compare",
                "drift.index",
                also=("drift.",),
                needs=("mq:QueryInstance", ""),
            ),
            _Item(
                gettext_lazy("Unowned names"),
                "tag",
                "adoption.index",
                also=("adoption.",),
                needs=("platform:ListUnowned", "adoption/*"),
            ),
        ),
    ),
)
_PLATFORM: Sequence[tuple[str, Sequence[_Item]]] = (
    (
        gettext_lazy("Platform"),
        (
            _Item(gettext_lazy("Accounts"), "building", "platform.accounts", also=("platform.account",)),
            _Item(
                gettext_lazy("Organizations"),
                "sitemap",
                "platform.organizations",
                also=("platform.organization", "platform.resource"),
            ),
            _Item(gettext_lazy("Settings"), "settings", "platform.settings"),
            _Item(gettext_lazy("Clusters"), "server-2", "platform.clusters", also=("platform.cluster",)),
            _Item(gettext_lazy("Unowned names"), "tag", "adoption.index", also=("adoption.",)),
            _Item(gettext_lazy("Broker drift"), "git-compare", "drift.index", also=("drift.",)),
            _Item(gettext_lazy("Audit"), "history", "platform.audit"),
        ),
    ),
)


def sections(url_name: str, instance_id: str | None, may: May | None) -> list[Section]:
    """The sections for a page of the given URL name; entries inside an instance need the chosen one's id.

    An entry is left out when `may` says that its page would refuse the visitor. Without `may` they are those of the
    platform's administrator, who has pages of its own and none of an account.
    """
    built = []
    for title, items in _SECTIONS if may else _PLATFORM:
        allowed = [item for item in items if may is None or _is_open(item, instance_id, may)]
        entries = [entry for item in allowed if (entry := _entry(item, url_name, instance_id)) is not None]
        if entries:
            built.append(Section(title, entries))
    return built


def above(shown: Sequence[Section], path: str) -> Entry | None:
    """The entry that the page at `path` is below; None for an entry's own page, or one that is below none."""
    active = next((entry for section in shown for entry in section.entries if entry.active), None)
    return active if active is not None and active.url != path else None


def _is_open(item: _Item, instance_id: str | None, may: May) -> bool:
    if item.needs is None:
        return True
    action, path = item.needs
    return may(action, (instance_id or "") if item.in_instance else path)


def _entry(item: _Item, url_name: str, instance_id: str | None) -> Entry | None:
    if item.in_instance and instance_id is None:
        return None
    try:
        url = reverse(item.url_name, args=[instance_id] if item.in_instance else [])
    except NoReverseMatch:
        return None
    active = url_name == item.url_name or any(url_name.startswith(beginning) for beginning in item.also)
    return Entry(item.title, item.icon, url, active)
