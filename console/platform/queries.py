"""Reads of the platform's administrator: every account and organization, and what this copy is set to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.db.models import Count, IntegerField, Model, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.template.defaultfilters import filesizeformat
from django.utils.translation import gettext as _

from analytics import engine
from console.accounts.models import AccessKey, Organization, ResourceSet, Tenant, User
from console.accounts.organizations import Scope, ids_below
from console.accounts.services import MAX_KEYS_PER_USER
from console.accounts.services.keys import MAX_KEYS_PER_ORGANIZATION
from console.instances.addresses import access_point_pattern, names_resolve
from console.instances.models import Instance
from console.instances.queries import clusters, narrowed
from console.instances.services import MAX_INSTANCES
from console.rights import limits
from console.topics.models import Group, Topic
from console.web import regions
from console.web.languages import gettext_lazy
from console.web.regions import Region


def accounts(*, text: str = "", organization: Organization | None = None, enabled: bool | None = None) -> Any:
    """Tenant accounts with `instance_count`, `topic_count`, `group_count` and `user_count`.

    `organization` means those below it as well.
    """
    found = Tenant.objects.select_related("organization").annotate(
        instance_count=_count(Instance, "tenant"),
        topic_count=_count(Topic, "instance__tenant"),
        group_count=_count(Group, "instance__tenant"),
        user_count=_count(User, "tenant"),
    )
    if text:
        found = found.filter(Q(name__icontains=text) | Q(uid__startswith=text))
    if organization is not None:
        found = found.filter(organization__in=ids_below(organization))
    return found if enabled is None else found.filter(enabled=enabled)


def _count(model: type[Model], path: str) -> Coalesce:
    """A count of its own: several joins in one query would multiply each other."""
    rows = model._default_manager.filter(**{path: OuterRef("pk")}).order_by().values(path).annotate(n=Count("pk"))
    return Coalesce(Subquery(rows.values("n"), output_field=IntegerField()), 0)


def account(name: str) -> Tenant | None:
    """The account with its counts."""
    found: Tenant | None = accounts().filter(name=name).first()
    return found


def administrator(tenant: Tenant) -> User | None:
    """The user who acts for the account."""
    return tenant.users.filter(is_tenant_admin=True).first()


@dataclass(frozen=True)
class Branch:
    """One row of the tree: `level` 1 at the top."""

    organization: Organization
    level: int
    path: str
    accounts: int
    resource_sets: int
    access_keys: int


def tree(text: str = "") -> list[Branch]:
    """Every organization below its parent, by name; with a text only those whose name or ID has it. Three queries."""
    children: dict[int | None, list[Organization]] = {}
    for organization in Organization.objects.order_by("name"):
        children.setdefault(organization.parent_id, []).append(organization)
    accounts, sets, keys = (_by_organization(model) for model in (Tenant, ResourceSet, AccessKey))
    wanted = text.casefold()
    return [
        Branch(o, level, path, accounts.get(o.pk, 0), sets.get(o.pk, 0), keys.get(o.pk, 0))
        for o, level, path in _walk(children, None, 1, "")
        if not wanted or wanted in o.name.casefold() or wanted == str(o.pk)
    ]


def _walk(
    children: dict[int | None, list[Organization]], parent: int | None, level: int, path: str
) -> Iterator[tuple[Organization, int, str]]:
    for organization in children.get(parent, []):
        here = f"{path} / {organization.name}" if path else organization.name
        yield organization, level, here
        yield from _walk(children, organization.pk, level + 1, here)


def _by_organization(model: type[Model]) -> dict[int, int]:
    rows = model._default_manager.filter(organization__isnull=False).order_by()
    return dict(rows.values_list("organization").annotate(Count("pk")))


def organization(organization_id: int) -> Organization | None:
    """The organization with the one above it."""
    return Organization.objects.select_related("parent").filter(pk=organization_id).first()


def accounts_of(organization: Organization) -> QuerySet[Tenant]:
    """Accounts of the organization and of those below it, by name."""
    return Tenant.objects.filter(organization__in=ids_below(organization)).order_by("name")


def resource_sets(organization: Organization) -> QuerySet[ResourceSet]:
    """The organization's own sets with `instance_count`."""
    found = ResourceSet.objects.filter(organization=organization).order_by("name")
    return found.annotate(instance_count=_count(Instance, "resource_set"))


def resource_set(set_id: int) -> ResourceSet | None:
    """The set with its organization."""
    return ResourceSet.objects.select_related("organization").filter(pk=set_id).first()


def keys(organization: Organization) -> QuerySet[AccessKey]:
    """The organization's AccessKey pairs, oldest first."""
    return organization.access_keys.select_related("tenant", "organization").order_by("created_at")


def key(access_key_id: str) -> AccessKey | None:
    """An organization's pair; pairs of users are none of the platform's business."""
    found = AccessKey.objects.select_related("tenant", "organization").filter(organization__isnull=False)
    return found.filter(access_key_id=access_key_id).first()


def organization_choices() -> list[tuple[str, str]]:
    """ID and path of every organization, for a choice."""
    return [(str(branch.organization.pk), branch.path) for branch in tree()]


@dataclass(frozen=True)
class Fact:
    """One line: `copied` values are meant to be put into a program."""

    title: str
    value: str
    remark: str = ""
    copied: bool = False


@dataclass(frozen=True)
class RegionLine:
    """A region as an organization's page shows it, with the instances that the organization has there."""

    region: Region
    instance_count: int


def regions_of(organization: Organization) -> list[RegionLine]:
    """Every region, for callers who look up its ID there; empty where there is one, since nothing speaks of it."""
    if not regions.are_several():
        return []
    inside = narrowed(Instance.objects.all(), Scope(organization=organization))
    counts = dict(inside.order_by().values_list("region").annotate(Count("pk")))
    return [RegionLine(one, counts.get(one.id, 0)) for one in regions.regions()]


#: Why the console shows the name servers alone.
_UNRESOLVED = gettext_lazy(
    "In hints only: such names do not resolve on this machine. Clients get the TCP address "
    "and name their instance by a setting of their own (docs/operate/settings.md, "
    "GANTRY_ENDPOINT_HOST)"
)


@dataclass(frozen=True)
class Section:
    """Facts under one title."""

    title: str
    facts: list[Fact]


def settings_sections(origin: str) -> list[Section]:
    """What the settings page shows: addresses, region and limits of this copy, each in one sentence.

    `origin` is how the visitor reaches the console, as in https://mq.example.com.
    """
    return [_addresses(origin), _region(), _limits(), _sign_in(), _engine(), _queues()]


def _addresses(origin: str) -> Section:
    host = urlsplit(origin).hostname or "127.0.0.1"
    facts = [
        Fact(_("API address"), f"{origin}/json/", _("Management API: a path behind it is an operation"), copied=True),
        Fact(
            _("API address, RPC style"), f"{origin}/", _("For the vendor's SDKs: set it as the endpoint"), copied=True
        ),
        *([Fact(_("MCP address"), f"{origin}/mcp", _("For assistants"), copied=True)] if settings.MCP else []),
    ]
    unresolved = ""
    for cluster in clusters():
        if regions.are_several():
            remark = _("Name server of cluster %(cluster)s in %(region)s; NAMESRV_ADDR of clients")
        else:
            remark = _("Name server of cluster %(cluster)s; NAMESRV_ADDR of clients")
        remark %= {"cluster": cluster.name, "region": cluster.region}
        facts.append(Fact(_("TCP address"), cluster.namesrv, remark, copied=True))
        if cluster.from_settings and not names_resolve(cluster):
            unresolved = _UNRESOLVED
    facts += [
        Fact(_("Access points of instances"), access_point_pattern(), unresolved),
        Fact(_("MySQL endpoint"), f"{host}:{settings.SQL_PORT}", _("MySQL protocol, async SQL"), copied=True),
    ]
    return Section(_("Addresses"), facts)


def _region() -> Section:
    if not regions.are_several():
        said = _("_regionId of every call and header x-acs-regionid")
        return Section(_("Region"), [Fact(_("Region ID"), regions.default(), said, copied=True)])
    said = _("_regionId and header x-acs-regionid of its calls")
    facts = [Fact(one.name, one.id, said, copied=True) for one in regions.regions()]
    return Section(_("Regions"), facts)


def _limits() -> Section:
    window = settings.API_WINDOW_MINUTES
    return Section(
        _("Limits"),
        [
            Fact(_("Instances"), f"{MAX_INSTANCES}", _("an account")),
            Fact(_("AccessKeys"), f"{MAX_KEYS_PER_USER}", _("a user")),
            Fact(_("AccessKeys of organizations"), f"{MAX_KEYS_PER_ORGANIZATION}", _("a level-1 organization")),
            Fact(
                _("Allowed clock skew"),
                _("%(window)s minutes") % {"window": window} if window else _("not checked"),
                _("of callers of the API"),
            ),
            Fact(
                _("Query time limit"),
                _("%(sql_time_limit_s)s seconds") % {"sql_time_limit_s": settings.SQL_TIME_LIMIT_S},
                _("asynchronous; others have 60"),
            ),
        ],
    )


def _sign_in() -> Section:
    return Section(
        _("Sign-in"),
        [
            Fact(_("Only by TLS"), _("yes") if settings.HTTPS else _("no"), "GANTRY_HTTPS"),
            Fact(_("Host names"), ", ".join(settings.ALLOWED_HOSTS), "GANTRY_ALLOWED_HOSTS"),
        ],
    )


def _engine() -> Section:
    lacking = engine.wall_shortcoming()
    sentence = lacking or _(
        "It reads and writes the lake only, holds no secret, and connects to the brokers' ports only."
    )
    remark = _("%(sentence)s On the machine of this page; GANTRY_ENGINE_WALL") % {"sentence": sentence}
    return Section(
        _("SQL engine"), [Fact(_("Wall around the engine"), _("incomplete") if lacking else _("complete"), remark)]
    )


def _queues() -> Section:
    """What the queues of all accounts take of Redis, and may (GANTRY_SMQ_STORE_MAX_BYTES)."""
    held = limits.queues_held()
    if held is None:
        return Section(
            _("Queue service"), [Fact(_("Messages of all accounts"), _("unknown"), _("Redis does not answer."))]
        )
    most = filesizeformat(held.most_bytes) if held.most_bytes else _("any number")
    remark = (
        _("of %(most)s, about, in Redis; GANTRY_SMQ_STORE_MAX_BYTES. Sends are refused until consumers have made room.")
        if held.is_full
        else _("of %(most)s, about, in Redis; GANTRY_SMQ_STORE_MAX_BYTES. Beyond it sends are refused.")
    ) % {"most": most}
    facts = [
        Fact(_("Messages of all accounts"), f"{held.messages:,}", _("in queues, or waiting to be pushed")),
        Fact(_("Memory used"), filesizeformat(held.bytes), remark),
    ]
    return Section(_("Queue service"), facts)
